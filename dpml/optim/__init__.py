"""Losses and their minimisers: no noise."""
