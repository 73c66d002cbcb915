"""Two properties that every configuration must have, checked at special configurations. No reference is needed.

    python -m benchmarks.invariants [--count 2000] [--seed 1] [--output benchmarks/results/invariants.txt] [ROBOT ...]

Each configuration q is valid, so its pose has a solution. For this pose the script checks that

  near      solve(near=q) returns q; with near = q + d, |d| up to 0.1 rad in each joint, the returned solution is at
            most as far from q + d as q is
  covered   if solve_all claims to be complete, q is one of the isolated solutions, or within the requested spacing of a
            row on a curve

Joint values are multiples of 15 degrees, mostly 0, +-90 and +-180 degrees, and limits. Some values are shifted by 1e-12
to 0.01 rad, and others are uniform. Random poses never have such values, but poses that people teach do. Columns:

  near, shifted     number of wrong answers near q, and near q + d
  complete, false   number of answers that claim to be complete, and number of these answers that lack q
  certified, false  the same for guarantee="certified"
  none              number of answers without a solution
  share             share of answers that are complete

The arms with six joints are included in the package, or have published lengths (test/kinematics/six_joint_arms.py).
Arms with seven joints take more time, so a tenth of the configurations is checked. A full run has a million
configurations of arms with six joints: --count 100000.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks._machine import processor, versions
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import write_atomically
from eim_ros.ik import Sampler, Solutions
from eim_ros.kinematics import Robot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import URDFS

FloatArray = npt.NDArray[np.float64]

INCLUDED = ("ur3e", "ur5", "ur5e", "ur10e", "panda", "iiwa14", "gen3", "xarm7", "sawyer")
SPACING = 0.3  # requested spacing of solutions on curves [rad]
EQUAL = 1e-4  # error of an isolated solution, which is the root of the pose error where two solutions meet [rad]
NEAR = 1e-3  # error of the distance from a reference [rad], for the same reason
MOST_ASIDE = 0.1  # largest distance of a reference from a solution, in each joint [rad]
TIMEOUT = 2.0  # [s]
ROUND = math.pi / 12.0  # [rad]
STYLES = {"round": 0.35, "shifted": 0.35, "uniform": 0.3}  # share of joint values of each kind
SHIFTS = -12.0, -2.0  # smallest and largest shift, as powers of ten [rad]
SINGULAR_SHARE = 0.5  # share of round values at which arms fold or axes are aligned
SINGULAR = np.array([0.0, math.pi, -math.pi, 0.5 * math.pi, -0.5 * math.pi])
NUMPY = "numpy"
TENTH = 10  # arms with seven joints are checked at every tenth configuration


def special_value(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a value of a joint within its limits."""
    style = rng.choice(list(STYLES), p=list(STYLES.values()))
    if style == "uniform":
        return float(rng.uniform(low, high))
    rounds = ROUND * np.arange(math.ceil(low / ROUND), math.floor(high / ROUND) + 1)
    values = np.concatenate([rounds, [low, high]])
    singular = SINGULAR[(low <= SINGULAR) & (high >= SINGULAR)]
    if len(singular) and rng.random() < SINGULAR_SHARE:
        values = singular
    value = float(rng.choice(values))
    if style == "shifted":
        value += float(rng.choice([-1.0, 1.0])) * 10.0 ** float(rng.uniform(*SHIFTS))
    return min(max(value, low), high)


def special_configuration(rng: np.random.Generator, robot: Robot) -> FloatArray:
    """Return a configuration (dof,) within the limits [rad]."""
    turn = 2.0 * math.pi
    low, high = np.maximum(robot.lower, -turn), np.minimum(robot.upper, turn)
    return np.array([special_value(rng, a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)])


def distance(robot: Robot, rows: FloatArray, q: FloatArray) -> float:
    """Return the distance from q (dof,) to the nearest row (n, dof), in the joint that differs most [rad]."""
    away = rows - q
    away = np.where(robot.continuous, (away + math.pi) % (2.0 * math.pi) - math.pi, away)
    return float(np.abs(away).max(axis=1).min(initial=math.inf))


