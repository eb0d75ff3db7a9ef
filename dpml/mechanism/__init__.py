"""Compute private releases: noisy sums over parties, their noise, and their guarantees."""
