"""Algorithms that release noisy sums of gradients at one model after another."""
