"""How do I define a family of experts? The example has subspaces with noise, x = W y + w + L f + e, fitted by EM."""

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning import EM
from eim_ros.learning.models import CustomExperts, Gaussian, MixtureOfExperts, SoftmaxGating

RANK = 2


@dataclass(frozen=True)
class Subspaces:
    """Probabilistic principal components (Tipping and Bishop 1999): f ~ N(0, I), e ~ N(0, s^2 I)."""

    slopes: Tensor  # W and w, (n_components, n_dims, n_context + 1)
    loadings: Tensor  # L, (n_components, n_dims, RANK)
    log_noise: Tensor  # log s, (n_components,)

    n_dims = property(lambda self: self.slopes.shape[1])
    n_context = property(lambda self: self.slopes.shape[2] - 1)

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        inputs = torch.cat([context, torch.ones_like(context[:, :1])], -1)
        noise = torch.diag_embed(self.log_noise.exp()[:, None].expand(-1, self.n_dims).square())
        factors = torch.linalg.cholesky(self.loadings @ self.loadings.mT + noise)
        return Gaussian((self.slopes[component] @ inputs[..., None])[..., 0], factors[component])

    def fitted(self, context: Tensor, sample: Tensor, weights: Tensor) -> "Subspaces":
        inputs = torch.cat([context, torch.ones_like(context[..., :1])], -1)
        weighted = weights[..., None] * inputs
        slopes = torch.linalg.solve(weighted.mT @ inputs, weighted.mT @ sample).mT
        residual = sample - inputs @ slopes.mT
        values, vectors = torch.linalg.eigh(residual.mT @ (weights[..., None] * residual))
        variance = values[:, :-RANK].mean(-1)  # variance of the noise, in the directions that no factor explains
        loadings = vectors[..., -RANK:] * (values[:, -RANK:] - variance[:, None]).sqrt()[:, None]
        left, _, right = torch.linalg.svd(loadings.mT @ self.loadings)  # the rotation of f nearest to the old one
        return Subspaces(slopes, loadings @ left @ right, 0.5 * variance.log())


generator = torch.Generator().manual_seed(0)
context = torch.rand(600, 1, generator=generator, dtype=torch.float64)
truth = torch.randn(2, 8, RANK + 2, generator=generator, dtype=torch.float64)  # two experts in 8 dimensions
noise = torch.randn(600, RANK + 8, generator=generator, dtype=torch.float64)
chosen = truth[torch.arange(600) % 2]
inputs = torch.cat([context, torch.ones_like(context), noise[:, :RANK]], -1)
sample = (chosen @ inputs[..., None])[..., 0] + 0.1 * noise[:, RANK:]
training, test = (context[:60], sample[:60]), (context[60:], sample[60:])

linear = EM(n_components=2, n_starts=3, seed=0).fit(training)
family = Subspaces(torch.zeros(2, 8, 2), torch.randn(2, 8, RANK, generator=generator), torch.zeros(2))
start = MixtureOfExperts(SoftmaxGating(torch.zeros(2, 1), torch.zeros(2)), CustomExperts(family))
subspaces = EM(n_iterations=200).fit(training, start)
fits = {"linear experts": linear, "subspaces": subspaces}
scores = {name: float(fit.score_samples(test).mean()) for name, fit in fits.items()}
print(*(f"{name}: {score:.1f} nat" for name, score in scores.items()), sep="\n")
