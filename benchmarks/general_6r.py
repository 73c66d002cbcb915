"""Arms with six revolute joints and no special geometry: cost, completeness and lost roots of all solutions of a pose.

    python -m benchmarks.general_6r [--poses 5000] [--judged 20] [--seed 11]
        [--output benchmarks/results/general_6r.txt]

The arms are a UR5, and UR5s whose frames are slightly off, as after a calibration. Other arms have published
parameters, a spherical wrist that is slightly off, or random axes (test/kinematics/six_revolute_arms.py). The last arms
are all arms of this kind that ssik ships, without their limits. Poses come from forward kinematics of uniform random
configurations. Columns:

  prepared  time to choose the order of eliminations, once for each arm [ms]
  roots     mean number of roots of a pose
  complete  share of poses whose roots are known to be complete
  lost      number of poses where the generating configuration is not among the roots (1e-5 rad), and how many of these
            were reported complete
  special   the same for configurations on a grid of 15 degrees; singular ones do not count as lost
  seeds     number of judged poses where refined seeds (1e-9 m and rad) find a root that we do not have, and how many of
            these were reported complete
  call      CPU time of the call for all roots of one pose, median and 99th percentile [us]
  batch     CPU time of a pose in a call for all poses [us]
  solve_all CPU time of the default call for all solutions, median [us]
  ssik      CPU time of ssik's call for all roots, median [us]
  +         number of roots that ssik finds and our call lacks (1e-3 rad), for 1000 random poses
  grid      the same for the configurations on the grid, then how many of these roots `solve_all` lacks as well, and how
            many of the latter belong to answers that are reported complete
  -         number of our roots that ssik lacks (0.01 rad), for both
  EAIK      the same for EAIK

Singular roots do not count. Times are CPU times on one thread. Solvers take turns of 100 poses. A dash marks arms that
a peer does not solve. EAIK decomposes few arms, and ssik needs several minutes to derive a solver that it does not ship
(`--build`).
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from benchmarks._machine import conditions, cpu_times, print_table
from benchmarks._peers import Case, Unsupported, eaik_solver, ssik_arms, ssik_artifact
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, refine

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import URDFS
from kinematics.six_revolute_arms import ARMS, random_axes

FloatArray = npt.NDArray[np.float64]
Peer = Callable[[FloatArray], FloatArray]  # pose -> roots (n, 6)

SAME = 1e-5  # distance below which two solutions count as the same [rad]
REGULAR = 1e-4  # smallest singular value of the Jacobian at a regular configuration
N_SEEDS, N_AT_ONCE = 40_000, 10_000
# smallest distance from all other roots at which a root counts as lacking [rad]: ours, and the peer's
MISSING, LACKING = 1e-3, 0.01
TIMED, TURN = 1000, 100  # numbers of timed poses, in total and in a turn
N_RANDOM = 10
BUILT = ("UR5", "UR5, off by 0.0001")
FINE = 1e-9  # tolerance of refined seeds [m, rad]
GRID = np.pi / 12.0
HEADER = (
    f"{'arm':30}{'prepared':>9}{'roots':>7}{'complete':>10}{'lost':>8}{'special':>9}{'':>10}{'seeds':>7}"
    f"{'call':>8}{'p99':>7}{'batch':>7}{'solve_all':>11}{'ssik':>9}{'+':>4}{'grid':>12}{'-':>5}{'EAIK':>8}{'+':>4}{'grid':>12}{'-':>5}"
)


def away(rows: FloatArray, q: FloatArray) -> FloatArray:
    """Return the largest difference of a joint on the circle [rad]."""
    return np.asarray(np.abs((rows - q + np.pi) % (2.0 * np.pi) - np.pi).max(axis=-1))


class Arm:
    """An arm and the calls that are measured."""

    def __init__(self, urdf: str) -> None:
        self.robot = Robot(urdf)
        began = time.process_time()
        form = self.robot.closed_form
        self.prepared = time.process_time() - began
        if form is None:
            raise SystemExit("this arm has no closed form")
        self.form = form

    def roots(self, pose: FloatArray) -> tuple[FloatArray, bool]:
        """Return the roots of a pose, and whether they are complete."""
        found = self.form.roots(self.robot.chain, self.robot.task(pose), SAME)
        return found.positions, found.is_complete and not found.is_singular

    def lost(self, configurations: FloatArray) -> tuple[int, int, int, int]:
        """Return the numbers of roots, complete poses, lost configurations, and lost ones at complete poses."""
        n_roots = n_complete = n_lost = n_false = 0
        for q, pose in zip(configurations, self.robot.fk(configurations), strict=True):
            roots, is_complete = self.roots(pose)
            n_roots += len(roots)
            n_complete += is_complete
            if not len(roots) or away(roots, q).min() > SAME:
                jacobian = self.robot.jacobian(q[None])[0]
                is_lost = np.linalg.svd(jacobian, compute_uv=False)[-1] > REGULAR
                n_lost += is_lost
                n_false += is_lost and is_complete
        return n_roots, n_complete, n_lost, n_false

    def judged(self, poses: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Return the number of poses where seeds find more roots, and how many of these were reported complete."""
        n_missing = n_false = 0
        for pose in poses:
            roots, is_complete = self.roots(pose)
            is_missing = False
            for _ in range(N_SEEDS // N_AT_ONCE):
                refined = refine(
                    self.robot,
                    self.robot.random(N_AT_ONCE, rng),
                    pose,
                    position_tolerance=FINE,
                    orientation_tolerance=FINE,
                )
                found = refined.positions[refined.converged]
                nearest = np.min([away(found, root) for root in roots], axis=0) if len(roots) else np.ones(len(found))
                is_missing |= bool(nearest.max(initial=0.0) > MISSING)  # seeds do not converge exactly where roots meet
            n_missing += is_missing
            n_false += is_missing and is_complete
        return n_missing, n_false

    def compared(self, peer: Peer, poses: FloatArray) -> tuple[int, int, int, int]:
        """Return the numbers of the peer's roots that are missing, and the number of our roots that the peer lacks.

        The first three numbers count roots that our call lacks, that `solve_all` lacks, and that `solve_all` lacks
        although its answer is reported complete.
        """
        sampler, counts = Sampler(self.robot), np.zeros(4, dtype=int)
        for pose in poses:
            (ours, _), theirs = self.roots(pose), peer(pose)
            more = [root for q in self.missing(ours, theirs) if (root := self.polished(q, pose)) is not None]
            more = self.missing(ours, np.reshape(more, (-1, 6)))
            if len(more):
                answer = sampler.solve_all(pose)
                still = len(self.missing(answer.q, more))
                counts[:3] += len(more), still, still * answer.is_complete
            counts[3] += sum((not len(theirs) or away(theirs, q).min() > LACKING) and self.is_regular(q) for q in ours)
        n_call, n_all, n_false, n_lacking = counts.tolist()
        return n_call, n_all, n_false, n_lacking

    def missing(self, ours: FloatArray, theirs: FloatArray) -> FloatArray:
        """Return the rows of `theirs` that are not among `ours`."""
        if not len(ours):
            return theirs
        return theirs[[away(ours, q).min() > MISSING for q in theirs]]

    def polished(self, q: FloatArray, pose: FloatArray) -> FloatArray | None:
        """Return the root after a few Newton steps, or None if it does not converge or is singular."""
        for _ in range(6):
            reached = self.robot.fk(q)
            error = np.concatenate([pose[:3, 3] - reached[:3, 3], pin.log3(pose[:3, :3] @ reached[:3, :3].T)])
            if np.abs(error).max() <= FINE:
                return q if self.is_regular(q) else None
            q = q + np.linalg.lstsq(self.robot.jacobian(q), error, rcond=None)[0]
        return None

    def is_regular(self, q: FloatArray) -> bool:
        return bool(np.linalg.svd(self.robot.jacobian(q), compute_uv=False)[-1] > REGULAR)

    def times(self, poses: FloatArray, peers: dict[str, Peer]) -> tuple[dict[str, FloatArray], float]:
        """Return the times of the calls of each solver, and the median time of a pose in a batch [us]."""
        robot, form, sampler = self.robot, self.form, Sampler(self.robot)
        tasks = [robot.task(pose) for pose in poses]
        ways: dict[str, Callable[[int], object]] = {
            "call": lambda i: form.roots(robot.chain, tasks[i], SAME),
            "solve_all": lambda i: sampler.solve_all(poses[i]),
        }
        ways |= {name: lambda i, peer=peer: peer(poses[i]) for name, peer in peers.items()}
        found: dict[str, list[FloatArray]] = {name: [] for name in ways}
        for start in range(0, len(poses), TURN):
            for name, way in ways.items():
                n = min(TURN, len(poses) - start)
                found[name].append(cpu_times(lambda i, way=way, start=start: way(start + i), n))
        batch = cpu_times(lambda _: form.solutions(robot.chain, tasks[0], poses, SAME), 5) / len(poses)
        return {name: np.concatenate(times) for name, times in found.items()}, float(np.median(batch))


def peers_of(robot: Robot, urdf: str, ssik: ModuleType | None, is_built: bool) -> dict[str, Peer]:
    """Return the peers that can solve an arm. ssik is included if a solver is given or built."""
    peers: dict[str, Peer] = {}
    if is_built:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "arm.urdf")
            path.write_text(urdf, encoding="utf-8")
            try:
                ssik = ssik_artifact(Case(robot, path, (FINE, FINE)))
                ssik.solve(robot.fk(np.zeros(6)))  # ssik loads its tables from the folder
            except (ImportError, Unsupported) as error:
                print(f"no ssik: {error}", file=sys.stderr)
    if ssik is not None:
        solve = ssik.solve

        def all_of_ssik(pose: FloatArray) -> FloatArray:
            found = solve(pose, respect_limits=False, enumerate_windings=False)
            return np.reshape([solution.q for solution in found], (-1, 6))

        peers["ssik"] = all_of_ssik
    try:
        decomposed = eaik_solver(robot)
    except ImportError:
        decomposed = None
    if decomposed is not None:

        def all_of_eaik(pose: FloatArray) -> FloatArray:
            found, is_least_squares = decomposed(pose)
            return found[~is_least_squares]

        peers["EAIK"] = all_of_eaik
    return peers


