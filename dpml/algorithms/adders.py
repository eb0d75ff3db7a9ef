"""Who adds up what M parties send in a secure sum: the real protocol, in this process or between machines."""

from typing import Protocol

from numpy.random import Generator

from dpml.arrays import Array
from dpml.privacy import Problem
from dpml.privacy.discrete.rounding import Integers


class Adder(Protocol):
    """A way to run secure sums with the colluders of a problem, one after the other."""

    def reals(self, vectors: Array, bound: float, problem: Problem, rng: Generator) -> Array:
        """The sum (n,) of vectors (M, n), none of whose entries exceeds a public `bound`; `rng` rounds them."""
        ...

    def integers(self, vectors: Integers, problem: Problem) -> Integers:
        """The exact sum (n,) of vectors (M, n), modulo 2^64."""
        ...


class InProcess:
    """All parties in this process (`dpml.protocols.in_process`)."""

    def reals(self, vectors: Array, bound: float, problem: Problem, rng: Generator) -> Array:
        from dpml.protocols import choose, secure_sum  # most runs need no cryptography

        return secure_sum(vectors, bound, rng, topology=choose(problem.M, problem.colluders)).total

    def integers(self, vectors: Integers, problem: Problem) -> Integers:
        from dpml.protocols import choose, secure_sum_integers  # most runs need no cryptography

        return secure_sum_integers(vectors, topology=choose(problem.M, problem.colluders)).total


IN_PROCESS = InProcess()
