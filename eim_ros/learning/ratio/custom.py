"""Custom estimators of the density ratio, and their conversion to the form that EIM needs."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError, ResumeWarning, warn_caller
from eim_ros.learning.configs import RatioConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import RatioReport, report_of
from eim_ros.learning.target import TargetDensity

CHUNK_ROWS = 2048  # pairs per call of an estimator; distances to all data must fit into memory
PREFIX = "estimator."  # prefix of the estimator's tensors in a checkpoint
METHODS = {  # methods of an estimator and their arguments
    "fit": ("data", "model", "iteration", "generator"),
    "log_ratio": ("context", "sample"),
    "gradient": ("context", "sample"),
    "tensors": (),
    "restore": ("tensors", "model", "iteration"),
}


class RatioEstimator(Protocol):
    """Custom estimator of the log density ratio phi = log p - log q, for `EIM(estimator=...)`.

    Any object with these two methods can be used, without a base class. Three more methods are optional:

    - `gradient(context, sample)` returns the gradient of phi with respect to the sample, (n, n_dims). Without this
      method, phi is differentiated automatically. `log_ratio` must then use only torch operations, because torch treats
      the results of other operations as constants. Gradients are not needed if `m_step.surrogate` is "value".
    - `tensors()` returns the state of the estimator for a checkpoint, a dict of named tensors.
    - `restore(tensors, model, iteration)` restores this state in a resumed run, before the first `fit`. The model and
      the iteration are the values at the time of the checkpoint.

    `EIM.fit` uses a copy of the object. Therefore, each fit begins with the same estimator. After the fit, the copy is
    `result.state.ratio.estimator`.

    Without `tensors` and `restore`, checkpoints do not contain the estimator. A resumed run then begins with a new
    estimator and issues a `ResumeWarning`. Its result equals the result of an uninterrupted run only if `fit` does not
    depend on earlier calls. For such an estimator, implement both methods and return {} from `tensors` to avoid the
    warning.

    Examples
    --------
    Divide a Gaussian that is fitted to the data by the density of the model:

    >>> import torch
    >>> from eim_ros.learning import EIM
    >>> class FittedGaussian:
    ...     def fit(self, data, model, iteration, generator):
    ...         mean, covariance = data.sample.mean(0), data.sample.mT.cov()
    ...         self.density = torch.distributions.MultivariateNormal(mean, covariance)
    ...         self.model = model
    ...     def log_ratio(self, context, sample):
    ...         return self.density.log_prob(sample) - self.model.log_prob(context, sample)
    >>> data = 3.0 + torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    >>> result = EIM(estimator=FittedGaussian(), n_components=1, seed=0).fit(data)
    >>> [round(mean) for mean in result.means[0].tolist()]
    [3, 3]
    """

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> Any:
        """Adapt to a new model q at the beginning of each iteration. The return value is ignored.

        Parameters
        ----------
        data : Pairs
            Contexts (n, n_context) and samples (n, n_dims) of p in float64. The data are the same in each iteration.
            Data without contexts have contexts without columns. A share `ratio.validation_share` of the data is held
            out, to compute the values in the history.
        model : MixtureOfExperts
            The model q. `model.sample(data.context, generator)` draws from it, and `model.log_prob(context, sample)` is
            its log density.
        iteration : int
            Number of earlier iterations.
        generator : torch.Generator
            Source of randomness. If the estimator uses only this source, fits with the same seed give the same result.
        """

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return phi = log p - log q [nat], (n,), at contexts (n, n_context) and samples (n, n_dims).

        An unknown constant offset of all values does not affect EIM. If all values are equal, EIM skips the iteration.
        `DistributionError` is raised for values that are not finite, because they cannot update the model. Return a
        very negative number, such as -50, where the data have no density.
        """


def checked_estimator(estimator: Any) -> RatioEstimator:
    """Return the estimator, or raise `ConfigurationError` if it lacks a method or an argument of a method."""
    kind = type(estimator).__name__
    if isinstance(estimator, type):
        kind = estimator.__name__
        raise ConfigurationError(
            f"estimator must be an object, got the class {kind}; give an object of this class, as in "
            f"estimator={kind}(...)",
            estimator,
        )
    found = {name for name in METHODS if callable(getattr(estimator, name, None))}
    required = ["fit", "log_ratio", *(("tensors", "restore") if found & {"tensors", "restore"} else ())]
    missing = [name for name in required if name not in found]
    if missing:
        raise ConfigurationError(
            f"the estimator {kind} has no method {' and no '.join(missing)}; RatioEstimator explains the methods",
            estimator,
        )
    for name in sorted(found):
        try:
            inspect.signature(getattr(estimator, name)).bind(*METHODS[name])
        except TypeError as error:
            raise ConfigurationError(
                f"{kind}.{name} must take ({', '.join(METHODS[name])}); RatioEstimator explains the methods", estimator
            ) from error
    checked: RatioEstimator = estimator
    return checked


class CustomRatio:
    """Custom estimator as a `DensityRatio`, with reports from held-out pairs and automatic gradients."""

    def __init__(self, estimator: RatioEstimator, config: RatioConfig) -> None:
        self.config = config
        self.name = type(estimator).__name__
        try:
            self.estimator: Any = copy.deepcopy(estimator)
        except TypeError as error:
            raise ConfigurationError(
                f"the estimator {self.name} cannot be copied for a fit ({error}); give it a method __deepcopy__",
                estimator,
            ) from error
        self._phi = TargetDensity(
            self.estimator.log_ratio, getattr(self.estimator, "gradient", None), name=f"log_ratio of {self.name}"
        )

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self.estimator.fit(data[: self.config.n_training(len(data))], model, iteration, generator)
        held_out = data[self.config.held_out(len(data))]
        drawn = model.sample(held_out.context, generator)
        phi_p, phi_q = (self.log_ratio(held_out.context, sample) for sample in (held_out.sample, drawn))
        return report_of(phi_p, phi_q)

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        rows = zip(context.split(CHUNK_ROWS), sample.split(CHUNK_ROWS), strict=True)
        phi = torch.cat([self._phi.log_prob(*part) for part in rows])
        wrong = ~torch.isfinite(phi)
        if bool(wrong.any()):
            raise DistributionError(
                f"{self._phi.name} is not finite at {int(wrong.sum())} of {len(phi)} pairs; return a very negative "
                "number such as -50 where the density of the data is zero",
                sample[wrong][0],
            )
        return phi

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        rows = zip(context.split(CHUNK_ROWS), sample.split(CHUNK_ROWS), strict=True)
        return torch.cat([self._phi.gradient(*part) for part in rows])

    def tensors(self) -> dict[str, Tensor]:
        if not hasattr(self.estimator, "tensors"):
            return {}
        state = self.estimator.tensors()
        if not (isinstance(state, dict) and all(isinstance(value, Tensor) for value in state.values())):
            raise ConfigurationError(f"{self.name}.tensors must return a dict of tensors, got {state!r}", state)
        return {f"{PREFIX}{name}": value for name, value in state.items()}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        if hasattr(self.estimator, "restore"):
            self.estimator.restore(tensors_of(PREFIX, tensors), model, iteration)
            return
        warn_caller(
            f"the checkpoint does not contain the estimator, because {self.name} has no methods tensors and restore. "
            f"After iteration {iteration}, the run continues with a new estimator, so its result may differ from "
            "that of an uninterrupted run",
            ResumeWarning,
        )
