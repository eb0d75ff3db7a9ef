"""Every sampler of `dpml.privacy.noise`, at small sizes: a test of the audit sees that none is left out."""

from dpml.privacy import noise

SAMPLERS = {
    "gaussian": lambda rng: noise.gaussian(rng, (50, 3)),
    "single_gaussian": lambda rng: noise.single_gaussian(rng, (50, 3)),
    "laplace": lambda rng: noise.laplace(rng, (50, 3)),
    "l2_laplace": lambda rng: noise.l2_laplace(rng, 50, 3),
    "radial": lambda rng: noise.radial(rng, 50, 3),
    "l2_laplace_total": lambda rng: noise.l2_laplace_total(rng, 50, 4, 3),
    "cape_messages": lambda rng: noise.cape_messages(rng, 50, 4, 3, 2.0, 0.5)[0],
}