@dataclass
class Counts:
    """Numbers of answers and of wrong answers for one arm."""

    checked: int = 0
    near: int = 0
    shifted: int = 0
    none: int = 0
    complete: int = 0
    incomplete: int = 0  # number of answers that claim to be complete, but lack the configuration
    certified: int = 0
    uncertain: int = 0  # number of answers that claim a certificate, but lack the configuration
    examples: list[str] = field(default_factory=list)

    @property
    def n_wrong(self) -> int:
        """Number of wrong answers."""
        return self.near + self.shifted + self.none + self.incomplete + self.uncertain

    def check(self, sampler: Sampler, q: FloatArray, aside: FloatArray, seed: int) -> None:
        """Check the pose of a configuration q (dof,), and a reference at q + aside."""
        robot, before = sampler.robot, self.n_wrong
        pose = robot.fk(q)
        self.checked += 1
        nearest = sampler.solve(pose, near=q, timeout=TIMEOUT, seed=seed)
        self.none += not nearest
        self.near += bool(nearest) and distance(robot, nearest.q, q) > NEAR
        reference = np.clip(q + aside, robot.lower, robot.upper)
        other = sampler.solve(pose, near=reference, timeout=TIMEOUT, seed=seed)
        if other:
            farther = np.linalg.norm(other.q[0] - reference) - np.linalg.norm(q - reference)
            self.shifted += bool(farther > NEAR)
        options = {"max_spacing": SPACING, "timeout": TIMEOUT, "max_solutions": 10_000, "seed": seed}
        everything = sampler.solve_all(pose, **options)
        self.complete += everything.is_complete
        self.incomplete += everything.is_complete and lacks(robot, everything, q)
        try:
            proven = sampler.solve_all(pose, guarantee="certified", **options)
        except ConfigurationError:  # certificates are not available for this arm
            proven = None
        if proven is not None and proven.certified:
            self.certified += 1
            self.uncertain += lacks(robot, proven, q)
        if self.n_wrong > before:
            self.examples.append(f"seed {seed}, q = {[value.hex() for value in q.tolist()]}")

    def line(self, name: str) -> str:
        """Return a row of the table."""
        numbers = self.near, self.shifted, self.none, self.complete, self.incomplete, self.certified, self.uncertain
        share = f"{100.0 * max(self.complete, self.certified) / self.checked:6.1f} %"
        return f"{name:<18}{self.checked:>9}" + "".join(f"{number:>10}" for number in numbers) + f"{share:>10}"


def lacks(robot: Robot, answer: Solutions, q: FloatArray) -> bool:
    """Return whether a configuration is missing in an answer that has all solutions."""
    report = answer.completeness
    has_curves = report is not None and bool(report.lengths.any())
    return distance(robot, answer.q, q) > (SPACING if has_curves else EQUAL)


def checked(sampler: Sampler, count: int, seed: int) -> Counts:
    """Return the counts for a number of configurations."""
    counts, rng = Counts(), np.random.default_rng(seed)
    for i in range(count):
        q = special_configuration(rng, sampler.robot)
        aside = rng.uniform(-MOST_ASIDE, MOST_ASIDE, len(q)) * rng.random()
        counts.check(sampler, q, aside, 100_000 * seed + i)
    return counts


def main() -> int:
    """Check all arms, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "robots", nargs="*", help="robots to check (default: included arms, and six-joint arms with published lengths)"
    )
    parser.add_argument("--count", type=int, default=2000, help="number of configurations of each arm with six joints")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    arms = {name: Robot(name) for name in options.robots or INCLUDED}
    if not options.robots:
        arms |= {name: Robot(urdf) for name, urdf in URDFS.items()}
    lines = [
        f"{processor()}; {versions([NUMPY])}; seed {options.seed}",
        f"{'':<18}{'checked':>9}{'near':>10}{'shifted':>10}{'none':>10}{'complete':>10}{'false':>10}"
        f"{'certified':>10}{'false':>10}{'share':>10}",
    ]
    print("\n".join(lines), flush=True)
    n_wrong = 0
    for name, robot in arms.items():
        count = options.count if robot.dof < 7 else max(options.count // TENTH, 1)
        counts = checked(Sampler(robot), count, options.seed)
        lines += [counts.line(name), *(f"    {example}" for example in counts.examples)]
        print("\n".join(lines[-1 - len(counts.examples) :]), flush=True)
        n_wrong += counts.n_wrong
    if options.output:
        write_atomically(options.output, "\n".join(lines).encode() + b"\n")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
