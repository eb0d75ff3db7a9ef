"""Define algorithms that release a noisy sum of gradients in every round."""
