"""f-divergences D_f(p || q) = E_q[f(p/q)] (thesis table 2.1), written for the log of the ratio t = p/q.

    name          f(t)                                  conjugate f*(t)       output g(v)
    m-projection  t log t                               exp(t - 1)            v
    i-projection  -log t                                -1 - log(-t)          -exp(-v)
    jensen        -(t + 1) log((1 + t)/2) + t log t     -log(2 - exp t)       log 2 - log(1 + exp(-v))
    pearson       (t - 1)^2                             t^2/4 + t             v

D_f is the supremum of E_p[T] - E_q[f*(T)] (2.5), reached by T = f'(p/q); f-GAN takes T = g(v) of a network's output v.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

__all__ = ["DIVERGENCES", "FDivergence"]

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FDivergence:
    """Functions of tensors of any shape.

    Attributes
    ----------
    value : callable
        f(exp l) of l = log p/q.
    derivative : callable
        f'(exp l) of l.
    conjugate : callable
        f*(t) of t.
    output : callable
        g(v) of v.
    penalty : callable
        f*(g(v)) of v, in a form that does not overflow before its result does.
    """

    value: Function
    derivative: Function
    conjugate: Function
    output: Function
    penalty: Function


DIVERGENCES = {
    "m-projection": FDivergence(
        value=lambda log_t: log_t.exp() * log_t,
        derivative=lambda log_t: 1.0 + log_t,
        conjugate=lambda t: (t - 1.0).exp(),
        output=lambda v: v,
        penalty=lambda v: (v - 1.0).exp(),
    ),
    "i-projection": FDivergence(
        value=lambda log_t: -log_t,
        derivative=lambda log_t: -(-log_t).exp(),
        conjugate=lambda t: -1.0 - (-t).log(),
        output=lambda v: -(-v).exp(),
        penalty=lambda v: v - 1.0,
    ),
    "jensen": FDivergence(
        value=lambda log_t: log_t.exp() * log_t - (1.0 + log_t.exp()) * (softplus(log_t) - math.log(2.0)),
        derivative=lambda log_t: math.log(2.0) - softplus(-log_t),
        conjugate=lambda t: -(2.0 - t.exp()).log(),
        output=lambda v: math.log(2.0) - softplus(-v),
        penalty=lambda v: softplus(v) - math.log(2.0),
    ),
    "pearson": FDivergence(
        value=lambda log_t: (log_t.exp() - 1.0).square(),
        derivative=lambda log_t: 2.0 * (log_t.exp() - 1.0),
        conjugate=lambda t: 0.25 * t.square() + t,
        output=lambda v: v,
        penalty=lambda v: 0.25 * v.square() + v,
    ),
}
