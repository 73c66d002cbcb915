"""What the learned sampler is worth: our proposals against uniform seeds, with the same refiner, in one run.

    python benchmarks/ik_sampling.py [--models panda=FILE iiwa14=FILE] [--output FILE]

Without files the models are trained first, some minutes each: 1000 experts by inference with known kinematics, as by

    eim collect --robot panda --context pose --samples 50000 --seed 0 --output panda.npz
    eim train --robot panda --data panda.npz --algorithm known-density --iterations 120 --output panda.safetensors

Full poses, forward kinematics of uniform random configurations, with other seeds than training; one thread, CPU time.

1. Cost of a solution: time for 200 seeds (proposals, refinement to 1e-6 m and 1e-6 rad within limits, verification) by
   the number of distinct seeds that became valid solutions. "Sampler" is the whole public call for 200 solutions,
   ordered by nothing; the other two are the same loop with seeds of the mixture and with uniform ones.
2. Coverage of all solutions of 20 poses, over time. All solutions: 20000 uniform seeds refined; families by single
   linkage at .35 rad of at least 10 members; coverage: share of each family within .3 rad of a solution returned, mean
   over families. Budgets grow by factors of 1.4; each is solved 3 times from other random seeds.
3. 10000 reachable poses, one solution asked of each; poses out of reach.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from eim_ros.ik import ErrorCode, IKModel, KnownKinematicsConfig, Sampler, Training, collect
from eim_ros.ik.metrics import coverage_curve, exact_solutions
from eim_ros.ik.proposal import Proposal
from eim_ros.kinematics import Robot, context_from_pose

N = 200
TOLERANCE = 1e-6
BUDGETS = [int(round(4 * 1.4**i)) for i in range(19)]
EARLY = 0.5e-3  # [s]
ENOUGH = 0.93  # coverage

Solve = Callable[[np.ndarray, int], np.ndarray]  # pose, number of seeds -> valid solutions


def trained(name: str) -> IKModel:
    data_set = collect(Robot.load(name), 50_000, "pose", 0)
    return Training(KnownKinematicsConfig(n_iterations=120)).run(data_set).model


def solvers(sampler: Sampler, model: IKModel, rng: np.random.Generator) -> dict[str, Solve]:
    robot, proposal = model.robot, Proposal(model.mixture)

    def refined(seeds: np.ndarray, pose: np.ndarray) -> np.ndarray:
        result = robot.refine(seeds, pose)
        positions = result.positions[result.converged]
        distance, angle = robot.pose_errors(positions, pose)
        return positions[(distance <= TOLERANCE) & (angle <= TOLERANCE) & robot.within_limits(positions)]

    def learned(pose: np.ndarray, n: int) -> np.ndarray:
        seeds, _ = proposal.condition(context_from_pose(pose[None], "pose")).sample(n, rng)
        return refined(seeds, pose)

    return {"mixture": learned, "uniform": lambda pose, n: refined(robot.sample_configurations(n, rng), pose)}


def cost(robot: Robot, sampler: Sampler, ways: dict[str, Solve], poses: np.ndarray) -> list[str]:
    seconds, solutions = dict.fromkeys([*ways, "Sampler"], 0.0), dict.fromkeys([*ways, "Sampler"], 0)
    for index, pose in enumerate(poses):
        for name, solve in ways.items():
            began = time.process_time()
            found = len(solve(pose, N))
            seconds[name], solutions[name] = seconds[name] + time.process_time() - began, solutions[name] + found
        began = time.process_time()
        answer = sampler.sample(pose, N, seed=index, order="none")
        seconds["Sampler"] += time.process_time() - began
        solutions["Sampler"] += int(answer.valid.sum())
    per = {name: 1e6 * seconds[name] / solutions[name] for name in seconds}
    lines = [f"  {'seeds':10} {'us/solution':>12} {'to uniform':>11} {'became solutions':>17}"]
    for name in per:
        share = "" if name == "Sampler" else f"{100.0 * solutions[name] / N / len(poses):16.1f}%"
        lines.append(f"  {name:10} {per[name]:>12.2f} {per[name] / per['uniform']:>11.2f} {share:>17}")
    return lines


def coverage(robot: Robot, ways: dict[str, Solve], poses: np.ndarray, rng: np.random.Generator) -> list[str]:
    curves = {name: np.zeros((len(BUDGETS), 3)) for name in ways}
    n_families = []
    for pose in poses:
        truth = exact_solutions(robot, pose, 20_000, rng)
        n_families.append(truth.n_families)
        for name, solve in ways.items():

            def timed(budget: int, solve: Solve = solve, pose: np.ndarray = pose) -> tuple[np.ndarray, float]:
                began = time.process_time()
                found = solve(pose, budget)
                return found, time.process_time() - began

            for _ in range(3):
                curves[name] += np.array(coverage_curve(truth, timed, BUDGETS)) / (3 * len(poses))
    lines = [f"  families per pose: {min(n_families)} to {max(n_families)}"]
    lines.append(f"  {'seeds':10} {'ms to 93 % coverage':>20} {'coverage, families at .5 ms':>30}")
    for name, curve in curves.items():
        reached = np.interp(ENOUGH, curve[:, 1], curve[:, 0], right=np.inf)
        early = [np.interp(EARLY, curve[:, 0], curve[:, column]) for column in (1, 2)]
        lines.append(f"  {name:10} {1e3 * reached:>20.2f} {100 * early[0]:>21.1f} %{100 * early[1]:>5.1f} %")
    lines.append("  time [ms], coverage, families by seeds: " + ", ".join(curves))
    for index, budget in enumerate(BUDGETS):
        values = "   ".join(
            "{:7.3f} {:.3f} {:.3f}".format(1e3 * row[index, 0], *row[index, 1:]) for row in curves.values()
        )
        lines.append(f"  {budget:>6} {values}")
    return lines


def reliability(robot: Robot, sampler: Sampler, n_poses: int, rng: np.random.Generator) -> list[str]:
    solved = wrong = 0
    times = []
    for index, pose in enumerate(robot.forward(robot.sample_configurations(n_poses, rng))):
        answer = sampler.sample(pose, 1, seed=index)
        valid = answer.positions[answer.valid]
        solved += len(valid) > 0
        distance, angle = robot.pose_errors(valid, pose)
        good = (distance <= TOLERANCE) & (angle <= TOLERANCE) & robot.within_limits(valid)
        wrong += int((~good).sum())
    for index in range(100):
        pose = robot.forward(robot.sample_configurations(1, rng)[0])
        pose[:3, 3] *= (robot.reach + rng.uniform(0.05, 1.0)) / np.linalg.norm(pose[:3, 3])
        began = time.process_time()
        answer = sampler.sample(pose, 10, seed=index)
        times.append(time.process_time() - began)
        wrong += int(answer.error_code != ErrorCode.NO_IK_SOLUTION)
    return [
        f"  {n_poses} reachable poses: {100.0 * solved / n_poses:.2f} % solved, {wrong} wrong claims",
        f"  100 poses out of reach: refused in {1e3 * np.median(times):.1f} ms, {1e3 * max(times):.1f} ms at most",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["panda=", "iiwa14="], metavar="ROBOT=FILE")
    parser.add_argument("--poses", type=int, default=10_000, help="reachable poses of part 3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "learned proposals against uniform seeds, the same refiner, full poses, one thread, CPU time, seed "
        f"{args.seed}; Python {platform.python_version()}, {platform.machine()}"
    ]
    for entry in args.models:
        name, _, path = entry.partition("=")
        model = IKModel.load(path) if path else trained(name)
        robot, sampler, rng = model.robot, Sampler(model), np.random.default_rng(args.seed)
        sampler.compile()
        ways = solvers(sampler, model, rng)
        poses = robot.forward(robot.sample_configurations(100, rng))
        lines += ["", f"{name}, {model.mixture.n_components} experts", *cost(robot, sampler, ways, poses)]
        lines += coverage(robot, ways, poses[:20], rng)
        lines += reliability(robot, sampler, args.poses, rng)
        print("\n".join(lines), flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
