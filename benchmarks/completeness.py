"""Correctness, cost and benefit of answers reported as complete, compared with simpler strategies of this package.

    python -m benchmarks.completeness [--poses 200] [--seed 0] [--certified] [--output FILE]

Poses come from forward kinematics of uniform random configurations. Times are the shortest of 3 calls on one thread.
The truth of a pose combines two sets of solutions. The first set is 20000 uniform seeds refined by `refine`, which does
not trace curves. The second set comes from a search with another seed for missed_share 1e-4 at 99.9 %, with solutions
at most 0.02 rad apart. Self-motion components link solutions within 0.12 rad (max-norm) and have at least 3 members.

1. Claims of `solve_all(pose, 0.3, Completeness(0.99, 0.002))`: how many poses are reported as complete. A claim is
   wrong if some solution of the truth is farther than 0.05 rad from a dense answer (max_spacing 0.02) of the same
   search. The table also lists the share of poses for which every component was found, and the coverage. Coverage is
   the share of the truth within 0.3 rad of an answer, averaged over components.
2. Calibration: the share of wrong claims, for confidences and shares that are loose enough to fail. At confidence 0.9,
   10 % of the claims may be wrong if all missed components are as small as the share.
3. Coverage and time of the default call and its rivals for n = 100, 200 and 500. The rivals are 2 n uniform seeds,
   100 seeds with `spread` and without a model, and `diversity=0.85`, the earlier default.
4. Nearest solution by `solve(pose, near)`: share of answers that are the nearest solution of the truth to within
   1e-4 rad. `near` is uniform within the limits, or a solution with noise of 0.05 rad.

With --certified, the components of `solve_all(pose, 0.3, "certified")` are compared with a search that restarts until
missed_share 5e-4 at 99 % and traces curves. Both agree if the numbers of components are equal, and the sorted lengths
differ by at most 0.02 rad or 1 %. If they disagree, or if the search did not trace all curves, the truth combines
200000 uniform seeds with a dense answer of the search. Both sets are refined to 1e-10 m and rad, because a tolerance of
1e-6 also accepts configurations near exact solutions that are beyond the limits. Solutions farther than 0.05 rad from a
dense certified answer count as missed. All other poses are checked in the same way with 500 uniform seeds. Times are
CPU times.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from benchmarks._machine import load_average, processor
from eim_ros.ik import Completeness, CompletenessReport, Sampler, Solutions
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Covering
from eim_ros.ik.setup import Setup
from eim_ros.ik.strategies.manifold import Curves
from eim_ros.kinematics import Robot, refine, spread

ARMS = ("panda", "iiwa14")
SEEDS = 20000
LINK, LEAST_MEMBERS = 0.12, 3
RADIUS, MISSED = 0.3, 0.05  # [rad]
REPEATS = 3
LOOSE = (Completeness(0.9, 0.1), Completeness(0.9, 0.05), Completeness(0.9, 0.02), Completeness(0.99, 0.01))


@dataclass(frozen=True)
class Truth:
    """Solutions of a pose (n, dof), and the self-motion component of each; -1 for solutions without a component."""

    solutions: np.ndarray
    component: np.ndarray

    @property
    def n_components(self) -> int:
        return int(self.component.max()) + 1

    def coverage(self, answer: np.ndarray, radius: float = RADIUS) -> float:
        """Return the share of each component within `radius` [rad] of the answer, averaged over components."""
        if not len(answer):
            return 0.0
        away, _ = cKDTree(answer).query(self.solutions)
        return float(np.mean([np.mean(away[self.component == k] <= radius) for k in range(self.n_components)]))

    def has_all_in(self, dense: np.ndarray) -> bool:
        """Return whether every solution is close to a row of a dense answer."""
        return bool(len(dense)) and float(cKDTree(dense).query(self.solutions)[0].max()) <= MISSED


def truth_of(sampler: Sampler, pose: np.ndarray, rng: np.random.Generator) -> Truth:
    robot = sampler.robot
    refined = refine(robot, robot.random(SEEDS, rng), pose)
    traced = sampler.solve_all(
        pose, 0.02, guarantee=Completeness(0.999, 1e-4), timeout=60.0, seed=int(rng.integers(2**31))
    )
    solutions = np.concatenate([refined.positions[refined.converged], traced.q])
    pairs = cKDTree(solutions).query_pairs(LINK, p=np.inf, output_type="ndarray")
    links = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(len(solutions),) * 2)
    labels = connected_components(links, directed=False)[1]
    is_component = np.bincount(labels) >= LEAST_MEMBERS
    numbers = np.where(is_component, np.cumsum(is_component) - 1, -1)
    return Truth(solutions, numbers[labels])


def shortest(
    call: Callable[[], np.ndarray], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, np.ndarray]:
    """Return the shortest time of several calls [s] and the last answer."""
    times = []
    for _ in range(REPEATS):
        began = clock()
        answer = call()
        times.append(clock() - began)
    return min(times), answer


def all_solutions(
    sampler: Sampler, pose: np.ndarray, seed: int, max_spacing: float, guarantee: Completeness
) -> Solutions:
    return sampler.solve_all(pose, max_spacing, guarantee, timeout=10.0, seed=seed)


def uniform(robot: Robot, pose: np.ndarray, rng: np.random.Generator, n_seeds: int, most: int) -> np.ndarray:
    refined = refine(robot, robot.random(n_seeds, rng), pose, patience=3)
    return refined.positions[refined.converged][:most]


def walks(robot: Robot, pose: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    roots = uniform(robot, pose, rng, 100, n)
    return (
        np.concatenate([roots, spread(robot, roots, pose, n - len(roots), rng, finest=0.01)]) if len(roots) else roots
    )


def of_arm(name: str, n_poses: int, seed: int) -> list[str]:
    sampler = Sampler(name)
    robot, rng = sampler.robot, np.random.default_rng(seed)
    poses = robot.fk(robot.random(n_poses, rng))
    truths = [truth_of(sampler, pose, rng) for pose in poses]
    n_components = [truth.n_components for truth in truths]
    lines = [
        f"{name}: {n_poses} poses, components {np.median(n_components):.0f} ({min(n_components)}-{max(n_components)})"
    ]

    wanted, rows = Completeness(), []
    for index, (pose, truth) in enumerate(zip(poses, truths, strict=True)):
        seconds, _ = shortest(lambda pose=pose, index=index: all_solutions(sampler, pose, index, 0.3, wanted).q)
        answer, dense = (all_solutions(sampler, pose, index, step, wanted) for step in (0.3, 0.02))
        found = answer.completeness
        has_all = truth.has_all_in(dense.q)
        coverage = truth.coverage(answer.q)
        rows.append((found.is_complete, found.is_complete and not has_all, has_all, coverage, seconds, len(answer)))
    told, wrong, every, covered, seconds_, n = np.array(rows, dtype=float).T
    lines.append(
        f"  guarantee .99, .002: reported complete {told.mean():.1%}, wrongly {wrong.mean():.1%}, every component "
        f"{every.mean():.1%}, coverage {covered.mean():.3%}, median {1e3 * np.median(seconds_):.2f} ms (90 %: "
        f"{1e3 * np.quantile(seconds_, 0.9):.2f}), {np.median(n):.0f} configurations"
    )
    for wanted in LOOSE:
        claims = [
            (dense.completeness.is_complete, not truth.has_all_in(dense.q))
            for index, (pose, truth) in enumerate(zip(poses, truths, strict=True))
            if (dense := all_solutions(sampler, pose, index, 0.02, wanted)) is not None
        ]
        told, missed = np.array(claims).T
        lines.append(
            f"  guarantee {wanted.confidence}, {wanted.missed_share}: reported complete {told.mean():.1%}, wrongly "
            f"{(told & missed).sum() / max(told.sum(), 1):.1%} of these"
        )

    for n_wanted in (100, 200, 500):
        ways: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
            "default": lambda pose, index, n=n_wanted: sampler.sample(pose, n, seed=index).q,
            "diversity 0.85": lambda pose, index, n=n_wanted: sampler.sample(pose, n, diversity=0.85, seed=index).q,
            "uniform seeds": lambda pose, _, n=n_wanted: uniform(robot, pose, rng, 2 * n, n),
            "100 seeds, continued": lambda pose, _, n=n_wanted: walks(robot, pose, rng, n),
        }
        parts = []
        for way, call in ways.items():
            figures = []
            for index, (pose, truth) in enumerate(zip(poses, truths, strict=True)):
                took, answer = shortest(partial(call, pose, index))
                figures.append((took, truth.coverage(answer), truth.coverage(answer) > 0.99))
            took, covered, nearly = np.array(figures, dtype=float).T
            parts.append(
                f"    {way:20s} {1e3 * np.median(took):6.2f} ms  coverage {covered.mean():7.2%}  of at least 99 %: "
                f"{nearly.mean():.0%} of poses"
            )
        lines += [f"  n = {n_wanted}", *parts]

    for what in ("uniform", "noise of 0.05 rad"):
        figures = []
        for index, (pose, truth) in enumerate(zip(poses, truths, strict=True)):
            near = robot.random(1, rng)[0]
            if what != "uniform":
                start = truth.solutions[rng.integers(len(truth.solutions))]
                near = np.clip(start + rng.normal(0.0, 0.05, robot.dof), robot.lower, robot.upper)
            took, rows_ = shortest(lambda pose=pose, near=near, index=index: sampler.solve(pose, near, seed=index).q)
            least = np.linalg.norm(truth.solutions - near, axis=1).min()
            figures.append((took, np.linalg.norm(rows_[0] - near) <= least + 1e-4))
        took, right = np.array(figures, dtype=float).T
        lines.append(
            f"  near, {what}: the nearest solution at {right.mean():.1%} of poses, median time "
            f"{1e6 * np.median(took):.0f} us (90 % quantile {1e6 * np.quantile(took, 0.9):.0f} us)"
        )
    return lines


def of_ur5(n_poses: int, seed: int) -> str:
    """Measure an arm with a closed form for comparison. Its answers are complete by construction."""
    sampler = Sampler("ur5")
    robot, rng = sampler.robot, np.random.default_rng(seed)
    rows = []
    for pose in robot.fk(robot.random(n_poses, rng)):
        seconds, answer = shortest(lambda pose=pose: sampler.solve_all(pose, guarantee=Completeness(), seed=0).q)
        # near a singularity, configurations 0.05 rad apart satisfy a tolerance of 1e-6
        exact = {"position_tolerance": 1e-10, "orientation_tolerance": 1e-10}
        refined = refine(robot, robot.random(2000, rng), pose, **exact)
        found = sampler.solve_all(pose, guarantee=Completeness(), seed=0)
        truth = refined.positions[refined.converged]
        on_circles = [np.concatenate([np.cos(q), np.sin(q)], axis=1) for q in (found.q, truth)]
        missed = len(truth) and cKDTree(on_circles[0]).query(on_circles[1])[0].max() > MISSED
        rows.append((found.completeness.is_complete, missed, seconds, len(answer)))
    told, missed, took, n = np.array(rows, dtype=float).T
    return (
        f"ur5: {n_poses} poses, reported complete {told.mean():.1%}, wrongly {(told * missed).mean():.1%}, median "
        f"{1e6 * np.median(took):.0f} us, {np.median(n):.0f} configurations"
    )


def agrees(ours: CompletenessReport, theirs: CompletenessReport) -> bool:
    if ours.n_components != theirs.n_components:
        return False
    return bool(np.allclose(np.sort(ours.lengths), np.sort(theirs.lengths), rtol=0.01, atol=0.02))


def of_certified(name: str, n_poses: int, seed: int) -> list[str]:
    """Compare the self-motion components that a closed form proves with search and brute force."""
    sampler = Sampler(name)
    robot, rng = sampler.robot, np.random.default_rng(seed)
    poses = robot.fk(robot.random(n_poses, rng))
    seconds, n_components, n_certified, n_traced, n_other, n_missed = [], [], 0, 0, 0, 0
    for index, pose in enumerate(poses):
        certified = partial(sampler.solve_all, pose, guarantee="certified", seed=index)
        took, _ = shortest(lambda certified=certified: certified(max_spacing=0.3).q, time.thread_time)
        dense = certified(max_spacing=0.05)
        n_certified += dense.certified
        seconds.append(took)
        if not dense.certified:
            continue
        n_components.append(dense.completeness.n_components)
        aim = Covering(0.02, guarantee=Completeness(0.99, 5e-4))
        searched = Curves.of(Problem(Setup(robot, sampler.constraints), pose, False, aim, seed=index))
        n_traced += searched.is_traced
        differs = not (searched.is_traced and agrees(dense.completeness, searched.report))
        seeds = robot.random(200_000 if differs else 500, rng)
        if differs:
            seeds = np.concatenate([seeds, searched.even(np.inf)[0].q])
            n_other += searched.is_traced
        exactly = {"position_tolerance": 1e-10, "orientation_tolerance": 1e-10}
        refined = refine(robot, seeds, pose, **exactly)
        truth = refined.positions[refined.converged]
        away = cKDTree(dense.q).query(truth)[0].max() if len(truth) and len(dense) else 0.0
        if away > MISSED or (len(truth) and not len(dense)):
            n_missed += 1
            print(f"  {name}, pose {index}: a solution {away:.3f} rad away", flush=True)
    return [
        f"{name}: {n_poses} poses, components {np.median(n_components):.0f} ({min(n_components)}-{max(n_components)})",
        f"  certified {n_certified}, with a solution missed {n_missed}; the search traced all of {n_traced}, and where "
        f"it did differed in {n_other}",
        f"  median {1e3 * np.median(seconds):.2f} ms, 99 % {1e3 * np.quantile(seconds, 0.99):.2f}, "
        f"longest {1e3 * max(seconds):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--certified", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [f"{processor()}, load {load_average()}, Python {platform.python_version()}, seed {args.seed}", ""]
    for name in ARMS:
        found = (of_certified if args.certified else of_arm)(name, args.poses, args.seed)
        lines += [*found, ""]
        print("\n".join(found), flush=True)
    if not args.certified:
        lines.append(of_ur5(args.poses, args.seed))
        print(lines[-1])
    if args.output:
        what = of_certified.__doc__ if args.certified else __doc__.split("\n\n")[0]
        args.output.write_text("\n".join([what, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
