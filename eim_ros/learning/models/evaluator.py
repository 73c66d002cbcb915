"""Fast evaluation of the density and the score of a mixture of experts at many samples, exact or truncated.

Exact: one matrix product with the products of the coordinates gives all log joint densities of a linear model (see
`quadratic_form.py`). The posterior mean of the coefficients is a quadratic form too. The gradient of this form is the
score.

Truncated: log q_K(x|y) = log sum_{z in K} q(z|y) q(x|z, y), where the gating is normalised over all components. log q_K
is a lower bound of log q(x|y). The gap between both is minus the log of the posterior mass of K. In EIM, q_K defines
the truncated posterior q~(z|x, y) = q(x, z|y)/q_K(x|y) (Luecke 2016, eqs. 3 and 18). For a sample drawn by expert i, K
contains i and the components nearest to i. Therefore, the time per sample does not depend on the number of components.

A compiled loop on the CPU evaluates the components in K. This loop takes about 15 ns per density with D = 10 on one
core.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.quadratic_form import (
    QuadraticForms,
    nearest_components,
    products_of_coordinates,
    products_of_samples,
)
from eim_ros.learning.models.standardisation import Standardisation, linear_parts

CHUNK_ELEMENTS = 262_144  # number of log joint densities per block; a block fits into the cache
# Smaller probabilities are negligible. At this limit, exp does not underflow yet; underflow would be several times
# slower.
LEAST_LOG_PROBABILITY = -300.0
FEW_COMPONENTS = 50  # with fewer components, the products of the coordinates cost more time than they save
HASH_SEED = 0


class PreparedMixture:
    """Model that is prepared for evaluations of its density and score at many samples.

    A model that is not linear or has few components is evaluated by its own methods. The computation is standardised
    with typical contexts (n, n_context) and samples (n, n_dims), for example the data.

    If the component that drew a sample is known, only `n_states` components are evaluated for this sample. If
    `n_states` is 0 or at least the number of components, nothing is truncated. Truncation is available only on the CPU.
    With truncation, `states` (n_components, n_states) of int64 contains K for the samples of each expert, beginning
    with the expert itself. Otherwise, it has no columns.
    """

    def __init__(self, model: MixtureOfExperts, context: Tensor, sample: Tensor, n_states: int = 0) -> None:
        self.model = model
        self.states = torch.empty(model.n_components, 0, dtype=torch.int64)
        truncated = 0 < n_states < model.n_components and sample.device.type == "cpu"
        worthwhile = truncated or model.n_components >= FEW_COMPONENTS
        self._prepared = model.is_linear and worthwhile and sample.dtype == torch.float64
        if not self._prepared:
            return
        self._units = Standardisation.from_data(context, sample)
        standard = self._units.standard(model)
        self._gating, _ = linear_parts(standard)
        self._forms = QuadraticForms.from_model(standard)
        if truncated:
            no_samples = context.new_zeros(len(context), model.n_dims)
            standard_context = self._units.joint(context, no_samples)[:, model.n_dims :]
            products = products_of_samples(standard, standard_context)
            self.states = nearest_components(self._forms, products, n_states)
            self._selected = self._forms.selected()

    @classmethod
    def unprepared(cls, model: MixtureOfExperts) -> PreparedMixture:
        """Wrap a model without preparation. The wrapper evaluates the model by its own methods."""
        nothing = torch.empty(0, 0)
        return cls(model, nothing, nothing.to(torch.float32))

    def log_prob(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Return the log density [nat], (n,), of samples (n, n_dims) at contexts (n, n_context).

        The density may be truncated if `component` (n,) of int64 contains the experts that drew the samples.
        """
        if not self._prepared:
            return self.model.log_prob(context, sample)
        joint = self._units.joint(context, sample)
        if component is None or self.states.shape[1] == 0:
            values = self._exact(joint, score=False)
        else:
            sums = self._selected.log_sums(joint.detach().numpy(), self.states.numpy(), component.numpy())
            values = torch.from_numpy(sums)
        return values - self._log_normaliser(joint[:, self.model.n_dims :]) - self._units.log_volume()

    def score(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Return the gradient of the log density with respect to the sample, (n_samples, n_dims).

        The arguments are as in `log_prob`.
        """
        if not self._prepared:
            return self.model.score(context, sample)
        joint = self._units.joint(context, sample)
        if component is None or self.states.shape[1] == 0:
            return self._exact(joint, score=True) / self._units.sample_scale
        points, index = joint.detach().numpy(), self.states[component].numpy()
        values = torch.from_numpy(self._selected.values(points, index))
        scores = self._selected.scores(points, index, torch.softmax(values, -1).numpy())
        return torch.from_numpy(scores) / self._units.sample_scale

    def truncation_error(self, context: Tensor, sample: Tensor, component: Tensor) -> float:
        """Return the mean of log q - log q_K [nat] over samples from known components, or 0 without truncation."""
        if self.states.shape[1] == 0:
            return 0.0
        exact, truncated = (self.log_prob(context, sample, known) for known in (None, component))
        return float((exact - truncated).mean())

    def _exact(self, joint: Tensor, score: bool) -> Tensor:
        """Return the log of the sum of the joint densities, (n_samples,), or the score, (n_samples, n_dims).

        Both results are in standardised coordinates.
        """
        n_dims, n_components = self.model.n_dims, self.model.n_components
        step = max(1, CHUNK_ELEMENTS // n_components)
        buffer = joint.new_empty(min(step, len(joint)), n_components)
        parts = [joint.new_empty(0, n_dims) if score else joint.new_empty(0)]
        for rows in joint.split(step):
            products = products_of_coordinates(rows)
            values = self._forms(rows, products, buffer[: len(rows)])
            largest = values.amax(-1, keepdim=True)
            weights = values.sub_(largest).clamp_min_(LEAST_LOG_PROBABILITY).exp_()
            normaliser = weights.sum(-1, keepdim=True)
            if score:
                parts.append(self._forms.gradient(rows, weights.div_(normaliser))[:, :n_dims])
            else:
                parts.append((largest + normaliser.log()).squeeze(-1))
        return torch.cat(parts)

    def _log_normaliser(self, context: Tensor) -> Tensor:
        """Return log sum_i exp(V y + v)_i, (n_samples,). Each distinct context is evaluated only once."""
        gating = self._gating
        if gating.n_context == 0:
            return torch.logsumexp(gating.biases, 0).expand(len(context))
        distinct, index = _distinct(context)
        step = max(1, CHUNK_ELEMENTS // gating.n_components)
        buffer = context.new_empty(min(step, len(distinct)), gating.n_components)
        parts = [context.new_empty(0)]
        for rows in distinct.split(step):
            logits = torch.addmm(gating.biases, rows, gating.weights.T, out=buffer[: len(rows)])
            largest = logits.amax(-1)
            weights = logits.sub_(largest.unsqueeze(-1)).clamp_min_(LEAST_LOG_PROBABILITY).exp_()
            parts.append(largest + weights.sum(-1).log())
        return torch.cat(parts)[index]


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows, and the index of each given row among them.

    Rows are compared by a random projection, because sorting one number per row is fast. If two distinct rows have the
    same projection, all rows are treated as distinct.
    """
    generator = torch.Generator().manual_seed(HASH_SEED)
    direction = torch.randn(rows.shape[1], generator=generator, dtype=rows.dtype).to(rows.device)
    _, index = torch.unique((rows * direction).sum(-1), return_inverse=True)
    first = torch.empty(int(index.max()) + 1 if len(index) else 0, dtype=torch.int64, device=rows.device)
    first[index] = torch.arange(len(rows), device=rows.device)
    distinct = rows[first]
    if torch.equal(distinct[index], rows):
        return distinct, index
    return rows, torch.arange(len(rows), device=rows.device)
