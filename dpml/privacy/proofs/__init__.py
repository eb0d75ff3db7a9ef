"""Compute guarantees from proofs that several algorithms share."""
