"""Proofs that several algorithms share."""
