"""A fitted model as people from scikit-learn look for it: predict, predict_proba, score, sample, save, load.

Data are what `fit` takes: samples (n, d), or for a model with contexts a pair (context, sample). Answers come as the
data do: NumPy arrays for arrays, tensors for tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts, load_model, save_model
from eim_ros.errors import DataError, DistributionError
from eim_ros.inference.training_data import checked_data
from eim_ros.numerics.threads import torch_threads

__all__ = ["FittedModel"]

CHUNK_ELEMENTS = 4_194_304  # probabilities at a time


@dataclass(frozen=True)
class FittedModel:
    """A Gaussian mixture, or a mixture of experts, with the questions that are asked of a fitted model.

    Attributes
    ----------
    mixture_of_experts : MixtureOfExperts
        The model; without contexts it has n_context 0.
    conditional : bool
        Whether it has contexts.
    """

    mixture_of_experts: MixtureOfExperts
    conditional: bool = field(default=True, kw_only=True)

    @property
    def model(self) -> MixtureOfExperts | GaussianMixture:
        """What was asked for: a mixture of experts for data with contexts, a Gaussian mixture for samples alone."""
        return self.mixture_of_experts if self.conditional else self.mixture_of_experts.as_mixture()

    @property
    def n_components(self) -> int:
        return self.mixture_of_experts.n_components

    @property
    def n_dims(self) -> int:
        return self.mixture_of_experts.n_dims

    @property
    def weights(self) -> Tensor:
        """Weights of the components, (n_components,), which sum to one."""
        return self._mixture("weights").weights

    @property
    def means(self) -> Tensor:
        """Means of the components, (n_components, n_dims)."""
        return self._mixture("means").means

    @property
    def covariances(self) -> Tensor:
        """Covariances of the components, (n_components, n_dims, n_dims)."""
        return self._mixture("covariances").covariances

    @torch_threads()
    def predict(self, data: Any) -> Any:
        """The most probable component of each sample, (n_samples,) of int64."""
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_joint(context, sample).argmax(-1))

    @torch_threads()
    def predict_proba(self, data: Any) -> Any:
        """Probability of each component given the sample, and its context, (n_samples, n_components)."""
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_responsibilities(context, sample).exp())

    @torch_threads()
    def score_samples(self, data: Any) -> Any:
        """Log density of each sample, given its context if there are any, (n_samples,) [nat]."""
        return self._of_rows(data, self.mixture_of_experts.log_prob)

    def score(self, data: Any) -> float:
        """Mean log density of the samples [nat]; the greater, the better."""
        return float(self.score_samples(data).mean())

    def sample(self, n: int | Sequence[int] = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (n, n_dims) of a model without contexts; `model(context).sample(n)` draws of one with them."""
        return self._mixture("sample").sample(n, generator)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, as `save_model` does."""
        save_model(path, self.model)

    @staticmethod
    def load(path: str | Path) -> FittedModel:
        """Read what `save` or `save_model` wrote; `ModelFileError` says why a file is refused."""
        return FittedModel.of(load_model(path)[0])

    @staticmethod
    def of(model: GaussianMixture | MixtureOfExperts) -> FittedModel:
        """A model from elsewhere, as if it had been fitted."""
        if isinstance(model, GaussianMixture):
            return FittedModel(MixtureOfExperts.from_mixture(model), conditional=False)
        return FittedModel(model)

    def _mixture(self, asked: str) -> GaussianMixture:
        """The Gaussian mixture that the model is."""
        if self.conditional:
            raise DistributionError(
                f"{asked} of a model with contexts depend on them: ask model(context), a batch of Gaussian mixtures",
                asked,
            )
        return self.mixture_of_experts.as_mixture()

    def _of_rows(self, data: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
        """A function of contexts and samples, a bounded number at a time, in the form of the data."""
        model, checked = self.mixture_of_experts, checked_data(data)
        sizes, expected = (checked.sample.shape[1], checked.context.shape[1]), (model.n_dims, model.n_context)
        if sizes != expected or checked.conditional != self.conditional:
            wanted = (
                f"pairs (context (n, {expected[1]}), sample (n, {expected[0]}))"
                if self.conditional
                else (f"samples (n, {expected[0]})")
            )
            raise DataError(f"the model takes {wanted}, got (n_dims, n_context) {sizes}", sizes)
        rows = max(1, CHUNK_ELEMENTS // model.n_components)
        parts = (
            part.to(dtype=model.dtype, device=model.device).split(rows) for part in (checked.context, checked.sample)
        )
        return _as_given(data, torch.cat([function(context, sample) for context, sample in zip(*parts, strict=True)]))


def _as_given(data: Any, answer: Tensor) -> Any:
    """The answer as a tensor if any part of the data is one, else as an array."""
    parts = data if isinstance(data, (tuple, list)) else (data,)
    return answer if any(isinstance(part, Tensor) for part in parts) else answer.cpu().numpy()
