"""EIM with a network as its only density ratio, at 20 dimensions and 10 components: three ways to estimate it.

    python -m benchmarks.ratio_bottleneck [--seeds 2] [--output benchmarks/results/ratio_bottleneck.txt]

The data are 10000 samples of a random mixture (thesis 6.1), the start is k-means, and the bounds are 0.005 nat. The
network of the thesis classifies samples of p and q. In high dimensions, these classes hardly overlap, so the log ratio
is unreliable far from both classes. Each row is a custom estimator (`EIM(estimator=...)`) with a network of the same
size:

ratio           the log ratio p/q for the current model, trained further in each iteration (thesis 4.3.1)
accumulated     log p = log q_0 + f. The network f is trained to distinguish data from samples of the start, the current
                model and five earlier models. The densities of these models are known, so f remains valid for the
                next iteration
telescoping     sum of four log ratios between waymarks sqrt(1 - a^2) x_p + a x_q (Rhodes et al. 2020)

With "products", products of two coordinates are further inputs of the network, which has one hidden layer of 100 units.
The table lists KL(model || p) [nat] after each number of iterations, without the choice of the best model.
"""

from __future__ import annotations

import argparse
import collections
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks._machine import conditions, print_table
from eim_ros.learning import EIM, EIMConfig, Pairs, RunOptions
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.starts import initial_mixture_of_experts
from experiments import random_mixture

N_DIMS, N_COMPONENTS, N_TRAIN, N_TEST = 20, 10, 10_000, 5000
BATCH, FIRST_EPOCHS, DROPOUT, LEARNING_RATE = 1000, 20, 0.1, 1e-3
N_EARLIER, EARLIER_EVERY = 5, 20  # number of earlier models among the noise, and of iterations between them
N_BRIDGES = 4
REPORT_EVERY = 100  # iterations
SETTINGS = {
    "n_components": N_COMPONENTS,
    "plateau_window": 0,
    "n_selection_samples": 0,
    "m_step.kl_bound": 0.005,
    "m_step.gating.kl_bound": 0.005,
    "m_step.n_samples": 200,
}


