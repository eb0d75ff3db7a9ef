"""Compose the configuration of a run with Hydra, and build its objects."""
