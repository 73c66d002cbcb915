"""Benefit of the learned sampler: its proposals compared with uniform seeds, with the same refiner, in one run.

    python -m benchmarks.ik_sampling [--models FILE|NAME ...] [--poses 10000] [--output FILE]

Full poses come from forward kinematics of uniform random configurations, with other seeds than in training. Times are
CPU times on one thread, the shortest of several interleaved calls. The suffixes "6" and "3" are the refiner's patience.
6 is its default, and 3 is the sampler's value, which is faster if another seed is available.

1. Cost per valid solution for 200 solutions of 60 poses. "default" is `sample(pose, 200)` without options: distinct
   solutions, ordered by density if the model has a preference. The options are order "none" and order "density". "draw"
   is `draw(pose, 200, "model")`, independent draws from the model's density on the solutions. Next come the parts of
   these calls: 200 seeds of the mixture and 200 uniform seeds. They are refined to 1e-6 m and 1e-6 rad within limits,
   and verified. Log-densities are compared with the sum over all experts in double precision.
2. Coverage of all solutions of 20 poses over time. The truth consists of 20000 refined uniform seeds. Their self-motion
   components are found by single linkage at 0.35 rad and have at least 10 members. Coverage is the share of a component
   within 0.3 rad of a returned solution, averaged over components. The column "n" is the number of uniform seeds or of
   requested solutions.
3. Reliability: one solution of each of 10000 reachable poses, and poses out of reach.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks._machine import load_average, processor
from eim_ros.ik import ErrorCode, IKModel, Sampler
from eim_ros.ik.evaluation import exact_solutions
from eim_ros.ik.prior import MixtureEvaluator
from eim_ros.kinematics import Robot, context_from_pose

N = 200
TOLERANCE = 1e-6
BUDGETS = (31, 43, 60, 84, 118, 165, 231, 324, 454, 635)
EARLY = 0.5e-3  # [s]
ENOUGH = 0.93  # coverage
REPEATS = 7
MODELS = ("panda_pose", "iiwa14_pose")

Solve = Callable[[np.ndarray, int], np.ndarray]  # pose, number of seeds or solutions -> valid solutions


def seeds_of(model: IKModel, rng: np.random.Generator) -> dict[str, Solve]:
    """Return solvers that refine seeds of the mixture, and uniform seeds."""
    robot, proposal = model.robot, MixtureEvaluator(model.content)

    def refined(seeds: np.ndarray, pose: np.ndarray, patience: int) -> np.ndarray:
        positions = robot.refine(seeds, pose, patience=patience).positions
        distance, angle = robot.pose_errors(positions, pose)
        return positions[(distance <= TOLERANCE) & (angle <= TOLERANCE) & robot.within_limits(positions)]

    def learned(patience: int) -> Solve:
        def solve(pose: np.ndarray, n: int) -> np.ndarray:
            seeds, _ = proposal.condition(context_from_pose(pose[None], "pose")).sample(n, rng)
            return refined(seeds, pose, patience)

        return solve

    def uniform(patience: int) -> Solve:
        return lambda pose, n: refined(robot.random(n, rng), pose, patience)

    return {"uniform 6": uniform(6), "uniform 3": uniform(3), "mixture 6": learned(6), "mixture 3": learned(3)}


def calls_of(sampler: Sampler, rng: np.random.Generator) -> dict[str, Solve]:
    """Return the public calls with default settings and with options."""

    def seed() -> int:
        return int(rng.integers(1 << 30))

    return {
        "default": lambda pose, n: sampler.sample(pose, n).q,
        "none": lambda pose, n: sampler.sample(pose, n, order="none", seed=seed()).q,
        "density": lambda pose, n: sampler.sample(pose, n, order="density", seed=seed()).q,
        "draw": lambda pose, n: sampler.draw(pose, n, "model", seed=seed()).q,
    }


def shortest(
    ways: dict[str, Solve], pose: np.ndarray, budgets: tuple[int, ...]
) -> dict[str, list[tuple[float, list[np.ndarray]]]]:
    """Return the shortest time [s] and the first runs' solutions for each way and budget; the ways take turns."""
    seconds: dict[tuple[str, int], list[float]] = {(name, n): [] for name in ways for n in budgets}
    found: dict[tuple[str, int], list[np.ndarray]] = {(name, n): [] for name in ways for n in budgets}
    for _ in range(REPEATS):
        for n in budgets:
            for name, solve in ways.items():
                began = time.process_time()
                solutions = solve(pose, n)
                seconds[name, n].append(time.process_time() - began)
                found[name, n].append(solutions)
    return {name: [(min(seconds[name, n]), found[name, n][:3]) for n in budgets] for name in ways}


def cost(ways: dict[str, Solve], poses: np.ndarray) -> list[str]:
    seconds, solutions = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for pose in poses:
        for name, [(least, found)] in shortest(ways, pose, (N,)).items():
            seconds[name] += least
            solutions[name] += float(np.mean([len(each) for each in found]))
    per = {name: 1e6 * seconds[name] / solutions[name] for name in seconds}
    lines = [f"  {'':10} {'us/solution':>12} {'to uniform 6':>13} {'to uniform 3':>13} {'solutions':>10}"]
    for name in per:
        ratios = "".join(f"{per[name] / per[base]:>14.2f}" for base in ("uniform 6", "uniform 3"))
        lines.append(f"  {name:10} {per[name]:>12.2f}{ratios} {solutions[name] / len(poses):>10.0f}")
    return lines


