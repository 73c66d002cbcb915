"""Multi-layer perceptron of a density ratio.

It starts at zero, by its last layer, and able to learn fast: after a start by EM the classes have equal moments and
differ in detail only, which Glorot's distribution with biases of zero takes a hundred epochs to see. So the weights of
the first layer are three times Glorot's and the biases are spread over the range of standardised inputs.

Its dropout draws from a given generator and gives sixteen consecutive rows the same mask: drawing a mask for each costs
more than the layers themselves, and batches are shuffled.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Dropout", "ratio_network"]

ROWS_PER_MASK = 16
FIRST_SCALE = 3.0
BIAS_RANGE = 1.0


class Dropout(nn.Module):
    """Sets inputs to zero with some probability in training, and scales the others up.

    Parameters
    ----------
    probability : float
        From 0 to less than 1.

    Attributes
    ----------
    generator : torch.Generator or None
        To be set before training, on the inputs' device.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs (n, width), in training less what is dropped."""
        if not self.training:
            return inputs
        assert self.generator is not None, "training needs randomness"
        shape = (-(-len(inputs) // ROWS_PER_MASK), inputs.shape[1])
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float32, device=inputs.device)
        mask = (drawn >= self.probability).to(inputs.dtype) / (1.0 - self.probability)
        return inputs * mask.repeat_interleave(ROWS_PER_MASK, 0)[: len(inputs)]


def ratio_network(
    n_inputs: int, hidden_layers: tuple[int, ...], dropout: float, generator: torch.Generator
) -> nn.Sequential:
    """Network from (n, n_inputs) to (n, 1), in float32 on the CPU; its output is zero.

    Parameters
    ----------
    n_inputs : int
    hidden_layers : tuple of int
        Widths.
    dropout : float
        Probability, after each hidden layer.
    generator : torch.Generator
        Of any device: all start from the same weights.
    """
    layers: list[nn.Module] = []
    width = n_inputs
    drawing = _cpu(generator)
    for hidden in hidden_layers:
        linear = _blank_linear(width, hidden)
        bound = (6.0 / (width + hidden)) ** 0.5 * (1.0 if layers else FIRST_SCALE)
        with torch.no_grad():
            linear.weight.copy_(_uniform((hidden, width), drawing) * bound)
            linear.bias.copy_(_uniform((hidden,), drawing) * BIAS_RANGE)
        layers += [linear, nn.SiLU()]
        if dropout > 0.0:
            layers.append(Dropout(dropout))
        width = hidden
    last = _blank_linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _blank_linear(n_inputs: int, n_outputs: int) -> nn.Linear:
    """A layer without a start of its own, which would be drawn from the global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_inputs, n_outputs, dtype=torch.float32)
    return layer


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Between -1 and 1, in float32 whatever torch's default is."""
    return 2.0 * torch.rand(shape, generator=generator, dtype=torch.float32) - 1.0


def _cpu(generator: torch.Generator) -> torch.Generator:
    """A CPU generator seeded from the given one, so that all devices start from the same weights."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())
