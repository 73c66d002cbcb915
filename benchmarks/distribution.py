"""Statistical tests of draws from distributions on the set of solutions.

    python -m benchmarks.distribution [--poses 1000] [--seed 0] [--output FILE]

Poses come from forward kinematics of uniform random configurations within the limits.

1. Uniform by length: `Sampler.draw(pose, 200, "uniform")` for each pose. The self-motion components are dense charts
   with points 0.02 rad apart. Length is measured by chords between the points, with joints divided by their ranges.
   Positions along the concatenated components are compared with the uniform distribution by the Kolmogorov-Smirnov
   test. The p-values of all poses are tested in the same way. Poses close to a singularity may have a component that is
   not traced from end to end. These poses have no charts, so they are skipped and counted.
2. Model: `Sampler.draw(pose, 2000, "model")` with the included model, for a tenth of the poses. The reference is 1e5
   uniform draws weighted by the model's density. The errors of the mean log-density and of each share above 1 % of a
   component are divided by their standard errors. The results should be below 3 in 99.7 % of the cases.
3. More dimensions: draws of positions for arms with three prismatic joints below 2, 3 or 4 revolute joints. The density
   of the angles is known in closed form. For a tenth of the poses, a p-value is computed from 400 draws of each angle.
   The error of the area or volume is also reported.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest

from benchmarks._machine import load_average, processor, versions
from eim_ros.ik import Sampler
from eim_ros.ik.components import component_labels, self_motion_components
from eim_ros.kinematics import Robot

N_DRAWN, N_OF_MODEL, N_REFERENCE = 200, 2000, 100_000
JOINT = """<joint name="{name}" type="{kind}"><parent link="l{i}"/><child link="l{j}"/><origin xyz="{xyz}"/>
<axis xyz="{axis}"/><limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/></joint><link name="l{j}"/>"""
SLIDES, TURNS = ("1 0 0", "0 1 0", "0 0 1"), ("0 0 1", "0 1 0", "1 0 0", "0 1 0")
FAR, TURN = 2.8, (-2.0, 2.5)


def described(p_values: list[float]) -> str:
    """Describe p-values: whether they are uniform, and which shares are small."""
    values = np.array(p_values)
    return (
        f"{len(values)} p-values, uniform with p = {kstest(values, 'uniform').pvalue:.2f}; below .05: "
        f"{np.mean(values < 0.05):.1%}, below .01: {np.mean(values < 0.01):.1%}"
    )


def uniform(name: str, n_poses: int, seed: int) -> str:
    robot, p_values, n_open = Robot(name), list[float](), 0
    ranges, sampler = robot.upper - robot.lower, Sampler(robot)
    for index, pose in enumerate(robot.fk(robot.random(n_poses, np.random.default_rng(seed)))):
        answer = sampler.draw(pose, N_DRAWN, "uniform", timeout=60.0, seed=index)
        if answer.completeness is None or not answer.completeness.traced.all():
            n_open += 1
            continue
        charts = self_motion_components(robot, answer.q, pose, spacing=0.02)
        chords = [np.linalg.norm(np.diff(chart.positions, axis=0) / ranges, axis=1) for chart in charts]
        ends = np.cumsum([each.sum() for each in chords])
        rows = np.concatenate([chart.positions for chart in charts])
        starts = zip([0.0, *ends[:-1]], chords, strict=True)
        along = np.concatenate([start + np.r_[0.0, np.cumsum(each)] for start, each in starts])
        nearest = [int(np.argmin(((rows - q) ** 2).sum(axis=1))) for q in answer.q]
        p_values.append(float(kstest(along[nearest] / ends[-1], "uniform").pvalue))
    return f"{name:<12}{described(p_values)}; {n_open} poses skipped"


def by_model(name: str, n_poses: int, seed: int) -> str:
    sampler, errors, shares_off = Sampler.load(f"{name}_pose"), list[float](), list[float]()
    robot = sampler.robot
    for index, pose in enumerate(robot.fk(robot.random(n_poses, np.random.default_rng(seed)))):
        reference = sampler.draw(pose, N_REFERENCE, "uniform", timeout=60.0, seed=index)
        answer = sampler.draw(pose, N_OF_MODEL, "model", timeout=60.0, seed=index + 1)
        if not answer.valid.all() or not reference.valid.all():
            continue
        density = reference.densities[0].log_prob(reference.q)
        weights = np.exp(density - logsumexp(density))
        variance = 1.0 / N_OF_MODEL + (weights**2).sum()
        mean = weights @ density
        deviation = np.sqrt(weights @ (density - mean) ** 2)
        drawn = answer.densities[0].log_prob(answer.q)
        errors.append(float((drawn.mean() - mean) / (deviation * np.sqrt(variance))))
        charts = self_motion_components(robot, reference.q[:500], pose)
        shares = np.bincount(component_labels(robot, charts, reference.q), weights, len(charts))
        counts = np.bincount(component_labels(robot, charts, answer.q), minlength=len(charts)) / N_OF_MODEL
        kept = (shares > 0.01) & (shares < 0.99)
        shares, counts = shares[kept], counts[kept]
        shares_off += ((counts - shares) / np.sqrt(shares * (1 - shares) * variance)).tolist()
    parts = [f"{np.mean(np.abs(each) < 3.0):.1%} of {len(each)} below 3" for each in (errors, shares_off)]
    return f"{name:<12}mean log density: {parts[0]}; shares of components: {parts[1]}"


def arm_on_slides(n_turning: int) -> Robot:
    joints = [
        JOINT.format(name=f"s{i}", kind="prismatic", i=i, j=i + 1, xyz="0 0 0", axis=axis, lower=-FAR, upper=FAR)
        for i, axis in enumerate(SLIDES)
    ]
    joints += [
        JOINT.format(
            name=f"j{i}",
            kind="revolute",
            i=3 + i,
            j=4 + i,
            xyz="0.6 0 0.2" if i else "0 0 0",
            axis=TURNS[i],
            lower=TURN[0],
            upper=TURN[1],
        )
        for i in range(n_turning)
    ]
    end = (
        f'<joint name="tool" type="fixed"><parent link="l{3 + n_turning}"/><child link="tip"/><origin xyz="0.5 0 0.1"/>'
    )
    return Robot(f'<robot name="r"><link name="l0"/>{"".join(joints)}{end}</joint><link name="tip"/></robot>')


def more_dimensions(n_turning: int, n_poses: int, seed: int) -> str:
    robot, rng = arm_on_slides(n_turning), np.random.default_rng(seed)
    sampler, ranges, p_values, off = Sampler(robot), robot.upper - robot.lower, list[float](), list[float]()
    reference = np.zeros((100_000, robot.dof))
    reference[:, 3:] = rng.uniform(*TURN, (len(reference), n_turning))
    scaled = robot.jacobian(reference)[:, :3] * ranges
    slopes = np.linalg.solve(scaled[:, :, :3], scaled[:, :, 3:])
    weights = np.sqrt(np.linalg.det(np.eye(n_turning) + slopes.transpose(0, 2, 1) @ slopes))
    effective_sizes, began = list[float](), time.process_time()
    for index in range(n_poses):
        answer = sampler.draw(rng.uniform(-0.2, 0.2, 3), 400, "uniform", timeout=600.0, seed=index)
        effective_sizes.append(float(np.nan_to_num(answer.effective_sample_size)))
        off.append(abs(float(np.exp(-answer.log_prob[0])) / weights.mean() - 1.0))
        for j in range(3, robot.dof):
            order = np.argsort(reference[:, j])
            cumulated = np.cumsum(weights[order]) / weights.sum()
            values = np.interp(answer.q[:, j], reference[order, j], cumulated)
            p_values.append(float(kstest(values, "uniform").pvalue))
    each = (time.process_time() - began) / n_poses
    return (
        f"{n_turning} dimensions {described(p_values)}; effective sample size of 400 draws "
        f"{np.mean(effective_sizes):.0f}, volume off by {np.mean(off):.1%} on average, {max(off):.1%} at most; "
        f"{each:.2f} s each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the lines to this file")
    args = parser.parse_args()
    few = max(args.poses // 10, 2)
    lines = [
        f"draws from distributions on sets of solutions, {args.poses} poses, seed {args.seed}",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}; {versions(('numpy', 'scipy'))}",
        "",
    ]
    parts = {
        "1. Uniform by length": [
            lambda name=name: uniform(name, args.poses, args.seed) for name in ("panda", "iiwa14")
        ],
        "2. The model": [lambda name=name: by_model(name, few, args.seed) for name in ("panda", "iiwa14")],
        "3. More dimensions": [lambda n=n: more_dimensions(n, few, args.seed) for n in (2, 3, 4)],
    }
    for title, works in parts.items():
        lines.append(title)
        print(title)
        for work in works:
            lines.append("  " + work())
            print(lines[-1], flush=True)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
