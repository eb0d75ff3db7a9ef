"""Algorithms that perturb a model or the objective that it minimises, at one trusted curator."""
