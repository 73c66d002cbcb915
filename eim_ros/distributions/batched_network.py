"""As many multilayer perceptrons as there are components, evaluated by batched matrix products, without a loop.

h_0 = (y - center)/scale,  h_l = tanh(A_l h_{l-1} + a_l),  output = A_L h_{L-1} + a_L.

The hidden units are bounded, so outputs stay bounded however far an input lies from the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DistributionError

__all__ = ["BatchedNetwork", "forward"]

FIRST_LAYER_SLOPE = 4.0  # of standardised inputs: units bend at different places, sharply enough for several periods


@dataclass(frozen=True)
class BatchedNetwork:
    """Networks of equal shape.

    Attributes
    ----------
    center, scale : Tensor (n_inputs,)
        Standardisation of the inputs, the same for all networks; scale > 0.
    weights : tuple of Tensor (n_networks, n_out, n_in)
        A_l, one entry per layer, the output layer included.
    biases : tuple of Tensor (n_networks, n_out)
        a_l.
    """

    center: Tensor
    scale: Tensor
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

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
            raise DistributionError(f"center, scale, weights and biases of the networks disagree: {shapes}", shapes)
        finite = all(bool(torch.isfinite(value).all()) for value in self.tensors().values())
        if not (finite and bool((self.scale > 0.0).all())):
            raise DistributionError("parameters of a network must be finite, and its scale positive", self.scale)

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
        """Units of the widest layer."""
        return max(weight.shape[1] for weight in self.weights)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs (n_networks, n_samples, n_outputs).

        Parameters
        ----------
        inputs : Tensor (n_samples, n_inputs) or (n_networks, n_samples, n_inputs)
            For all networks the same ones, or own ones for each.
        """
        standard = ((inputs - self.center) / self.scale).expand(self.n_networks, *inputs.shape[-2:])
        return forward(self.weights, self.biases, standard)

    def take(self, index: Tensor) -> BatchedNetwork:
        """Some of the networks, by their numbers (n,) of int64, in that order."""
        weights, biases = (tuple(value[index] for value in values) for values in (self.weights, self.biases))
        return BatchedNetwork(self.center, self.scale, weights, biases)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name: `layers.0.weight`, `layers.0.bias` and so on."""
        tensors = {"center": self.center, "scale": self.scale}
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            tensors |= {f"layers.{index}.weight": weight, f"layers.{index}.bias": bias}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> BatchedNetwork:
        """Inverse of `tensors`; other names are left alone, `DistributionError` names what is missing."""
        n_layers = sum(name.startswith("layers.") and name.endswith(".weight") for name in tensors)
        names = ["center", "scale", *(f"layers.{i}.{part}" for i in range(n_layers) for part in ("weight", "bias"))]
        missing = [name for name in names if name not in tensors]
        if missing:
            raise DistributionError(f"a network lacks {', '.join(missing)}", sorted(tensors))
        weights, biases = (tuple(tensors[f"layers.{i}.{part}"] for i in range(n_layers)) for part in ("weight", "bias"))
        return cls(tensors["center"], tensors["scale"], weights, biases)

    @classmethod
    def random(
        cls,
        inputs: Tensor,
        n_networks: int,
        hidden_layers: Sequence[int],
        n_outputs: int,
        generator: torch.Generator,
    ) -> BatchedNetwork:
        """Fresh networks whose outputs are zero everywhere.

        Parameters
        ----------
        inputs : Tensor (n_samples, n_inputs)
            Give the standardisation, device and dtype.
        n_networks, n_outputs : int
        hidden_layers : sequence of int
            Widths.
        generator : torch.Generator
            Each network draws hidden weights of its own.
        """
        scale = (inputs - inputs.mean(0)).square().mean(0).sqrt()
        scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
        weights, biases, n_in = [], [], inputs.shape[-1]

        def uniform(*shape: int) -> Tensor:
            drawn = torch.rand(shape, generator=generator, dtype=inputs.dtype, device=generator.device)
            return (2.0 * drawn - 1.0).to(inputs.device)

        for index, n_out in enumerate(hidden_layers):
            bound = FIRST_LAYER_SLOPE / max(n_in, 1) ** 0.5 if index == 0 else (6.0 / (n_in + n_out)) ** 0.5
            spread = FIRST_LAYER_SLOPE if index == 0 else 0.0  # bends all over the range of the data
            weights.append(bound * uniform(n_networks, n_out, n_in))
            biases.append(spread * uniform(n_networks, n_out))
            n_in = n_out
        weights.append(inputs.new_zeros(n_networks, n_outputs, n_in))
        biases.append(inputs.new_zeros(n_networks, n_outputs))
        return cls(inputs.mean(0), scale, tuple(weights), tuple(biases))


def forward(weights: Sequence[Tensor], biases: Sequence[Tensor], standard: Tensor) -> Tensor:
    """Outputs (n_networks, n_samples, n_outputs) for standardised inputs (n_networks, n_samples, n_inputs)."""
    hidden = standard
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = torch.tanh(torch.baddbmm(bias.unsqueeze(1), hidden, weight.mT))
    return torch.baddbmm(biases[-1].unsqueeze(1), hidden, weights[-1].mT)