def row(name: str, urdf: str, ssik: ModuleType | None, args: argparse.Namespace) -> str:
    """Return the row of an arm."""
    arm, rng, n_poses = Arm(urdf), np.random.default_rng(args.seed), args.poses
    configurations = arm.robot.random(n_poses, rng)
    n_roots, n_complete, n_lost, n_false = arm.lost(configurations)
    special = np.asarray(GRID * rng.integers(-12, 13, (max(n_poses // 5, 1), 6)), dtype=np.float64)
    _, n_special, n_special_lost, n_special_false = arm.lost(special)
    poses = arm.robot.fk(configurations)
    n_missing, n_missing_false = arm.judged(poses[: args.judged], rng)
    peers = peers_of(arm.robot, urdf, ssik, name in args.build)
    times, batch = arm.times(poses[:TIMED], peers)
    compared = ""
    for peer, width in (("ssik", 9), ("EAIK", 8)):
        if peer in peers:
            regular, grid = (arm.compared(peers[peer], some) for some in (poses[:TIMED], arm.robot.fk(special)))
            compared += (
                f"{np.median(times[peer]):{width}.1f}{regular[0]:4d}{f'{grid[0]}/{grid[1]} ({grid[2]})':>12}"
                f"{regular[3] + grid[3]:5d}"
            )
        else:
            compared += f"{'-':>{width}}{'':21}"
    return (
        f"{name:30}{1e3 * arm.prepared:9.0f}{n_roots / n_poses:7.2f}{100.0 * n_complete / n_poses:9.2f}%"
        f"{f'{n_lost} ({n_false})':>8}{f'{n_special_lost} ({n_special_false})':>9}"
        f"{100.0 * n_special / len(special):9.1f}%{f'{n_missing} ({n_missing_false})':>7}"
        f"{np.median(times['call']):8.1f}{np.percentile(times['call'], 99):7.0f}{batch:7.1f}"
        f"{np.median(times['solve_all']):11.0f}{compared}"
    ).rstrip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=5000, help="number of poses of each arm (default %(default)s)")
    parser.add_argument(
        "--judged",
        type=int,
        default=20,
        help="number of poses of each arm that are judged by refined seeds (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=11, help="seed of the poses (default %(default)s)")
    parser.add_argument("--arms", help="measure only arms whose names contain this text")
    parser.add_argument("--build", nargs="*", default=BUILT, metavar="ARM", help="arms for which ssik builds a solver")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    head = [
        f"all roots of arms of six revolute joints; {args.poses} poses each, a fifth as many on the grid; "
        f"seed {args.seed}; {args.judged} poses judged by {N_SEEDS} seeds",
        conditions(("numpy", "pin", "ssik", "EAIK")),
        "in brackets: lost although reported complete; special: lost, and share complete; times [us], prepared [ms]",
        f"+ and grid: roots that the peer finds and the call lacks / solve_all lacks (though complete), "
        f"of {min(args.poses, TIMED)} poses and of the grid; -: roots that the peer lacks",
        "",
        HEADER,
    ]
    arms = {"UR5": URDFS["UR5"], **ARMS}
    arms |= {f"random axes, {seed}": random_axes(seed) for seed in range(N_RANDOM)}
    described: dict[str, tuple[str, ModuleType | None]] = {name: (urdf, None) for name, urdf in arms.items()}
    with contextlib.suppress(ImportError):
        described |= ssik_arms("ikgeo.general_6r", has_limits=False)
    rows = (
        row(name, urdf, ssik, args)
        for name, (urdf, ssik) in described.items()
        if args.arms is None or args.arms in name
    )
    print_table(head, rows, args.output)


if __name__ == "__main__":
    main()