def density_error(model: IKModel, sampler: Sampler, poses: np.ndarray) -> str:
    """Compare log-densities of answers with the sum over all experts in double precision [nat]."""
    mixture, largest, lowest, highest = model.mixture.to(dtype=torch.float64), 0.0, np.inf, -np.inf
    for index, pose in enumerate(poses):
        answer = sampler.sample(pose, N, seed=index)
        context = torch.from_numpy(context_from_pose(pose[None], "pose")).expand(len(answer), -1)
        exact = mixture.log_prob(context, torch.from_numpy(answer.q)).numpy()
        largest = max(largest, float(np.abs(answer.log_prob - exact).max()))
        lowest, highest = min(lowest, exact.min()), max(highest, exact.max())
    values = f"log densities of {lowest:.0f} to {highest:.0f} nat"
    return f"  {values}: off by {largest:.1e} nat at most from the sum over all experts"


def coverage(robot: Robot, ways: dict[str, Solve], poses: np.ndarray, rng: np.random.Generator) -> list[str]:
    curves = {name: np.zeros((len(BUDGETS), 3)) for name in ways}  # time, coverage, share of components
    truths = [exact_solutions(robot, pose, 20_000, rng) for pose in poses]
    for pose, truth in zip(poses, truths, strict=True):
        for name, results in shortest(ways, pose, BUDGETS).items():
            for row, (least, found) in enumerate(results):
                covered = np.mean([(truth.coverage(each), truth.share_of_components(each)) for each in found], axis=0)
                curves[name][row] += np.array([least, *covered]) / len(poses)
    n_components = [truth.n_components for truth in truths]
    lines = [f"  components per pose: {min(n_components)} to {max(n_components)}"]
    lines.append(f"  {'':10} {'ms to 93 % coverage':>20} {'to uniform 6':>13} {'coverage, components at .5 ms':>30}")
    reached = {name: np.interp(ENOUGH, curve[:, 1], curve[:, 0], right=np.inf) for name, curve in curves.items()}
    for name, curve in curves.items():
        early = [np.interp(EARLY, curve[:, 0], curve[:, column]) for column in (1, 2)]
        ratio = reached[name] / reached["uniform 6"]
        times = f"{1e3 * reached[name]:>20.2f} {ratio:>13.2f}"
        lines.append(f"  {name:10} {times} {100 * early[0]:>21.1f} %{100 * early[1]:>5.1f} %")
    lines.append("  n: ms, coverage, components by " + ", ".join(curves))
    for index, budget in enumerate(BUDGETS):
        values = "   ".join(
            "{:6.3f} {:.3f} {:.3f}".format(1e3 * row[index, 0], *row[index, 1:]) for row in curves.values()
        )
        lines.append(f"  {budget:>4} {values}")
    return lines


def reliability(robot: Robot, sampler: Sampler, n_poses: int, rng: np.random.Generator) -> list[str]:
    solved = wrong = 0
    for index, pose in enumerate(robot.fk(robot.random(n_poses, rng))):
        answer = sampler.solve(pose, seed=index)
        solved += bool(answer)
        distance, angle = robot.pose_errors(answer.q, pose)
        good = (distance <= TOLERANCE) & (angle <= TOLERANCE) & robot.within_limits(answer.q)
        wrong += int((~good).sum())
    refusals = []
    for label, low, high in (("farther away than the arm is long", 1.05, 2.0), ("closer than that", 0.9, 1.0)):
        times = []
        for index in range(100):
            pose = robot.fk(robot.random(1, rng)[0])
            pose[:3, 3] *= robot.reach * rng.uniform(low, high) / np.linalg.norm(pose[:3, 3])
            began = time.process_time()
            answer = sampler.sample(pose, 10, seed=index)
            seconds = time.process_time() - began
            distance, angle = robot.pose_errors(answer.q, pose)
            wrong += int((distance > TOLERANCE).sum() + (angle > TOLERANCE).sum())
            if answer.error_code == ErrorCode.NO_IK_SOLUTION:
                times.append(seconds)
        median, longest = 1e3 * np.median(times), 1e3 * max(times)
        refusals.append(f"  100 poses {label}: {len(times)} refused, in {median:.1f} ms, {longest:.1f} ms at most")
    return [f"  {n_poses} reachable poses: {100.0 * solved / n_poses:.2f} % solved, {wrong} wrong claims", *refusals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="FILE|NAME")
    parser.add_argument("--poses", type=int, default=10_000, help="reachable poses of part 3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "learned proposals against uniform seeds, the same refiner, full poses, one thread, CPU time",
        f"seed {args.seed}, Python {platform.python_version()}, {processor()}, load {load_average()} at the start",
    ]
    for path in args.models:
        model = IKModel.load(path)
        robot, sampler, rng = model.robot, Sampler(model=model), np.random.default_rng(args.seed)
        sampler.prepare()
        seeds, calls = seeds_of(model, rng), calls_of(sampler, rng)
        poses = robot.fk(robot.random(60, rng))
        lines += ["", f"{Path(path).name}, {model.mixture.n_components} experts", *cost({**calls, **seeds}, poses)]
        lines.append(density_error(model, sampler, poses))
        uniform = {name: solve for name, solve in seeds.items() if name.startswith("uniform")}
        lines += coverage(robot, {**uniform, "default": calls["default"]}, poses[:20], rng)
        lines += reliability(robot, sampler, args.poses, rng)
        print("\n".join(lines), flush=True)
    lines += ["", f"load {load_average()} at the end"]
    print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
