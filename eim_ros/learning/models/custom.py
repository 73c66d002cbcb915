"""Experts of custom families of conditional normal distributions, such as factor analysers.

A family must define the methods of `ExpertFamily`: its distributions, and a fit to weighted samples. `CustomExperts`
turns a family into experts. EM needs an initial model with these experts: `fit(data, start=MixtureOfExperts(gating,
CustomExperts(family)))`. EIM fits custom experts by gradient steps, with `update="unstructured"`. The structured update
of EIM would need the I-projection onto the family. Fits to weighted samples are M-projections. M-projections make
experts too wide if the experts cannot represent the target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian

CHUNK_ELEMENTS = 262_144  # number of entries of Cholesky factors per block


@runtime_checkable
class ExpertFamily(Protocol):
    """Conditional normal distributions q(x|z, y) of all experts, with a custom parameterisation.

    The object must be a frozen dataclass of tensors, whose first axis has one entry per expert. Gradient steps of EIM
    may set the tensors to any value. Therefore, store positive parameters as logarithms.

    Examples
    --------
    Fit experts with the same variance in all directions to three points:

    >>> from dataclasses import dataclass
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> from eim_ros.learning.models import CustomExperts, Gaussian, MixtureOfExperts, SoftmaxGating
    >>> @dataclass(frozen=True)
    ... class Balls:
    ...     centres: torch.Tensor
    ...     log_radius: torch.Tensor
    ...     n_context = 0
    ...     n_dims = property(lambda self: self.centres.shape[1])
    ...     def select(self, component, context):
    ...         scale = self.log_radius[component].exp()[:, None, None]
    ...         return Gaussian(self.centres[component], scale * torch.eye(self.n_dims, dtype=scale.dtype))
    ...     def fitted(self, context, sample, weights):
    ...         centres = (weights.unsqueeze(-1) * sample).sum(1)
    ...         squares = (sample - centres.unsqueeze(1)).square().mean(-1)
    ...         return Balls(centres, 0.5 * (weights * squares).sum(1).log())
    >>> start = CustomExperts(Balls(torch.zeros(1, 2), torch.zeros(1)))
    >>> model = MixtureOfExperts(SoftmaxGating(torch.zeros(1, 0), torch.zeros(1)), start)
    >>> result = EM(n_iterations=1).fit([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], model)
    >>> result.means.tolist(), result.covariances.round(decimals=6).tolist()
    ([[1.0, 1.0]], [[[2.0, 0.0], [0.0, 2.0]]])
    """

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Return the distributions of the given experts, one per context.

        `component` (n_samples,) of int64 contains the indices of the experts for contexts (n_samples, n_context).
        """

    def fitted(self, context: Tensor, sample: Tensor, weights: Tensor) -> ExpertFamily:
        """Return the experts that maximise the weighted log-likelihood, or at least increase it.

        Each expert has its own contexts (n_components, n_samples, n_context), samples (n_components, n_samples, n_dims)
        and weights (n_components, n_samples), which sum to 1. An expert with a returned parameter that is not finite
        stays unchanged.
        """


