"""Compose the configuration of a run with Hydra, and build the objects that the configuration describes."""
