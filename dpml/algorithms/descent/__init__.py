"""Gradient descents: programs whose messages are sums of gradients at one model after another."""
