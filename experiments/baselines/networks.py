"""Gaussian mixtures fitted by gradients.

`MixtureDensityNetwork` (Bishop 1994) maps a context to a Gaussian mixture and maximises the likelihood by gradient
steps. Without contexts, the network is a single mixture. This mixture is fitted by gradient steps, and not in closed
form as in EM.

`MixtureParameters` are the unconstrained parameters of a mixture for adversarial training: logits, means, and Cholesky
factors with positive diagonals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts


@dataclass(frozen=True)
class MixtureDensityConfig(Settings):
    """Settings of `fit_mixture_density`."""

    n_steps: int = option(5000, "steps of Adam", minimum=0)
    batch_size: int = option(500, "number of pairs (context, sample) per step", minimum=1)
    learning_rate: float = option(1e-3, "step size", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((50, 50), "widths of the hidden layers, at least one", minimum=1)


class MixtureDensityNetwork(nn.Module):
    """Mixture density network that starts as a given mixture for every context.

    The output of the network is added to the parameters of the start. This output is initially zero.

    Parameters
    ----------
    start : GaussianMixture
        Mixture without batch dimensions.
    context : Tensor (n_samples, n_context)
        Contexts of the data, used to standardise inputs.
    hidden_layers : tuple of int
    generator : torch.Generator
        Source of randomness for the initial weights.
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self, start: GaussianMixture, context: Tensor, hidden_layers: tuple[int, ...], generator: torch.Generator
    ) -> None:
        super().__init__()
        k, d = start.n_components, start.n_dims
        diagonal = torch.diagonal(start.scale_trils, dim1=-2, dim2=-1)
        raw = start.scale_trils.tril(-1) + torch.diag_embed(diagonal.log())
        self._sizes = (k, k * d, k * d * d)
        flat = torch.cat([start.log_weights.flatten(), start.means.flatten(), raw.flatten()])
        self.bias = nn.Parameter(flat.to(torch.float32))
        self.n_components, self.n_dims = k, d
        self.register_buffer("center", context.mean(0).to(torch.float32))
        self.register_buffer(
            "scale", context.sub(context.mean(0)).square().mean(0).sqrt().clamp_min(1e-12).to(torch.float32)
        )
        self.network = _network(context.shape[1], hidden_layers, len(flat), generator)

    def forward(self, context: Tensor) -> GaussianMixture:
        """Return the mixtures at contexts (n, n_context) as a batch (n,)."""
        raw = self.bias.expand(len(context), -1)
        if self.network is not None:
            raw = raw + self.network((context.to(torch.float32) - self.center) / self.scale)
        logits, means, factors = raw.split(self._sizes, -1)
        factors = factors.reshape(-1, self.n_components, self.n_dims, self.n_dims)
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1).exp()
        scale_trils = factors.tril(-1) + torch.diag_embed(diagonal)
        return GaussianMixture(logits, means.reshape(-1, self.n_components, self.n_dims), scale_trils)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log densities [nat] (n,) of samples (n, n_dims) at contexts (n, n_context), in float32."""
        if self.network is not None:
            return self.forward(context).log_prob(sample)
        return MixtureOfExperts.from_mixture(self._shared()).log_prob(context, sample)  # one mixture instead of n

    def without_context(self) -> GaussianMixture:
        """Return the mixture of a model without contexts, in float64."""
        with torch.no_grad():
            return self._shared().to(dtype=torch.float64)

    def _shared(self) -> GaussianMixture:
        batch = self(self.center.new_zeros(1, 0))
        return GaussianMixture.from_tensors({name: value[0] for name, value in batch.tensors().items()})


@torch_threads()
def fit_mixture_density(
    config: MixtureDensityConfig,
    context: Tensor,
    sample: Tensor,
    start: GaussianMixture,
    generator: torch.Generator,
) -> MixtureDensityNetwork:
    """Fit a mixture density network by gradient ascent on the likelihood.

    Parameters
    ----------
    config : MixtureDensityConfig
    context : Tensor (n_samples, n_context)
        n_context may be 0.
    sample : Tensor (n_samples, n_dims)
    start : GaussianMixture
    generator : torch.Generator
        Only source of randomness.

    Returns
    -------
    MixtureDensityNetwork
    """
    model = MixtureDensityNetwork(start, context, config.hidden_layers, generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
    given, target = context.to(torch.float32), sample.to(torch.float32)
    for _ in range(config.n_steps):
        rows = torch.randint(len(sample), (config.batch_size,), generator=generator)
        optimiser.zero_grad()
        loss = -model.log_prob(given[rows], target[rows]).mean()
        loss.backward()
        optimiser.step()
    return model


def _network(
    n_inputs: int, hidden_layers: tuple[int, ...], n_outputs: int, generator: torch.Generator
) -> nn.Sequential | None:
    """Return a network with Glorot weights and a last layer of zeros, or None without inputs."""
    if n_inputs == 0:
        return None
    layers: list[nn.Module] = []
    for width, hidden in itertools.pairwise((n_inputs, *hidden_layers)):
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, width, hidden)
        bound = (6.0 / (width + hidden)) ** 0.5
        with torch.no_grad():
            layer.weight.copy_((2.0 * torch.rand(hidden, width, generator=generator) - 1.0) * bound)
            layer.bias.zero_()
        layers += [layer, nn.SiLU()]
    last: nn.Linear = nn.utils.skip_init(nn.Linear, hidden_layers[-1], n_outputs, bias=False)
    nn.init.zeros_(last.weight)
    return nn.Sequential(*layers, last)


class MixtureParameters(nn.Module):
    """Unconstrained parameters of a Gaussian mixture, in float32.

    Parameters
    ----------
    start : GaussianMixture
        Mixture without batch dimensions.
    """

    def __init__(self, start: GaussianMixture) -> None:
        super().__init__()
        factors = start.scale_trils.to(torch.float32)
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
        self.logits = nn.Parameter(start.log_weights.to(torch.float32))
        self.means = nn.Parameter(start.means.to(torch.float32))
        self.below = nn.Parameter(factors.tril(-1))
        self.log_diagonal = nn.Parameter(diagonal.log())

    @property
    def n_components(self) -> int:
        return len(self.logits)

    def scale_trils(self) -> Tensor:
        """Return the Cholesky factors (n_components, n_dims, n_dims)."""
        return self.below.tril(-1) + torch.diag_embed(self.log_diagonal.exp())

    def differentiable(self) -> GaussianMixture:
        """Return the mixture, which is differentiable with respect to the parameters."""
        return GaussianMixture(self.logits, self.means, self.scale_trils())

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draw differentiable samples of every component, with shape (n_samples, n_components, n_dims).

        The samples in a row have the same noise. Therefore, one matrix product computes all of them. Samples from
        different rows are independent.
        """
        k, d = self.means.shape
        noise = torch.randn(n_samples, d, generator=generator)
        return self.means + (noise @ self.scale_trils().reshape(k * d, d).T).reshape(n_samples, k, d)

    def finite(self) -> bool:
        """Return whether all parameters are finite and all Cholesky factors are non-singular."""
        diagonal = self.log_diagonal.detach().exp()
        sums = torch.stack([value.detach().sum() for value in self.parameters()] + [diagonal.sum()])
        return bool(torch.isfinite(sums).all() and (diagonal > 0.0).all())

    def mixture(self) -> GaussianMixture:
        """Return a copy of the current mixture in float64."""
        with torch.no_grad():
            return self.differentiable().to(dtype=torch.float64)
