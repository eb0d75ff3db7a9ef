"""From Hydra's configuration to objects."""
