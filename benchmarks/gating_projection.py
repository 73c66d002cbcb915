"""Gain of the gating's update with its default settings, as a share of the attainable gain, and its CPU time.

    python -m benchmarks.gating_projection [--cases 200] [--output benchmarks/results/gating_projection.txt]

Each case has 1 to 7 context dimensions, 2 to 30 experts and 200 to 2000 contexts. Rewards are noisy functions of the
contexts: linear, linear with a different scale for each expert, quadratic, or periodic. Old gatings range from uniform
to nearly deterministic. The KL bound is between 0.005 and 0.1 nat, and the entropy bound is 0.05 nat. The gain is the
objective of the update, which is the mean reward minus the KL. The attainable gain is the largest gain of four
settings: the default and the natural gradient, each with default iterations or with 2000 iterations per pair of
multipliers. The attainable gain is therefore a lower bound of the optimum.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eim_ros.learning.models import SoftmaxGating
from eim_ros.learning.projections import project_gating

ENTROPY_LOSS_BOUND = 0.05  # largest loss of entropy [nat]
REFERENCES = ({"max_iterations": 2000}, {"update": "natural"}, {"update": "natural", "max_iterations": 2000})


@dataclass(frozen=True)
class Case:
    """A gating, its contexts (n, d), rewards (n, k) and the bound of the KL [nat]."""

    gating: SoftmaxGating
    context: Tensor
    reward: Tensor
    kl_bound: float

    @classmethod
    def random(cls, seed: int) -> Case:
        """Draw a case with random sizes and scales."""
        rng = np.random.default_rng(seed)
        d, k, n = int(rng.integers(1, 8)), int(rng.integers(2, 31)), int(rng.integers(200, 2001))
        mixing = rng.normal(size=(d, d)) if rng.random() < 0.5 else np.eye(d)
        context = rng.normal(size=(n, d)) @ mixing * np.exp(rng.normal(size=d)) + rng.normal(size=d)
        if rng.random() < 0.3:  # one direction dominates
            context += context @ rng.normal(size=(d, 1)) * 3.0 * rng.normal(size=(1, d))
        center, scale = context.mean(0), context.std(0)
        standard = (context - center) / scale
        size = float(np.exp(rng.uniform(np.log(0.1), np.log(30.0))))
        noise = float(rng.choice([0.0, 0.3, 1.0, 3.0])) * rng.normal(size=(n, k))
        reward = noise + standard @ rng.normal(size=(d, k)) / np.sqrt(d) + rng.normal(size=k)
        kind = int(rng.integers(4))
        if kind == 1:
            reward *= np.exp(rng.normal(size=k))
        elif kind == 2:
            offset = standard[:, None] - rng.normal(size=(k, d))
            reward -= 0.5 * (offset**2 * np.exp(rng.normal(size=(k, d)))).sum(-1)
        elif kind == 3:
            reward += np.sin(2.0 * standard @ rng.normal(size=(d, k)))
        weights = float(rng.choice([0.0, 0.5, 1.5, 4.0])) * rng.normal(size=(k, d)) / np.sqrt(d) / scale
        biases = float(rng.choice([0.0, 1.0, 2.0, 4.0])) * rng.normal(size=k) - weights @ center
        gating = SoftmaxGating(torch.from_numpy(weights), torch.from_numpy(biases))
        kl_bound = float(10.0 ** rng.uniform(np.log10(0.005), -1.0))
        return cls(gating, torch.from_numpy(context), torch.from_numpy(size * reward), kl_bound)

    def gain(self, **settings: object) -> tuple[float, float]:
        """Return the gain of an update [nat] and its CPU time [s]. The gain is zero if the update exceeds a bound."""
        start = time.thread_time()
        update = project_gating(
            self.gating,
            self.context,
            self.reward,
            self.kl_bound,
            ENTROPY_LOSS_BOUND,
            **settings,  # type: ignore[arg-type]
        )
        seconds = time.thread_time() - start
        old, new = self.gating(self.context), update.gating(self.context)
        kl = float((new.exp() * (new - old)).sum(-1).mean())
        loss = float((new.exp() * new - old.exp() * old).sum(-1).mean())
        if kl > self.kl_bound * (1.0 + 1e-6) or loss > ENTROPY_LOSS_BOUND * (1.0 + 1e-6):
            return 0.0, seconds
        return float(((new.exp() - old.exp()) * self.reward).sum(-1).mean()) - kl, seconds

    def attainable(self) -> float:
        """Return the largest gain of the slower settings [nat]."""
        return max(self.gain(**settings)[0] for settings in REFERENCES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    Case.random(0).gain()  # not measured, because the first call imports modules
    shares, seconds = [], []
    for seed in range(args.cases):
        case = Case.random(seed)
        gain, spent = case.gain()
        shares.append(gain / max(gain, case.attainable()))
        seconds.append(spent)
    order = np.argsort(shares)
    lines = [
        f"gating projection, default settings, seeds 0 to {args.cases - 1}, one thread",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}",
        "",
        f"share of the attainable gain: mean {np.mean(shares):.4f}, least {np.min(shares):.4f}",
        f"cases below 0.98: {sum(share < 0.98 for share in shares)} of {args.cases}",
        f"CPU time per update: mean {1e3 * np.mean(seconds):.1f} ms, largest {1e3 * np.max(seconds):.1f} ms",
        "smallest shares (seed): " + ", ".join(f"{shares[i]:.4f} ({i})" for i in order[:5]),
    ]
    print("\n".join(lines))
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
