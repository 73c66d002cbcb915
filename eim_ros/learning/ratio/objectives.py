"""Objectives of density ratio estimation: the Bregman family (thesis 2.3.2, eq. 2.2), written for phi = log r.

A Bregman divergence of f between the true ratio p/q and an estimate r is, up to a constant,

    E_q[f'(r) r - f(r)] - E_p[f'(r)].                                                                          (2.2)

    logistic  f(t) = t log t - (1 + t) log(1 + t):  E_q[softplus(phi)] + E_p[softplus(-phi)], the binary cross entropy
    lsif      f(t) = (t - 1)^2/2:                   E_q[r^2]/2 - E_p[r] + 1/2, least squares importance fitting
    kliep     f(t) = t log t - t:                   E_q[r] - E_p[phi], Kullback-Leibler importance estimation

All have the same minimiser, r = p/q. What differs is how they weigh the errors: the derivative by phi of the logistic
loss is at most one, that of the others grows as r and r^2. Where r is large they explode, as the thesis warns of LSIF
(4.3.1); an estimator must expect losses and gradients that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import softplus

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def logistic(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Losses of each sample of p and of q; the sum of their means is (2.2).

    Parameters
    ----------
    phi_p, phi_q : Tensor (...)
        Estimates of log p/q [nat] at samples of p and at samples of q.
    """
    return softplus(-phi_p), softplus(phi_q)


def lsif(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Losses of least squares importance fitting; arguments as of `logistic`."""
    return -phi_p.exp(), 0.5 * (2.0 * phi_q).exp()


def kliep(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Losses of Kullback-Leibler importance estimation with its constraint E_q[r] = 1 relaxed to a penalty.

    Arguments as of `logistic`. At the minimum over constants added to phi, E_q[r] = 1 holds.
    """
    return -phi_p, phi_q.exp()


OBJECTIVES: dict[str, Objective] = {"logistic": logistic, "lsif": lsif, "kliep": kliep}
