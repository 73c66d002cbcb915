"""Validation of the data and the initial models of learners.

Data are samples (n, d), or a pair of contexts and samples. Samples without contexts become pairs whose contexts have no
columns. Therefore, every learner can fit a mixture of experts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning.models.gaussian import all_finite
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts


@with_hints
@dataclass(frozen=True)
class Pairs:
    """Samples with their contexts, in the form that learners use. A data set in a file is a `DataSet` instead.

    Attributes
    ----------
    context : Tensor (n_samples, n_context)
        It has no columns if only samples were given.
    sample : Tensor (n_samples, n_dims)
    conditional : bool
        Whether contexts were given, possibly without columns. If contexts were given, learners return a mixture of
        experts. Otherwise, they return a Gaussian mixture.
    weight : Tensor (n_samples,), optional
        Positive weights of the samples, with a mean of one. None means equal weights.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import Pairs
    >>> pairs = Pairs(context=torch.zeros(10, 1), sample=torch.ones(10, 2))
    >>> training, held_out = pairs[:8], pairs[8:]
    >>> len(training), len(held_out), len(held_out + held_out)
    (8, 2, 4)
    """

    context: Tensor
    sample: Tensor
    conditional: bool = True
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, index: Tensor | slice) -> Pairs:
        weight = None if self.weight is None else self.weight[index]
        return replace(self, context=self.context[index], sample=self.sample[index], weight=weight)

    def __add__(self, other: Pairs) -> Pairs:
        """Append the pairs of `other`."""
        context, sample = torch.cat([self.context, other.context]), torch.cat([self.sample, other.sample])
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = torch.cat(
                [torch.ones(len(part)) if part.weight is None else part.weight for part in (self, other)]
            )
        return replace(self, context=context, sample=sample, weight=weight)

    def to(self, device: torch.device) -> Pairs:
        weight = None if self.weight is None else self.weight.to(device)
        return replace(self, context=self.context.to(device), sample=self.sample.to(device), weight=weight)


RowsT = TypeVar("RowsT", Pairs, Tensor)


def random_rows(rows: RowsT, n: int, generator: torch.Generator) -> RowsT:
    """Return `n` distinct rows in random order. If `n` is 0 or at least the number of rows, return all of them."""
    if n == 0 or n >= len(rows):
        return rows
    return rows[torch.randperm(len(rows), generator=generator, device=generator.device)[:n]]


def checked_data(data: Any) -> Pairs:
    """Validate data and convert them to float64 tensors.

    The data are samples (n, d) or a pair (context (n, dy), sample (n, dx)). A pair is a tuple or list of two matrices.
    `Pairs` are returned unchanged, because they are already validated. `DataError` is raised if data are empty, not
    numeric or not finite, or have the wrong shape.
    """
    if isinstance(data, Pairs):
        return data
    if data is None:
        raise DataError("no data were given; give samples as a matrix (n, d), or a pair of matrices (context, sample)")
    conditional = isinstance(data, (tuple, list)) and len(data) == 2 and all(_n_axes(part) == 2 for part in data)
    if conditional:
        context, sample = (_as_tensor(part) for part in data)
    elif isinstance(data, (tuple, list)) and any(hasattr(part, "shape") for part in data):
        raise DataError(
            "data must be samples (n, d) or a pair of matrices (context (n, dy), sample (n, dx)), got an object of "
            f"type {type(data).__name__} with arrays of shapes {[tuple(np.shape(part)) for part in data]}",
            type(data).__name__,
        )
    else:
        sample = _as_tensor(data)
        if sample.dim() != 2:
            raise DataError(
                "data must be samples (n, d) or a pair of matrices (context, sample), got an array of shape "
                f"{tuple(sample.shape)}" + ("; data.reshape(-1, 1) has one column" if sample.dim() == 1 else ""),
                tuple(sample.shape),
            )
        context = sample.new_zeros(len(sample), 0)
    if len(context) != len(sample):
        raise DataError(
            f"context (n, dy) and sample (n, dx) must have the same number of rows, got shapes {tuple(context.shape)} "
            "and "
            f"{tuple(sample.shape)}",
            tuple(sample.shape),
        )
    if len(sample) == 0 or sample.shape[1] == 0:
        raise DataError("the data set is empty; give at least one sample with at least one column", tuple(sample.shape))
    for name, part in (("context", context), ("sample", sample)):
        if not all_finite(part):
            bad = (~torch.isfinite(part)).any(-1).nonzero().flatten()
            raise DataError(
                f"{name} has NaN or infinite entries in {len(bad)} rows, the first of which is row {int(bad[0])}; "
                "remove these rows",
                int(bad[0]),
            )
    return Pairs(context, sample, conditional)


def weighted(data: Any, weights: Any) -> Pairs:
    """Validate data and their weights (n_samples,), drop rows of weight zero, and scale the weights to a mean of one.

    `DataError` is raised if data are invalid. The error is also raised if weights are not finite, are negative, are all
    zero, or have another length than the data.
    """
    pairs, weight = checked_data(data), _as_tensor(weights)
    if weight.shape != pairs.sample.shape[:1]:
        raise DataError(
            f"sample_weight must have the shape ({len(pairs)},), one weight per sample, got shape "
            f"{tuple(weight.shape)}",
            tuple(weight.shape),
        )
    if not bool(torch.isfinite(weight).all() and (weight >= 0.0).all() and (weight > 0.0).any()):
        raise DataError(
            "sample_weight must be finite and not negative, and at least one weight must be positive", weight
        )
    weight = weight.to(pairs.sample.device)
    rows = replace(pairs, weight=weight)[weight > 0.0]
    assert rows.weight is not None
    return replace(rows, weight=rows.weight / rows.weight.mean())


def checked_contexts(context: Any) -> Tensor:
    """Validate contexts and return them as a float64 tensor (n, n_context). None becomes one row without columns.

    `DataError` is raised if contexts are empty, not numeric, not finite, or not a matrix.
    """
    if context is None:
        return torch.zeros(1, 0, dtype=torch.float64)
    if _n_axes(context) != 2:
        raise DataError(
            f"contexts must be a matrix (n, n_context), got an array of shape {tuple(np.shape(context))}", context
        )
    places = _as_tensor(context)
    return checked_data((places, torch.zeros(len(places), 1, dtype=torch.float64))).context


def has_samples(data: Any) -> bool:
    """Return whether data contain samples. None and a pair (context, None) contain none."""
    contexts_only = isinstance(data, (tuple, list)) and len(data) == 2 and data[1] is None
    return data is not None and not contexts_only


def data_or_contexts(data: Any, initial: MixtureOfExperts | GaussianMixture | None) -> Pairs:
    """Validate data like `checked_data`, but accept contexts alone, or None, if there is an initial model.

    The missing samples are replaced by zeros.
    """
    if has_samples(data):
        return checked_data(data)
    if initial is None:
        raise DataError(
            "the fit has nothing to start from; give samples, or an initial model as in fit(start=...). GMMVI needs "
            "neither if the target has an event_shape"
        )
    if data is None:
        return checked_data(torch.zeros(1, initial.n_dims, dtype=torch.float64))
    return checked_data((data[0], torch.zeros(len(data[0]), initial.n_dims, dtype=torch.float64)))


def checked_start(initial: MixtureOfExperts | GaussianMixture, data: Pairs) -> MixtureOfExperts:
    """Return the initial model as a mixture of experts with the dtype of the data, on their device.

    `DistributionError` is raised if the start is not a mixture, or if its dimensions differ from the data's.
    """
    if not isinstance(initial, (GaussianMixture, MixtureOfExperts)):
        raise DistributionError(
            "the start must be a Gaussian mixture or a mixture of experts, got an object of type "
            f"{type(initial).__name__}; give contexts and samples as one pair, as in "
            "fit((context, sample))",
            type(initial).__name__,
        )
    if isinstance(initial, GaussianMixture):
        initial = MixtureOfExperts.from_mixture(initial)
    sizes, expected = (initial.n_dims, initial.n_context), (data.sample.shape[1], data.context.shape[1])
    if sizes != expected:
        raise DistributionError(
            f"the start has (n_dims, n_context) = {sizes}, but the data have {expected}; give a start with these "
            "dimensions",
            sizes,
        )
    like = data.sample
    is_alike = (initial.dtype, initial.device) == (like.dtype, like.device)
    return initial if is_alike else initial.to(dtype=like.dtype, device=like.device)


def _n_axes(part: Any) -> int:
    try:
        return part.dim() if isinstance(part, Tensor) else len(np.shape(part))
    except ValueError:  # _as_tensor reports rows of unequal length
        return 2


def _as_tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        if part.is_complex():
            raise DataError(f"context and sample must be arrays of real numbers, got {part.dtype}", str(part.dtype))
        return part.detach().to(torch.float64)
    try:
        return torch.from_numpy(np.array(part, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DataError(f"context and sample must be arrays of numbers: {error}", type(part).__name__) from error
