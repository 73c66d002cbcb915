"""Two ways to learn the weights of a mixture by gradients through its samples (thesis 2.4.3).

Gumbel-softmax (Jang et al. 2017): z = argmax(logits + Gumbel noise) has the mixture's weights; its gradient is that of
the softmax at some temperature ("straight through": samples are those of the mixture itself, the gradient is biased).

Mutual information (InfoGAN, Chen et al. 2016): samples tell the weights nothing; the term
I(x, z) = H(z) - E_q(x)[H(z|x)] does. Densities are tractable here, so that it is an average over samples and no bound.

EM and variational Bayes of scikit-learn, from their own k-means start (of the extra `experiments`).

EIM and the thesis' variants of it (6.1), each with any estimator of the density ratio.

EIM        structured M-step in trust regions, KL(q || q_old) in the objective
EIM-KL     without this KL: the ratio counts as that of the present model, as for a discriminator
EIM-US     M-step by gradients through samples, without the model's structure
EIM-US-KL  both
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
    """How samples are drawn and what is added to the generator's loss."""

    def draw(self, model: MixtureParameters, n_samples: int, generator: torch.Generator) -> Tensor:
        """Samples of the mixture (n_samples, n_dims)."""
        ...

    def loss(self, model: MixtureParameters, generator: torch.Generator) -> Tensor:
        """A number to be minimised beside the generator's loss."""
        ...


class GumbelSoftmax:
    """Straight-through samples of the component.

    Parameters
    ----------
    temperature : float
        Of the softmax that gives the gradient; low ones give less bias and more variance.
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
    """Components drawn by the present weights, which learn from the mutual information alone.

    Parameters
    ----------
    weight : float
        Of the mutual information.
    n_samples : int
        Of each component, for its estimate.
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
    """I(x, z) = H(z) - E_q(x)[H(z|x)] [nat], by samples of every component; differentiable."""
    mixture = model.differentiable()
    weights = mixture.log_weights.exp()
    sample = model.draw(n_samples, generator).flatten(0, 1)
    posterior = MixtureOfExperts.from_mixture(mixture).log_responsibilities(sample[:, :0], sample)
    log_posterior = posterior.reshape(n_samples, model.n_components, model.n_components)
    conditional = -(log_posterior.exp() * log_posterior).sum(-1).mean(0)
    return -(weights * mixture.log_weights).sum() - (weights * conditional).sum()


def fit_by_em(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """`sklearn.mixture.GaussianMixture`, settings of its own.

    Parameters
    ----------
    data : Tensor (n_samples, n_dims)
    n_components : int
    seed : int
    """
    from sklearn.mixture import GaussianMixture as Learner

    return _fitted(Learner(n_components, random_state=seed), data)


def fit_by_variational_bayes(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """`sklearn.mixture.BayesianGaussianMixture`, settings of its own; the mean of its posterior; arguments as above."""
    from sklearn.mixture import BayesianGaussianMixture as Learner

    return _fitted(Learner(n_components=n_components, random_state=seed), data)


def _fitted(learner: Any, data: Tensor) -> GaussianMixture:
    with warnings.catch_warnings():  # of runs that end at the bound on iterations
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
    """Fit a variant.

    Parameters
    ----------
    settings : dict
        Of `EIMConfig`.
    variant : str
        See the top of this file.
    estimator : str
        "network", "plug-in", "residual", or "known": the true ratio, for EIM itself.
    data : Tensor (n_samples, n_dims)
    start : GaussianMixture
    target : GaussianMixture
        What the data were drawn from; only "known" looks at it.
    generator : torch.Generator
    """
    if estimator == "known":
        config = EIMConfig.known_density(**settings)
        model = completed(EIM(config, target=target).fit(start=start, generator=generator))
    else:
        # the thesis holds nothing out in 6.1; a density that is fitted needs held-out data to choose its size
        more: dict[str, Any] = {"validation_share": 0.0} if estimator == "network" else {}
        config = EIMConfig(**settings, **more, ratio=estimator, **EIM_VARIANTS[variant])
        model = completed(EIM(config).fit(data, start, generator=generator))
    assert isinstance(model, GaussianMixture)
    return model
