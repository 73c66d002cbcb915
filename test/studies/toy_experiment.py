"""Small experiment for tests of the harness. Its rows depend only on cell and seed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import torch

from eim_ros.core.settings import Settings, option
from experiments.harness import Cell, Experiment, Outcome


@dataclass(frozen=True)
class ToySettings(Settings):
    scale: float = option(1.0, "scale of the noise", minimum=0.0)
    counts: tuple[int, ...] = option((1, 2, 3), "numbers of samples", minimum=1)


def cells(settings: ToySettings) -> list[Cell]:
    return [
        {"method": method, "estimator": "none", "count": n} for n in settings.counts for method in ("mean", "largest")
    ]


def measure(settings: ToySettings, cell: Cell, seed: int) -> Outcome:
    if os.environ.get("TOY_KILLED_AT") == f"{cell['method']} {cell['count']} {seed}":
        os.kill(os.getpid(), signal.SIGKILL)
    noise = settings.scale * torch.randn(int(cell["count"]), generator=torch.Generator().manual_seed(seed)).double()
    value = noise.mean() if cell["method"] == "mean" else noise.max()
    return Outcome(0.0, {"value": float(value), "drawn": noise.tolist()})


TOY = Experiment("toy", "arithmetic", ToySettings, cells, measure, {})
