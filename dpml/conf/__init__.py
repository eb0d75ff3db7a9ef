"""The Hydra configuration tree of `dpml-run`."""