class Ratio:
    """Log ratio of p to q by a classifier of data and samples of the model."""

    n_outputs = 1

    def __init__(self, products: bool) -> None:
        self.products, self.network = products, None

    def features(self, sample: Tensor) -> Tensor:
        z = (sample - self.mean) / self.deviation
        if self.products:
            i, j = torch.triu_indices(z.shape[1], z.shape[1])
            z = torch.cat([z, z[:, i] * z[:, j]], -1)
        return z.float()

    def prepare(self, data: Pairs, model: MixtureOfExperts) -> None:
        torch.manual_seed(0)  # seeds the initial weights and dropout
        self.mean, self.deviation, self.start = data.sample.mean(0), data.sample.std(0), model
        width, layers = self.features(data.sample[:2]).shape[1], []
        for units in (100,) if self.products else (50, 50, 50):
            layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(DROPOUT)]
            width = units
        last = nn.Linear(width, self.n_outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(*layers, last)
        self.optimiser = torch.optim.Adam(self.network.parameters(), LEARNING_RATE)

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> None:
        is_first = self.network is None
        if self.network is None:
            self.prepare(data, model)
        self.model = model
        self.network.train()
        for _ in range(FIRST_EPOCHS if is_first else 1):
            self.epoch(data, iteration, generator)
        self.network.eval()

    def epoch(self, data: Pairs, iteration: int, generator: torch.Generator) -> None:
        positive, negative = data.sample, self.noise(data, iteration, generator)
        offsets = self.offset(positive).float(), self.offset(negative).float()
        orders = [torch.randperm(len(data), generator=generator).split(BATCH) for _ in offsets]
        for p, q in zip(*orders, strict=True):
            of_p = offsets[0][p] + self.network(self.features(positive[p])).squeeze(-1)
            of_q = offsets[1][q] + self.network(self.features(negative[q])).squeeze(-1)
            self.descend(nn.functional.softplus(-of_p).mean() + nn.functional.softplus(of_q).mean())

    def descend(self, loss: Tensor) -> None:
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def noise(self, data: Pairs, iteration: int, generator: torch.Generator) -> Tensor:
        return self.model.sample(data.context, generator)

    def offset(self, sample: Tensor) -> Tensor:
        """Return the known part of the log ratio of data to noise, (n,)."""
        return torch.zeros(len(sample))

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        return self.network(self.features(sample)).squeeze(-1).double()


class Accumulated(Ratio):
    """log p = log q_0 + f, with f trained against models whose densities are known (noise-contrastive estimation)."""

    def __init__(self, products: bool) -> None:
        super().__init__(products)
        self.earlier: collections.deque[MixtureOfExperts] = collections.deque(maxlen=N_EARLIER)

    def noise(self, data: Pairs, iteration: int, generator: torch.Generator) -> Tensor:
        if iteration % EARLIER_EVERY == 0 and (not self.earlier or self.earlier[-1] is not self.model):
            self.earlier.append(self.model)
        self.models = [*self.earlier, self.model]
        share = -(-len(data) // len(self.models))
        return torch.cat([model.sample(data.context[:share], generator) for model in self.models])[: len(data)]

    def offset(self, sample: Tensor) -> Tensor:
        log_noise = torch.stack([model.log_prob(sample[:, :0], sample) for model in self.models])
        log_noise = torch.logsumexp(log_noise, 0) - math.log(len(self.models))
        return self.start.log_prob(sample[:, :0], sample) - log_noise

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        change = super().log_ratio(context, sample)
        return self.start.log_prob(context, sample) + change - self.model.log_prob(context, sample)


class Telescoping(Ratio):
    """Sum of the log ratios between neighbouring waymarks."""

    n_outputs = N_BRIDGES

    def epoch(self, data: Pairs, iteration: int, generator: torch.Generator) -> None:
        other = self.noise(data, iteration, generator)
        shares = torch.linspace(0.0, 1.0, N_BRIDGES + 1, dtype=torch.float64)
        marks = [self.features((1.0 - a * a).sqrt() * data.sample + a * other) for a in shares]
        for rows in torch.randperm(len(data), generator=generator).split(BATCH):
            outputs = [self.network(mark[rows]) for mark in marks]
            near = sum(nn.functional.softplus(-outputs[k][:, k]).mean() for k in range(N_BRIDGES))
            far = sum(nn.functional.softplus(outputs[k + 1][:, k]).mean() for k in range(N_BRIDGES))
            self.descend(near + far)

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        return self.network(self.features(sample)).sum(-1).double()


KINDS = {"ratio": Ratio, "accumulated": Accumulated, "telescoping": Telescoping}


def curve(kind: str, products: bool, seed: int, n_iterations: int) -> tuple[list[float], float]:
    """Return the KL at the start and after every `REPORT_EVERY` iterations [nat], and the CPU time [s]."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + 1000 * N_DIMS + N_COMPONENTS)
    target = random_mixture(N_DIMS, N_COMPONENTS, generator)
    train = target.sample(N_TRAIN, generator)
    start, known = (
        initial_mixture_of_experts(train[:, :0], train, N_COMPONENTS, generator),
        MixtureOfExperts.from_mixture(target),
    )

    def divergence(model: MixtureOfExperts) -> float:
        nothing = torch.zeros(N_TEST, 0, dtype=torch.float64)
        sample = model.sample(nothing, torch.Generator().manual_seed(1))
        return float((model.log_prob(nothing, sample) - known.log_prob(nothing, sample)).mean())

    values, began = [divergence(start)], time.process_time()

    def watch(state: object, record: object) -> None:
        if state.iteration % REPORT_EVERY == 0:
            values.append(divergence(state.model))

    config = EIMConfig.from_mapping({**SETTINGS, "n_iterations": n_iterations})
    EIM(config, estimator=KINDS[kind](products)).fit(
        train, start, generator=torch.Generator().manual_seed(seed), run=RunOptions(callbacks=[watch])
    )
    return values, time.process_time() - began


def rows(n_seeds: int, n_iterations: int) -> Iterator[str]:
    steps = range(0, n_iterations + 1, REPORT_EVERY)
    yield f"{'estimator':24}{'seed':>5}{'CPU s':>8}" + "".join(f"{step:8d}" for step in steps)
    for kind in KINDS:
        for products in (False, True):
            for seed in range(n_seeds):
                values, seconds = curve(kind, products, seed, n_iterations)
                name = f"{kind}{', products' if products else ''}"
                yield f"{name:24}{seed:5d}{seconds:8.0f}" + "".join(f"{value:8.2f}" for value in np.array(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [f"{conditions(['torch', 'numpy'])}; KL(model || p) [nat] after n iterations"]
    print_table(head, rows(args.seeds, args.iterations), args.output)


if __name__ == "__main__":
    main()
