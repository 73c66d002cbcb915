"""The natural gradient of a softmax gating whose rewards are not linear in the context.

The gradient of E_y sum_o q(o|y) R_o(y) in the logits' coefficients of the features f_o, and the Fisher matrix times
such coefficients rho, both over q(o), are

    g_o = E_o[(R_o(y) - R(y)) f_o],                   R(y) = sum_o q(o|y) R_o(y)
    (F rho)_o = E_o[(rho_o'f_o - rho(y)) f_o],        rho(y) = sum_o q(o|y) rho_o'f_o

If R_o = r_o'f_o then r is the natural gradient. Otherwise, with r_o the least squares fit of R_o over p(y|o), it is

    rho = r + d,    F d = -E_o[n(y) f_o],    n(y) = sum_o q(o|y) (R_o(y) - r_o'f_o(y))

where n is what linear functions leave of the rewards. Some of it is common to all components: contexts that are hard
for every one of them. Without d each of them would take its own linear part of that for a merit. Conjugate gradients
find it: they need F times a vector only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from eim_ros.inference.variational.context_gate import ContextGate

__all__ = ["with_common_rest"]

N_CONTEXTS = 2000  # of those of the gate, at which the Fisher matrix is taken
DAMPING = 0.01  # added to the Fisher matrix, in units of a component's probability; and one per effective sample and
# feature: what few samples tell is damped
N_STEPS = 10  # of conjugate gradients


def with_common_rest(
    gate: ContextGate,
    fitted: Tensor,
    context: Tensor,
    value: Tensor,
    share: Tensor,
    n_effective: Tensor,
    *,
    n_steps: int = N_STEPS,
) -> Tensor:
    """The natural gradient rho from the fits r.

    Parameters
    ----------
    gate : ContextGate
    fitted : Tensor (n_components, n_context + 1)
        r, of the features of each component.
    context : Tensor (n_samples, n_context)
        Contexts of samples.
    value : Tensor (n_samples,)
        R [nat] at the samples.
    share : Tensor (n_samples,)
        Weights of the samples for the mixture.
    n_effective : Tensor (n_components,)
        Effective number of samples of each component.
    n_steps : int

    Returns
    -------
    Tensor (n_components, n_context + 1)
    """
    probs = gate.log_prob(context).exp()  # over q(o)
    mass = gate.log_mass.exp().unsqueeze(-1)
    linear = gate.linear(fitted)
    mean = (probs * torch.addmm(linear[:, -1], context, linear[:, :-1].T)) @ mass.squeeze(-1)
    rest = share * (value - mean)
    rest = rest - share * (rest.sum() / share.sum())
    right = gate.moments(probs, context, rest.unsqueeze(-1))
    damping = DAMPING + fitted.shape[1] / n_effective.unsqueeze(-1)
    every = max(1, len(gate.context) // N_CONTEXTS)
    places, ratios = gate.context[::every], gate.log_probs[::every].exp() / mass.squeeze(-1)

    def product(rho: Tensor) -> Tensor:
        linear = gate.linear(rho)
        values = torch.addmm(linear[:, -1], places, linear[:, :-1].T)
        values = values - (ratios * values) @ mass
        return gate.moments(ratios, places, values / len(places)) + damping * rho

    return fitted - _conjugate_gradients(product, right, mass, n_steps)


def _conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, mass: Tensor, n_steps: int) -> Tensor:
    """Solution of product(d) = right, where the product is symmetric in the metric of masses (n_components, 1)."""
    solution, residual = torch.zeros_like(right), right
    direction, size = residual, (mass * residual.square()).sum()
    for _ in range(n_steps):
        if not float(size) > 0.0:
            break
        image = product(direction)
        length = size / (mass * direction * image).sum()
        solution, residual = solution + length * direction, residual - length * image
        new_size = (mass * residual.square()).sum()
        direction, size = residual + new_size / size * direction, new_size
    return solution
