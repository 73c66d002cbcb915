"""Gradients and Adam steps of the ratio network, without automatic differentiation.

A layer computes h = m * silu(W a + b), with the dropout mask m and silu(z) = z sigmoid(z). With s = sigmoid(z), its
derivative is

    silu'(z) = s + z s (1 - s).

The forward pass stores m silu'(z) of each layer, so the backward pass needs one product per element and two matrix
products per layer. A compiled loop computes both on the CPU. The arrays are allocated once.

`torch.optim.Adam` runs the same kernel as `Adam` below, but its first use imports the compiler of PyTorch. That takes
more than a second, longer than a small fit.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.native import masked_silu

ROWS_PER_MASK = 16  # successive rows that share a dropout mask
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam, the defaults of PyTorch


class Dropout(nn.Module):
    """Dropout layer with its own source of randomness, which sets inputs to zero and scales the others up in training.

    Successive rows share a mask. Drawing a mask for each row would take longer than the layers themselves, and the
    batches are shuffled.

    Parameters
    ----------
    probability : float
        Probability of setting an input to zero, at least 0 and less than 1.

    Attributes
    ----------
    generator : torch.Generator or None
        Source of randomness on the device of the inputs. It must be set before training.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs (n, width), with dropout in training and unchanged in evaluation."""
        if not self.training:
            return inputs
        return inputs * self.mask(inputs).repeat_interleave(ROWS_PER_MASK, 0)[: len(inputs)]

    def mask(self, inputs: Tensor) -> Tensor:
        """Draw a factor for each block of rows of the inputs (n, width), (n / ROWS_PER_MASK rounded up, width)."""
        assert self.generator is not None, "training needs randomness"
        shape = (-(-len(inputs) // ROWS_PER_MASK), inputs.shape[1])
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float32, device=inputs.device)
        return (drawn >= self.probability).to(inputs.dtype) / (1.0 - self.probability)


class Backpropagation:
    """Outputs of a network in training, and their gradients in its parameters.

    Parameters
    ----------
    network : torch.nn.Sequential
        Linear layers, each followed by `SiLU` and optionally by `Dropout`, and a last linear layer with one output.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.ratio.backpropagation import Backpropagation
    >>> network = torch.nn.Sequential(torch.nn.Linear(1, 1))
    >>> training = Backpropagation(network)
    >>> training.outputs(torch.tensor([[2.0], [3.0]])).shape
    torch.Size([2])
    >>> [gradient.tolist() for gradient in training.gradients(torch.tensor([1.0, 1.0]))]
    [[[5.0]], [2.0]]
    """

    def __init__(self, network: nn.Sequential) -> None:
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        self.hidden, self.last = layers[:-1], layers[-1]
        dropouts = [layer for layer in network if isinstance(layer, Dropout)]
        self.dropouts: list[Dropout | None] = [*dropouts] if dropouts else [None] * len(self.hidden)
        self._rows: list[Tensor] = []  # inputs of each layer
        self._slopes: list[Tensor] = []  # m silu'(z) of each hidden layer
        self._scratch: list[Tensor] = []

    @torch.no_grad()
    def outputs(self, inputs: Tensor) -> Tensor:
        """Return the outputs (n,) at inputs (n, n_inputs), and store what `gradients` needs."""
        self._allocate(inputs)
        self._rows[0] = inputs
        for number, (layer, dropout) in enumerate(zip(self.hidden, self.dropouts, strict=True)):
            rows, slope = self._rows[number + 1], self._slopes[number]
            torch.addmm(layer.bias, self._rows[number], layer.weight.T, out=rows)
            mask = rows.new_ones(1, rows.shape[1]) if dropout is None else dropout.mask(rows)
            together = len(rows) if dropout is None else ROWS_PER_MASK
            if rows.device.type == "cpu":
                masked_silu(rows.numpy(), slope.numpy(), mask.numpy(), together)
            else:
                _masked_silu(rows, slope, mask, together)
        return torch.addmm(self.last.bias, self._rows[-1], self.last.weight.T).squeeze(-1)

    @torch.no_grad()
    def gradients(self, slope: Tensor) -> list[Tensor]:
        """Return the gradients of an objective in the parameters, in the order of `network.parameters()`.

        `slope` (n,) is the gradient of the objective in the last outputs.
        """
        column = slope.unsqueeze(-1)
        found = [column.sum(0), column.T @ self._rows[-1]]
        upper, upper_layer = column, self.last
        for number in range(len(self.hidden) - 1, -1, -1):
            lower = torch.mm(upper, upper_layer.weight, out=self._scratch[number])
            lower.mul_(self._slopes[number])
            found += [lower.sum(0), lower.T @ self._rows[number]]
            upper, upper_layer = lower, self.hidden[number]
        return found[::-1]

    def _allocate(self, inputs: Tensor) -> None:
        """Allocate the arrays for the number of rows of the inputs, unless they exist."""
        if self._rows and len(self._rows[0]) == len(inputs):
            return
        widths = [layer.out_features for layer in self.hidden]
        self._rows = [inputs, *(inputs.new_empty(len(inputs), width) for width in widths)]
        self._slopes, self._scratch = ([torch.empty_like(rows) for rows in self._rows[1:]] for _ in range(2))


def _masked_silu(values: Tensor, slopes: Tensor, factors: Tensor, together: int) -> None:
    """Do the same as the compiled `masked_silu` on any device."""
    factors = factors.repeat_interleave(together, 0)[: len(values)]
    sigmoid = torch.sigmoid(values)
    silu = values * sigmoid
    torch.mul(factors, sigmoid + silu * (1.0 - sigmoid), out=slopes)
    torch.mul(factors, silu, out=values)


class Adam:
    """Adam for a few parameters, with the kernel and the default settings of `torch.optim.Adam`.

    Parameters
    ----------
    parameters : list of Tensor
        Parameters that `step` changes in place.
    step_size : float

    Examples
    --------
    The first step has the length of the step size:

    >>> import torch
    >>> from eim_ros.learning.ratio.backpropagation import Adam
    >>> parameter = torch.zeros(1)
    >>> Adam([parameter], step_size=0.5).step([torch.tensor([3.0])])
    >>> parameter.tolist()
    [-0.5]
    """

    def __init__(self, parameters: list[Tensor], step_size: float) -> None:
        self.parameters = parameters
        self.step_size = step_size
        self.moments = {name: [torch.zeros_like(p) for p in parameters] for name in ("exp_avg", "exp_avg_sq")}
        self.moments["step"] = [p.new_zeros(()) for p in parameters]

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """Change the parameters by one step, given the gradient of the objective in each of them."""
        adam(
            self.parameters,
            gradients,
            self.moments["exp_avg"],
            self.moments["exp_avg_sq"],
            [],
            self.moments["step"],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.step_size,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the moments, by the index of the parameter and the name of the moment."""
        return {f"{i}.{name}": part.clone() for name, parts in self.moments.items() for i, part in enumerate(parts)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Set the moments to those that `tensors` returned."""
        for name, parts in self.moments.items():
            for index, part in enumerate(parts):
                part.copy_(tensors_of(f"{index}.", tensors)[name])