@dataclass(frozen=True)
class CustomExperts:
    """Experts of a custom family. Each step of EM fits all experts to weighted samples.

    Custom experts cannot be saved in files. For data without contexts, `fit` returns a Gaussian mixture, which can be
    saved.

    Attributes
    ----------
    family : ExpertFamily

    Raises
    ------
    DistributionError
        If the family lacks a method, or is not a dataclass of tensors with equal lengths.

    Examples
    --------
    See `ExpertFamily`.

    >>> from eim_ros.learning.models import CustomExperts
    >>> CustomExperts(3)
    Traceback (most recent call last):
    ...
    eim_ros.core.errors.DistributionError: a family of experts needs n_dims, n_context, select and fitted, got 3
    """

    family: ExpertFamily

    def __post_init__(self) -> None:
        family: Any = self.family
        if isinstance(family, type) or not isinstance(family, ExpertFamily):
            raise DistributionError(
                f"a family of experts needs n_dims, n_context, select and fitted, got {family!r}", family
            )
        fields: list[Any] = list(vars(family).values()) if dataclasses.is_dataclass(family) else []
        sizes = {value.shape[0] if isinstance(value, Tensor) and value.dim() else None for value in fields}
        if len(sizes) != 1 or not next(iter(sizes)):
            raise DistributionError(
                "a family of experts must be a dataclass of tensors with one row for each expert, got an "
                f"object of type {type(family).__name__} with tensors of lengths {sorted(sizes, key=str)}",
                type(family).__name__,
            )

    @property
    def n_components(self) -> int:
        return len(next(iter(self.tensors().values())))

    @property
    def n_dims(self) -> int:
        return self.family.n_dims

    @property
    def n_context(self) -> int:
        return self.family.n_context

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Return the distributions of the given experts (n_samples,) of int64, one per context."""
        return self.family.select(component, context)

    def local(self, context: Tensor) -> Gaussian:
        """Return the distributions of each expert at its own contexts (n_components, n_samples, n_context).

        The batch shape of the result is (n_components, n_samples).
        """
        batch = context.shape[:2]
        component = torch.arange(batch[0], device=context.device).repeat_interleave(batch[1])
        found, n_dims = self.select(component, context.flatten(0, 1)), self.n_dims
        factors = found.scale_tril.expand(len(component), n_dims, n_dims)
        return Gaussian(found.mean.reshape(*batch, n_dims), factors.reshape(*batch, n_dims, n_dims))

    def __call__(self, context: Tensor) -> Gaussian:
        """Return the distributions (n_samples, n_components) of all experts at contexts (n_samples, n_context)."""
        local = self.local(context.expand(self.n_components, *context.shape))
        return Gaussian(local.mean.transpose(0, 1), local.scale_tril.transpose(0, 1))

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""
        return torch.cat([self(y).log_prob(x.unsqueeze(1)) for y, x, _ in self._parts(context, sample, sample)])

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context (n_samples, n_context) from the given experts (n_samples,) of int64."""
        return self.select(component, context).sample(generator=generator)

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Return the gradient of log sum_k exp(log_gate_k) N_k(x) with respect to the sample x, (n_samples, n_dims)."""
        parts = []
        for y, x, gate in self._parts(context, sample, log_gate):
            experts = self(y)
            weights = torch.softmax(gate + experts.log_prob(x.unsqueeze(1)), -1)
            parts.append((weights.unsqueeze(-1) * experts.score(x.unsqueeze(1))).sum(1))
        return torch.cat(parts)

    def take(self, index: Tensor) -> CustomExperts:
        """Return the experts with the indices (n,) of int64, in this order."""
        return self.with_tensors({name: value[index] for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        return dict(vars(self.family))

    def with_tensors(self, tensors: dict[str, Tensor]) -> CustomExperts:
        """Return experts of the same family with other parameters. `DistributionError` lists wrong names."""
        different = sorted(self.tensors().keys() ^ tensors.keys())
        if different:
            raise DistributionError(
                f"the parameters do not match {type(self.family).__name__}; missing or unknown names: "
                f"{', '.join(different)}",
                different,
            )
        family: Any = self.family
        return CustomExperts(dataclasses.replace(family, **tensors))

    def refitted(self, context: Tensor, sample: Tensor, weights: Tensor) -> CustomExperts:
        """Return the experts after a fit to weighted samples. The arguments are as in `ExpertFamily.fitted`.

        The weights need not be normalised. An expert stays unchanged if it has no weight, or if its fit is not finite.
        """
        total = weights.sum(1, keepdim=True)
        usable = (total > 0.0) & torch.isfinite(total)
        shares = torch.where(usable, weights / total, 1.0 / weights.shape[1])
        new, accepted = CustomExperts(self.family.fitted(context, sample, shares)).tensors(), usable.squeeze(1)
        for value in new.values():
            accepted = (
                accepted & torch.isfinite(value).flatten(1).all(1) if value.dim() > 1 else accepted & value.isfinite()
            )
        chosen = {
            name: torch.where(accepted.reshape(-1, *[1] * (old.dim() - 1)), new[name], old)
            for name, old in self.tensors().items()
        }
        return self.with_tensors(chosen)

    def _parts(self, context: Tensor, sample: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield blocks of rows of limited size, or a single empty block if there are no rows."""
        step = max(1, CHUNK_ELEMENTS // (self.n_components * self.n_dims**2))
        return zip(context.split(step), sample.split(step), other.split(step), strict=True)
