"""Heikkilä et al. 2017: the distributed compute algorithm (DCA) for Bayesian linear regression."""
