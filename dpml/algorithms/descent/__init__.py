"""Descents: programs whose messages are sums of gradients, asked for at one model after the other."""
