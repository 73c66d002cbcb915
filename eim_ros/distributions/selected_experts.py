"""Log densities and scores of linear experts at few components per sample, which may differ from sample to sample.

The cost does not depend on the number of experts: a compiled loop over the products of the coordinates, about 15 ns per
density at D = 10 on one core; on other devices than the CPU a batch of Gaussians per column.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating
from eim_ros.distributions.linear_experts import LinearExperts
from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.quadratic_form import QuadraticForms
from eim_ros.distributions.standardisation import Standardisation, linear_parts
from eim_ros.errors import DistributionError

__all__ = ["SelectedExperts", "selected_log_prob", "selected_score"]


def selected_log_prob(experts: LinearExperts, context: Tensor, sample: Tensor, index: Tensor) -> Tensor:
    """Log density [nat] of each sample under selected experts.

    Parameters
    ----------
    experts : LinearExperts
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    index : Tensor (n_samples, n_selected) of int64
        Components of each sample.

    Returns
    -------
    Tensor (n_samples, n_selected)
    """
    return SelectedExperts(experts, context, sample, index).log_prob()


def selected_score(experts: LinearExperts, context: Tensor, sample: Tensor, index: Tensor, log_gate: Tensor) -> Tensor:
    """Gradient of log sum_g exp(log_gate_g) N_g(sample) with respect to the sample, (n_samples, n_dims).

    Parameters
    ----------
    experts, context, sample, index
        As for `selected_log_prob`.
    log_gate : Tensor (n_samples, n_selected)
        Log weights, up to a constant of the sample; minus infinity leaves a component out.
    """
    selected = SelectedExperts(experts, context, sample, index)
    return selected.score(torch.softmax(log_gate + selected.log_prob(), -1))


class SelectedExperts:
    """Selected experts at some samples; what density and score share is computed once.

    Parameters
    ----------
    experts, context, sample, index
        As for `selected_log_prob`.
    """

    def __init__(self, experts: LinearExperts, context: Tensor, sample: Tensor, index: Tensor) -> None:
        self.experts, self.context, self.sample, self.index = experts, context, sample, index
        if index.dim() != 2 or len(index) != len(sample) or bool(((index < 0) | (index >= experts.n_components)).any()):
            raise DistributionError(
                f"expected indices ({len(sample)}, n_selected) of {experts.n_components} components, got "
                f"{tuple(index.shape)}",
                index,
            )
        self._compiled = sample.device.type == "cpu" and sample.dtype == torch.float64 and len(sample) > 0
        if self._compiled:
            self._units = Standardisation.from_data(context, sample)
            blank = SoftmaxGating(
                experts.weights.new_zeros(experts.n_components, experts.n_context), experts.biases[:, 0]
            )
            standard = linear_parts(self._units.standard(MixtureOfExperts(blank, experts)))[1]
            self._forms = QuadraticForms.from_experts(standard).selected()
            self._joint = self._units.joint(context, sample).detach().numpy()

    def log_prob(self) -> Tensor:
        """Log densities [nat], (n_samples, n_selected)."""
        if not self._compiled:
            columns = [self.experts.select(one, self.context).log_prob(self.sample) for one in self.index.unbind(-1)]
            return torch.stack(columns, -1) if columns else self.sample.new_zeros(self.index.shape)
        values = self._forms.values(self._joint, self.index.numpy())
        return torch.from_numpy(values) - self._units.log_volume()

    def score(self, shares: Tensor) -> Tensor:
        """Gradients of the log densities in the sample, averaged with shares (n_samples, n_selected)."""
        if not self._compiled:
            total = torch.zeros_like(self.sample)
            for one, share in zip(self.index.unbind(-1), shares.unbind(-1), strict=True):
                gaussian = self.experts.select(one, self.context)
                whitened = gaussian.whiten(self.sample).unsqueeze(-1)
                total -= share.unsqueeze(-1) * _solve_transposed(gaussian.scale_tril, whitened)
            return total
        scores = self._forms.scores(self._joint, self.index.numpy(), shares.detach().numpy())
        return torch.from_numpy(scores) / self._units.sample_scale


def _solve_transposed(factor: Tensor, right: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(factor.mT, right, upper=True)
    return solved.squeeze(-1)
