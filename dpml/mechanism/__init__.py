"""Compute private releases: noisy sums over several parties, and their privacy guarantees."""
