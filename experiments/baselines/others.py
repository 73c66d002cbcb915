"""Baselines for mixtures: weights learnt through samples, scikit-learn's learners, and variants of EIM.

There are two ways to learn the weights of a mixture by gradients through its samples (thesis 2.4.3):

- Gumbel-softmax (Jang et al. 2017). The component z = argmax(logits + Gumbel noise) follows the mixture's weights. Its
  gradient is replaced by the gradient of a softmax ("straight through"). Samples are exact, but the gradient is biased.
- Mutual information (InfoGAN, Chen et al. 2016). Samples give no gradient for the weights, but the additional term I(x,
  z) = H(z) - E_q(x)[H(z|x)] does. The densities are tractable here. Therefore, a sample average estimates this term,
  and no bound is needed.

EM and variational Bayes of scikit-learn start from its k-means and need the extra `experiments`. The variants of EIM
(thesis 6.1) work with any density ratio estimator:

EIM        structured M-step in trust regions, KL(q || q_old) in the objective
EIM-KL     without this KL; the ratio refers to the current model, as in adversarial training
EIM-US     M-step by gradients through samples, without the model's structure
EIM-US-KL  both changes
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import torch
from torch import Tensor

from eim_ros.learning import EIMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.run import completed
from experiments.baselines.networks import MixtureParameters


class WeightLearning(Protocol):
    """Method of learning the weights of a mixture in adversarial training: a sampling scheme and an additional loss."""

    def draw(self, model: MixtureParameters, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draw samples of the mixture (n_samples, n_dims)."""
        ...

    def loss(self, model: MixtureParameters, generator: torch.Generator) -> Tensor:
        """Return a loss that is added to the generator's loss."""
        ...


class GumbelSoftmax:
    """Straight-through Gumbel-softmax: differentiable sampling of the component.

    Parameters
    ----------
    temperature : float
        Temperature of the softmax that gives the gradient. Low values give less bias and more variance.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def draw(self, model: MixtureParameters, n_samples: int, generator: torch.Generator) -> Tensor:
        uniform = torch.rand(n_samples, model.n_components, generator=generator).clamp_min(1e-30)
        perturbed = torch.log_softmax(model.logits, -1) - (-uniform.log()).log()
        soft = torch.softmax(perturbed / self.temperature, -1)
        hard = torch.nn.functional.one_hot(perturbed.argmax(-1), model.n_components).to(soft)
        chosen = hard + soft - soft.detach()
        return (chosen.unsqueeze(-1) * model.draw(n_samples, generator)).sum(-2)

    def loss(self, model: MixtureParameters, generator: torch.Generator) -> Tensor:
        return model.logits.new_zeros(())


class MutualInformation:
    """Sampling of the component by the current weights. Only the mutual information gives gradients for the weights.

    Parameters
    ----------
    weight : float
        Weight of the mutual information in the loss.
    n_samples : int
        Samples per component for the estimate.
    """

    def __init__(self, weight: float, n_samples: int) -> None:
        self.weight = weight
        self.n_samples = n_samples

    def draw(self, model: MixtureParameters, n_samples: int, generator: torch.Generator) -> Tensor:
        weights = torch.softmax(model.logits.detach(), -1)
        chosen = torch.multinomial(weights, n_samples, replacement=True, generator=generator)
        index = chosen[:, None, None].expand(-1, 1, model.means.shape[-1])
        return model.draw(n_samples, generator).gather(1, index).squeeze(1)

    def loss(self, model: MixtureParameters, generator: torch.Generator) -> Tensor:
        return -self.weight * mutual_information(model, self.n_samples, generator)


def mutual_information(model: MixtureParameters, n_samples: int, generator: torch.Generator) -> Tensor:
    """Return a differentiable estimate of I(x, z) = H(z) - E_q(x)[H(z|x)] [nat] from samples of every component."""
    mixture = model.differentiable()
    weights = mixture.log_weights.exp()
    sample = model.draw(n_samples, generator).flatten(0, 1)
    posterior = MixtureOfExperts.from_mixture(mixture).log_responsibilities(sample[:, :0], sample)
    log_posterior = posterior.reshape(n_samples, model.n_components, model.n_components)
    conditional = -(log_posterior.exp() * log_posterior).sum(-1).mean(0)
    return -(weights * mixture.log_weights).sum() - (weights * conditional).sum()


def fit_by_em(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """Fit a mixture with `sklearn.mixture.GaussianMixture` and its default settings.

    Parameters
    ----------
    data : Tensor (n_samples, n_dims)
    n_components : int
    seed : int

    Returns
    -------
    GaussianMixture
    """
    from sklearn.mixture import GaussianMixture as Learner

    return _fitted(Learner(n_components, random_state=seed), data)


def fit_by_variational_bayes(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """Fit a mixture with `sklearn.mixture.BayesianGaussianMixture` and its default settings.

    Parameters
    ----------
    data : Tensor (n_samples, n_dims)
    n_components : int
    seed : int

    Returns
    -------
    GaussianMixture
        Mean of the posterior.
    """
    from sklearn.mixture import BayesianGaussianMixture as Learner

    return _fitted(Learner(n_components=n_components, random_state=seed), data)


def _fitted(learner: Any, data: Tensor) -> GaussianMixture:
    with warnings.catch_warnings():  # scikit-learn warns if a run reaches the maximum number of iterations
        warnings.simplefilter("ignore")
        learner.fit(data.numpy())
    weights, means, covariances = (
        torch.as_tensor(value, dtype=torch.float64)
        for value in (learner.weights_, learner.means_, learner.covariances_)
    )
    return GaussianMixture(weights.log(), means, torch.linalg.cholesky(covariances))


EIM_VARIANTS: dict[str, dict[str, Any]] = {
    "EIM": {},
    "EIM-KL": {"kl_term": False},
    "EIM-US": {"update": "unstructured"},
    "EIM-US-KL": {"update": "unstructured", "kl_term": False},
}


def fit_by_eim(
    settings: dict[str, Any],
    variant: str,
    estimator: str,
    data: Tensor,
    start: GaussianMixture,
    target: GaussianMixture,
    generator: torch.Generator,
) -> GaussianMixture:
    """Fit a mixture with a variant of EIM.

    Parameters
    ----------
    settings : dict
        Settings of `EIMConfig`.
    variant : str
        Key of `EIM_VARIANTS`; see the module docstring.
    estimator : str
        "network", "plug-in", "residual", or, for EIM itself, "known" (the true ratio).
    data : Tensor (n_samples, n_dims)
    start : GaussianMixture
    target : GaussianMixture
        Distribution of the data, used only by "known".
    generator : torch.Generator

    Returns
    -------
    GaussianMixture
    """
    if estimator == "known":
        config = EIMConfig.known_density(**settings)
        model = completed(EIM(config, target=target).fit(start=start, generator=generator))
    else:
        # Thesis 6.1 uses no validation data, but a fitted density needs them to choose its number of components.
        more: dict[str, Any] = {"ratio.validation_share": 0.0} if estimator == "network" else {}
        config = EIMConfig.from_mapping(
            {"ratio.estimator": estimator, "plateau_window": 0, **settings, **more, **EIM_VARIANTS[variant]}
        )
        model = completed(EIM(config).fit(data, start, generator=generator))
    assert isinstance(model, GaussianMixture)
    return model
