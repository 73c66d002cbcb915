"""Neural experts and neural gating (thesis 4.2.1, 4.2.3).

Experts: q(x | z_i, y) = N(psi_mu,i(y), psi_Sigma,i(y)). The outputs of each network are corrections in the whitened
residuals of a linear expert with the parameters W, w and C. With the outputs m and t of a network, an expert has

    mean = W y + w + C m(y),    Cholesky factor = C T(y),

where T is lower triangular, with the entries exp(t_jj) on the diagonal and t_jl below it.

The outputs of a new network are zero, so a new expert equals its linear expert. Outputs are of order one in any units
of the data.

Gating: log q(z|y) = log softmax(network(y)).

The networks of all components are evaluated together by batched matrix products. A network computes

    h_0 = (y - center)/scale,    h_l = tanh(A_l h_{l-1} + a_l),    output = A_L h_{L-1} + a_L.

Its hidden units are bounded, so outputs stay bounded far from the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian, named_tensors
from eim_ros.learning.models.linear import LinearExperts

FIRST_LAYER_SLOPE = 4.0  # slope for standardised inputs; steep enough for functions with several periods
CHUNK_ELEMENTS = 4_194_304  # number of elements of the largest layer in log_prob and score; limits the memory


@dataclass(frozen=True)
class BatchedNetwork:
    """Batch of multilayer perceptrons with equal layer sizes."""

    # (n_inputs,), standardisation of the inputs of all networks, with scale > 0
    center: Tensor
    scale: Tensor
    weights: tuple[Tensor, ...]  # A_l, (n_networks, n_out, n_in), including the output layer
    biases: tuple[Tensor, ...]  # a_l, (n_networks, n_out)

    def __post_init__(self) -> None:
        fits = len(self.weights) == len(self.biases) > 0 and self.center.dim() == 1
        fits = fits and self.scale.shape == self.center.shape
        n_in = len(self.center)
        for weight, bias in zip(self.weights, self.biases, strict=False):
            fits = fits and weight.dim() == 3 and weight.shape[::2] == (len(self.weights[0]), n_in)
            fits = fits and bias.shape == weight.shape[:2]
            n_in = weight.shape[-2] if fits else 0
        if not fits:
            shapes = [tuple(value.shape) for value in (self.center, self.scale, *self.weights, *self.biases)]
            raise DistributionError(
                f"center, scale, weights and biases of the networks do not match, got shapes {shapes}", shapes
            )
        finite = all(bool(torch.isfinite(value).all()) for value in self.tensors().values())
        if not (finite and bool((self.scale > 0.0).all())):
            raise DistributionError(
                "the parameters of a network must be finite, and its scale must be positive", self.scale
            )

    @property
    def n_networks(self) -> int:
        return self.weights[0].shape[0]

    @property
    def n_inputs(self) -> int:
        return self.weights[0].shape[2]

    @property
    def n_outputs(self) -> int:
        return self.weights[-1].shape[1]

    @property
    def width(self) -> int:
        """Number of units in the widest layer."""
        return max(weight.shape[1] for weight in self.weights)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs (n_networks, n_samples, n_outputs).

        All networks get the same inputs if these have the shape (n_samples, n_inputs). The inputs may also differ
        between networks, (n_networks, n_samples, n_inputs).
        """
        standard = ((inputs - self.center) / self.scale).expand(self.n_networks, *inputs.shape[-2:])
        return forward(self.weights, self.biases, standard)

    def take(self, index: Tensor) -> BatchedNetwork:
        """Return the networks with the indices (n,) of int64, in this order."""
        weights, biases = (tuple(value[index] for value in values) for values in (self.weights, self.biases))
        return BatchedNetwork(self.center, self.scale, weights, biases)

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name: `layers.0.weight`, `layers.0.bias` and so on."""
        tensors = {"center": self.center, "scale": self.scale}
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            tensors |= {f"layers.{index}.weight": weight, f"layers.{index}.bias": bias}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> BatchedNetwork:
        """Build the networks from named parameters. `DistributionError` lists the missing names.

        Tensors with other names are ignored.
        """
        n_layers = sum(name.startswith("layers.") and name.endswith(".weight") for name in tensors)
        names = ["center", "scale", *(f"layers.{i}.{part}" for i in range(n_layers) for part in ("weight", "bias"))]
        center, scale, *layers = named_tensors(tensors, names, "a network lacks")
        return cls(center, scale, tuple(layers[::2]), tuple(layers[1::2]))

    @classmethod
    def random(
        cls, inputs: Tensor, n_networks: int, hidden_layers: Sequence[int], n_outputs: int, generator: torch.Generator
    ) -> BatchedNetwork:
        """Return networks with random hidden weights, whose outputs are zero everywhere.

        Each network has different hidden weights. The inputs (n_samples, n_inputs) determine the standardisation, the
        device and the dtype.
        """
        scale = (inputs - inputs.mean(0)).square().mean(0).sqrt()
        scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
        weights, biases, n_in = [], [], inputs.shape[-1]

        def uniform(*shape: int) -> Tensor:
            drawn = torch.rand(shape, generator=generator, dtype=inputs.dtype, device=generator.device)
            return (2.0 * drawn - 1.0).to(inputs.device)

        for index, n_out in enumerate(hidden_layers):
            bound = FIRST_LAYER_SLOPE / max(n_in, 1) ** 0.5 if index == 0 else (6.0 / (n_in + n_out)) ** 0.5
            # Spread the steep parts of the units over the range of the data.
            spread = FIRST_LAYER_SLOPE if index == 0 else 0.0
            weights.append(bound * uniform(n_networks, n_out, n_in))
            biases.append(spread * uniform(n_networks, n_out))
            n_in = n_out
        weights.append(inputs.new_zeros(n_networks, n_outputs, n_in))
        biases.append(inputs.new_zeros(n_networks, n_outputs))
        return cls(inputs.mean(0), scale, tuple(weights), tuple(biases))


def forward(weights: Sequence[Tensor], biases: Sequence[Tensor], standard: Tensor) -> Tensor:
    """Return outputs (n_networks, n_samples, n_outputs) for standardised inputs (n_networks, n_samples, n_inputs)."""
    hidden = standard
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = torch.tanh(torch.baddbmm(bias.unsqueeze(1), hidden, weight.mT))
    return torch.baddbmm(biases[-1].unsqueeze(1), hidden, weights[-1].mT)


@dataclass(frozen=True)
class NeuralExperts:
    """All experts of a mixture as one batch.

    Attributes
    ----------
    base : LinearExperts
        Linear experts with the parameters W, w and C.
    network : BatchedNetwork
        One network per expert. The first n_dims outputs are m, and the other n_dims (n_dims + 1)/2 outputs are t. t
        contains first the diagonal, and then the elements below it, row by row.

    Examples
    --------
    New neural experts equal the linear experts that they start from:

    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts, NeuralExperts
    >>> linear = LinearExperts(torch.ones(1, 1, 1), torch.zeros(1, 1), torch.ones(1, 1, 1))
    >>> context = torch.linspace(-1.0, 1.0, 20)[:, None]
    >>> experts = NeuralExperts.around(linear, context, (16,), torch.Generator().manual_seed(0))
    >>> bool(torch.allclose(experts(context).mean, linear(context).mean))
    True
    """

    base: LinearExperts
    network: BatchedNetwork

    def __post_init__(self) -> None:
        found = (self.network.n_networks, self.network.n_inputs, self.network.n_outputs)
        expected = (self.base.n_components, self.base.n_context, n_outputs_of(self.base.n_dims))
        if found != expected:
            raise DistributionError(
                f"networks (count, inputs, outputs) {found} do not match their linear experts, which need {expected}",
                found,
            )

    @classmethod
    def around(
        cls, base: LinearExperts, context: Tensor, hidden_layers: Sequence[int], generator: torch.Generator
    ) -> NeuralExperts:
        """Return new neural experts that equal the linear experts, with hidden layers of the given widths.

        The contexts (n_samples, n_context) determine the standardisation of the inputs.
        """
        n_outputs = n_outputs_of(base.n_dims)
        return cls(base, BatchedNetwork.random(context, base.n_components, hidden_layers, n_outputs, generator))

    @property
    def n_components(self) -> int:
        return self.base.n_components

    @property
    def n_dims(self) -> int:
        return self.base.n_dims

    @property
    def n_context(self) -> int:
        return self.base.n_context

    def local(self, context: Tensor) -> Gaussian:
        """Return the distributions of each expert at its own contexts (n_components, n_samples, n_context).

        The batch shape of the result is (n_components, n_samples).
        """
        shift, factor = triangular(self.network(context), self.n_dims)
        scale = self.base.scale_trils.unsqueeze(1)
        mean = context @ self.base.weights.mT + self.base.biases.unsqueeze(1)
        return Gaussian(mean + (scale @ shift.unsqueeze(-1)).squeeze(-1), scale @ factor)

    def __call__(self, context: Tensor) -> Gaussian:
        """Return the distributions (n_samples, n_components) of all experts at contexts (n_samples, n_context)."""
        local = self.local(context.expand(self.n_components, *context.shape))
        return Gaussian(local.mean.transpose(0, 1), local.scale_tril.transpose(0, 1))

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""
        parts = [self(context[rows]).log_prob(sample[rows].unsqueeze(1)) for rows in self._chunks(len(context))]
        return torch.cat(parts)

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Return the distributions of the given experts, one per context.

        `component` (n_samples,) of int64 contains the indices of the experts for contexts (n_samples, n_context).
        Contexts are sorted into one padded row per expert. Thus, a network evaluates hardly any contexts of other
        experts.
        """
        order = torch.argsort(component, stable=True)
        count = torch.bincount(component, minlength=self.n_components)
        first = count.cumsum(0) - count
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device) - first[component[order]]
        padded = context.new_zeros(self.n_components, int(count.max()), self.n_context)
        padded[component, rank] = context
        local = self.local(padded)
        return Gaussian(local.mean[component, rank], local.scale_tril[component, rank])

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context (n_samples, n_context) from the given experts (n_samples,) of int64."""
        return self.select(component, context).sample(generator=generator)

    def take(self, index: Tensor) -> NeuralExperts:
        """Return the experts with the indices (n,) of int64, in this order."""
        return NeuralExperts(self.base.take(index), self.network.take(index))

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Return the gradient of log sum_k exp(log_gate_k) N_k(x) with respect to the sample x, (n_samples, n_dims)."""
        parts = []
        for rows in self._chunks(len(context)):
            experts, repeated = self(context[rows]), sample[rows].unsqueeze(1)
            weights = torch.softmax(log_gate[rows] + experts.log_prob(repeated), -1)
            parts.append((weights.unsqueeze(-1) * experts.score(repeated)).sum(1))
        return torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        base = {f"base.{name}": value for name, value in self.base.tensors().items()}
        return base | self.network.tensors()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> NeuralExperts:
        """Build the experts from named parameters. `DistributionError` lists the missing names."""
        names = ("base.weights", "base.biases", "base.scale_trils")
        base = LinearExperts(*named_tensors(tensors, names, "neural experts lack"))
        return cls(base, BatchedNetwork.from_tensors(tensors))

    def _chunks(self, n_samples: int) -> Iterator[slice]:
        """Yield slices with a limited number of rows, or a single empty slice if there are no rows."""
        step = max(1, CHUNK_ELEMENTS // (self.n_components * max(self.network.width, self.n_dims**2)))
        for start in range(0, max(n_samples, 1), step):
            yield slice(start, start + step)


def n_outputs_of(n_dims: int) -> int:
    """Return the number of parameters of a mean and a Cholesky factor."""
    return n_dims + n_dims * (n_dims + 1) // 2


def triangular(outputs: Tensor, n_dims: int) -> tuple[Tensor, Tensor]:
    """Split outputs (..., n_outputs) of a network into m (..., n_dims) and T (..., n_dims, n_dims)."""
    shift, log_diagonal, rest = outputs.split([n_dims, n_dims, n_dims * (n_dims - 1) // 2], -1)
    factor = torch.diag_embed(log_diagonal.exp())
    if n_dims > 1:
        row, column = torch.tril_indices(n_dims, n_dims, -1, device=outputs.device)
        lower = torch.zeros_like(factor)
        lower[..., row, column] = rest
        factor = factor + lower
    return shift, factor


@dataclass(frozen=True)
class NeuralGating:
    """Gating by the softmax of a network's outputs.

    Attributes
    ----------
    network : BatchedNetwork
        A single network with one output per component.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import NeuralGating
    >>> context = torch.linspace(-1.0, 1.0, 20)[:, None]
    >>> gating = NeuralGating.uniform(context, 4, (16,), torch.Generator().manual_seed(0))
    >>> [round(p, 3) for p in gating(context)[0].exp().tolist()]
    [0.25, 0.25, 0.25, 0.25]
    """

    network: BatchedNetwork

    def __post_init__(self) -> None:
        if self.network.n_networks != 1:
            raise DistributionError(
                f"a gating must have a single network, got {self.network.n_networks} networks", self.network.n_networks
            )

    @classmethod
    def uniform(
        cls, context: Tensor, n_components: int, hidden_layers: Sequence[int], generator: torch.Generator
    ) -> NeuralGating:
        """Return a new gating that gives all components the same probability for every context.

        The contexts (n_samples, n_context) determine the standardisation of the inputs. The hidden layers have the
        given widths.
        """
        return cls(BatchedNetwork.random(context, 1, hidden_layers, n_components, generator))

    @property
    def n_components(self) -> int:
        return self.network.n_outputs

    @property
    def n_context(self) -> int:
        return self.network.n_inputs

    def __call__(self, context: Tensor) -> Tensor:
        """Return the log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        return torch.log_softmax(self.network(context)[0], -1)

    def tensors(self) -> dict[str, Tensor]:
        return self.network.tensors()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> NeuralGating:
        """Build the gating from the named parameters that `tensors` returns."""
        return cls(BatchedNetwork.from_tensors(tensors))
