"""Adam without the imports of `torch.optim`.

`torch.optim.Adam` runs the same kernel, but its first use imports the compiler of PyTorch. That takes more than a
second, longer than a small fit.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from eim_ros.learning.models.gaussian import tensors_of

BETAS, EPSILON = (0.9, 0.999), 1e-8  # the defaults of PyTorch


class Adam:
    """Adam for a few parameters, which `step` changes in place, with the default settings of `torch.optim.Adam`."""

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
