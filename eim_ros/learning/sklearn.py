"""Learners of mixtures as scikit-learn estimators, for pipelines, parameter searches and cross-validation.

This module needs scikit-learn: `pip install ".[sklearn]"`. Parameters, attributes and methods are named as in
`sklearn.mixture.GaussianMixture`. Pass all other settings as `settings`. The estimators call the learners `EM`,
`TruncatedEM` and `EIM`. Use these learners directly for conditional models, or without scikit-learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.learning.eim.eim import EIM
from eim_ros.learning.em.em import EM
from eim_ros.learning.em.truncated import TruncatedEM
from eim_ros.learning.run import FitResult, FittedModel, RunOptions, Status

# Settings of the learners that are parameters of the estimators.
PARAMETERS = {
    "covariance": "covariance_type",
    "covariance_floor": "reg_covar",
    "n_components": "n_components",
    "n_iterations": "max_iter",
    "n_starts": "n_init",
    "seed": "random_state",
    "tolerance": "tol",
}
COVARIANCES = {"full": "full", "diag": "diagonal", "tied": "tied", "spherical": "spherical"}


@dataclass(eq=False, repr=False)
class _Mixture(DensityMixin, BaseEstimator, ABC):
    """Base class of the estimators; subclasses implement `_learner`.

    Attributes
    ----------
    weights_ : ndarray (n_components,)
    means_ : ndarray (n_components, n_features)
    covariances_ : ndarray (n_components, n_features, n_features)
        The shape is (n_components, n_features) if `covariance_type` is "diag", (n_features, n_features) if it is
        "tied", and (n_components,) if it is "spherical".
    fitted_ : FittedModel
        The mixture as a model of this package, for example to save it.
    converged_ : bool
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
    """

    n_components: int = 1
    _: KW_ONLY
    random_state: Any = None
    verbose: int = 0
    settings: Mapping[str, Any] | None = None

    def fit(self, X: Any, y: Any = None) -> _Mixture:
        """Fit the mixture to samples X (n_samples, n_features); y is ignored.

        `ValueError` is raised for invalid data or settings, as in scikit-learn.
        """
        samples = validate_data(self, X, dtype=np.float64)
        try:
            run = RunOptions(verbose=self.verbose)
            result: FitResult[Any] = self._learner(self._seed()).fit(samples, run=run)
        except EimError as error:
            raise ValueError(str(error)) from error
        self.fitted_ = FittedModel(result.mixture_of_experts, conditional=False)
        self.weights_, self.means_ = self.fitted_.weights.numpy(), self.fitted_.means.numpy()
        self.covariances_ = self._covariances(self.fitted_.covariances.numpy())
        self.converged_ = result.status in (Status.CONVERGED, Status.UNCHANGED)
        self.n_iter_ = len(result.history.records)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> npt.NDArray[np.int64]:
        """Fit the mixture, and return the most probable component of each sample, (n_samples,)."""
        return self.fit(X).predict(X)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the most probable component of each sample, (n_samples,)."""
        return np.asarray(self._fitted().predict(self._checked(X)))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each component given the sample, (n_samples, n_components)."""
        return np.asarray(self._fitted().predict_proba(self._checked(X)))

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log density of each sample [nat], (n_samples,)."""
        return np.asarray(self._fitted().score_samples(self._checked(X)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the samples [nat]."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Draw samples (n_samples, n_features); return them with the component of each sample, (n_samples,)."""
        mixture = self._fitted().mixture_of_experts.as_mixture()
        generator = torch.Generator().manual_seed(self._seed())
        sample, component = mixture.sample_with_components(n_samples, generator)
        return sample.numpy(), component.numpy()

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of the samples; lower is better."""
        return self._fitted().bic(self._checked(X))

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of the samples; lower is better."""
        return self._fitted().aic(self._checked(X))

    @abstractmethod
    def _learner(self, seed: int) -> EM | TruncatedEM | EIM:
        """Return the learner with the parameters of this estimator."""

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fitted(self) -> FittedModel:
        check_is_fitted(self)
        return self.fitted_

    def _checked(self, X: Any) -> FloatArray:
        self._fitted()
        checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _given(self, **parameters: Any) -> dict[str, Any]:
        """Return the parameters together with `settings`, which must not repeat them."""
        settings = dict(self.settings or {})
        for name in settings:
            if name in parameters:
                raise ConfigurationError(
                    f"settings must not contain {name}; give it as the parameter {PARAMETERS[name]}", name
                )
        return {**parameters, **settings}

    def _covariances(self, covariances: FloatArray) -> FloatArray:
        """Return full covariances (n_components, n_features, n_features) in the shape that scikit-learn uses."""
        return covariances


@dataclass(eq=False, repr=False)
class EMMixture(_Mixture):
    """Gaussian mixture fitted by expectation maximisation.

    Parameters
    ----------
    n_components : int
    tol : float
        The fit ends if the mean log-likelihood rises by less than this [nat].
    reg_covar : float
        Minimum variance in any direction, relative to the variances of the data.
    max_iter : int
        Maximum number of iterations.
    n_init : int
        Number of k-means initialisations; the result with the highest likelihood is kept.
    covariance_type : str
        "full", "diag", "tied" or "spherical".
    random_state : int, RandomState or None
    verbose : int
        Print the record of every n-th iteration; 0 prints nothing.
    settings : mapping, optional
        Further settings of `EMConfig`.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.learning.sklearn import EMMixture
    >>> X = np.random.default_rng(0).normal(np.repeat([-3.0, 3.0], 50), 0.5)[:, None]
    >>> mixture = EMMixture(n_components=2, random_state=0).fit(X)
    >>> sorted(mixture.means_.round().ravel().tolist())
    [-3.0, 3.0]
    """

    _: KW_ONLY
    tol: float = 1e-4
    reg_covar: float = 1e-6
    max_iter: int = 100
    n_init: int = 1
    covariance_type: str = "full"

    def _learner(self, seed: int) -> EM:
        if self.covariance_type not in COVARIANCES:
            raise ConfigurationError(
                f"covariance_type must be one of {', '.join(COVARIANCES)}, got {self.covariance_type!r}",
                self.covariance_type,
            )
        return EM(
            **self._given(
                n_components=self.n_components,
                tolerance=self.tol,
                covariance_floor=self.reg_covar,
                n_iterations=self.max_iter,
                n_starts=self.n_init,
                covariance=COVARIANCES[self.covariance_type],
                seed=seed,
            )
        )

    def _covariances(self, covariances: FloatArray) -> FloatArray:
        variances = covariances.diagonal(axis1=-2, axis2=-1)
        shapes = {"full": covariances, "diag": variances, "tied": covariances[0], "spherical": variances[:, 0]}
        chosen: FloatArray = shapes[self.covariance_type].copy()
        return chosen


@dataclass(eq=False, repr=False)
class TruncatedEMMixture(_Mixture):
    """Gaussian mixture with many components, fitted by truncated EM.

    Parameters
    ----------
    n_components : int
    tol : float
        The fit ends if the mean free energy rises by less than this [nat].
    reg_covar : float
        Minimum variance in any direction, relative to the variances of the data.
    max_iter : int
        Maximum number of iterations.
    random_state : int, RandomState or None
    verbose : int
        Print the record of every n-th iteration; 0 prints nothing.
    settings : mapping, optional
        Further settings of `TruncatedEMConfig`.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.learning.sklearn import TruncatedEMMixture
    >>> X = np.random.default_rng(0).normal(np.repeat([-3.0, 3.0], 50), 0.5)[:, None]
    >>> labels = TruncatedEMMixture(n_components=2, random_state=0).fit_predict(X)
    >>> len(set(labels[:50])), len(set(labels[50:]))
    (1, 1)
    """

    _: KW_ONLY
    tol: float = 1e-4
    reg_covar: float = 1e-6
    max_iter: int = 100

    def _learner(self, seed: int) -> TruncatedEM:
        return TruncatedEM(
            **self._given(
                n_components=self.n_components,
                tolerance=self.tol,
                covariance_floor=self.reg_covar,
                n_iterations=self.max_iter,
                seed=seed,
            )
        )


@dataclass(eq=False, repr=False)
class EIMMixture(_Mixture):
    """Gaussian mixture that minimises KL(model || data) by expected information maximisation.

    If the data have more modes than the mixture has components, the mixture covers only some of the modes. EM would
    average over modes instead.

    Parameters
    ----------
    n_components : int
    max_iter : int
        Maximum number of iterations.
    random_state : int, RandomState or None
    verbose : int
        Print the record of every n-th iteration; 0 prints nothing.
    settings : mapping, optional
        Further settings of `EIMConfig`.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.learning.sklearn import EIMMixture
    >>> X = np.random.default_rng(0).normal(np.repeat([-3.0, 3.0], 50), 0.5)[:, None]
    >>> settings = {"ratio.estimator": "plug-in", "ratio.reference.factors": (1.0,)}
    >>> mixture = EIMMixture(n_components=2, max_iter=2, random_state=0, settings=settings).fit(X)
    >>> sorted(mixture.means_.round().ravel().tolist())
    [-3.0, 3.0]
    """

    _: KW_ONLY
    max_iter: int = 40

    def _learner(self, seed: int) -> EIM:
        return EIM(**self._given(n_components=self.n_components, n_iterations=self.max_iter, seed=seed))
