"""Objectives of density ratio estimation from the Bregman family, as functions of phi = log r (thesis 2.3.2, eq. 2.2).

The Bregman divergence of f between the true ratio p/q and an estimate r is, up to a constant,

    E_q[f'(r) r - f(r)] - E_p[f'(r)].                                                                          (2.2)

    logistic  f(t) = t log t - (1 + t) log(1 + t):  E_q[softplus(phi)] + E_p[softplus(-phi)], the binary cross entropy
    lsif      f(t) = (t - 1)^2/2:                   E_q[r^2]/2 - E_p[r] + 1/2, least squares importance fitting
    kliep     f(t) = t log t - t:                   E_q[r] - E_p[phi], Kullback-Leibler importance estimation

All objectives have the same minimiser r = p/q, but they weight errors differently. The derivative of the logistic loss
with respect to phi is at most 1. For KLIEP it grows like r, and for LSIF like r^2. Both become unstable if r is large
(thesis 4.3.1 for LSIF), so estimators must handle losses and gradients that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import softplus

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def logistic(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logistic losses of each sample of p and of each sample of q; the sum of both means is (2.2).

    `phi_p` and `phi_q` are estimates of log p/q [nat] at samples of p and of q. The losses have their shapes.
    """
    return softplus(-phi_p), softplus(phi_q)


def lsif(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses of least squares importance fitting, with the arguments of `logistic`."""
    return -phi_p.exp(), 0.5 * (2.0 * phi_q).exp()


def kliep(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses of Kullback-Leibler importance estimation, with the arguments of `logistic`.

    The constraint E_q[r] = 1 is relaxed to a penalty. At the minimum over a constant added to phi, it is satisfied.
    """
    return -phi_p, phi_q.exp()


OBJECTIVES: dict[str, Objective] = {"logistic": logistic, "lsif": lsif, "kliep": kliep}
