"""Privacy of objective perturbation with Gaussian noise for several classes, replacing one row of norm at most 1.

Released is the minimiser of ``sum_i softmax loss + R/2 ||w||^2 + <b, w>`` over w (K, d), b of independent N(0,
sigma^2) entries, R > 0. The gradient of a row is ``g (x) x`` with ``g = p - e_y``, its curvature ``(diag(p) - pp') (x)
xx'``. By change of variables w -> b, the densities of w with a row and without it differ by the noise and by a factor
``det(I + J^-1 C)``, J >= R the Hessian without the row, C its curvature (docs/privacy/perturbed_minima.md).

*Noise.* p is a mean of unit vectors, so g lies in the convex hull of ``e_k - e_y``. At a w the loss of the noise alone
is ``(+-2 <b, g (x) x> + ||g (x) x||^2)/(2 sigma^2)``, convex in g, and at most the largest of its values at the K
corners: 0, and K - 1 losses of Gaussian mechanisms of sensitivity ``||(e_k - e_y) (x) x|| <= sqrt 2``. The positive
part of ``1 - e^(t - loss)`` is at most the sum of theirs: (K - 1) d_m(t) for t >= 0, m = sqrt 2/sigma, d_m the curve of
m-GDP.

*Jacobian.* C has K - 1 eigenvalues, whose sum is at most ``1 - ||p||^2 <= 1 - 1/K``, so that (means) ``log det <= kappa
= (K - 1) log(1 + 1/(K R))``. Less than 1/R, however many classes there are: no more than K - 1 times the largest.

*Replacing* x by x' is adding x', which has no Jacobian to pay for, and taking x away. With ``H_(s+t)(P, Q) <= H_s(P, O)
+ e^s H_t(O, Q)``, s = (e - m^2)/2, t = kappa + (e + m^2)/2 and e = eps - kappa >= m^2, that is (K - 1) (d_m(s) + e^s
d_m(t - kappa)) = (K - 1) d_2m(e).
"""

import math

from dpml.privacy import gdp
from dpml.privacy.safe import down, enough, up


def price(ridge: float, classes: int) -> float:
    """kappa, what the curvature of a row costs of eps, for R = `ridge`; rounded up."""
    return up((classes - 1) * math.log1p(1 / (classes * ridge)))


def eps_of(sigma: float, ridge: float, classes: int, delta: float) -> float:
    """The least eps that is proven at `delta`, rounded up; inf without noise, without a ridge, or for fewer than two
    classes."""
    if sigma == 0 or ridge == 0 or classes < 2:
        return math.inf
    noise = gdp.eps_of(up(2 * math.sqrt(2) / sigma), down(delta / (classes - 1)))
    return up(max(noise, up(2 / sigma / sigma)) + price(ridge, classes))


def sigma_of(eps: float, ridge: float, classes: int, delta: float) -> float:
    """The least sigma that is proven to give (eps, delta) with this ridge, rounded up; inf where none is."""
    left = down(down(eps) - price(ridge, classes))
    if left <= 0:
        return math.inf
    return enough(max(2 * math.sqrt(2) / gdp.mu_of(left, down(down(delta / (classes - 1)))), math.sqrt(2 / left)))
