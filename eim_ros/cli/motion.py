"""`eim motion`: motions from a motion prior, and how likely motions are, without ROS.

sample draws motions for a context, through via points; score compares those of a data set with held-out demonstrations.
Both take --json, and sample takes --random-seed.
"""

from __future__ import annotations

import argparse
import math
import secrets
from typing import Any

import numpy as np
import torch

from eim_ros.cli.options import add_threads_flag, use_threads
from eim_ros.cli.request_options import count, random_seed_or_fresh
from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import ConfigurationError, DataError, JointStateError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.motion import Demonstrations, MotionDistribution, MotionPrior, MotionSamples, ViaPoint

LARGEST_SEED = 2**31


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("motion", help="motions from a motion prior, and their scores", description=__doc__)
    jobs = parser.add_subparsers(metavar="JOB", required=True)
    sample = jobs.add_parser("sample", help="draw motions", description="Draw motions for a context.")
    add = sample.add_argument
    add("--model", required=True, metavar="FILE", help="motion prior of eim train --task motion")
    add("--context", nargs="+", type=float, default=[], metavar="VALUE", help="in the order of the data set's columns")
    add(
        "--via",
        nargs="+",
        action="append",
        default=[],
        metavar=("PHASE", "JOINT=VALUE[:DEVIATION]"),
        help="where joints are at a phase from 0 to 1 [rad or m], and how exactly (default 1e-3); may be repeated",
    )
    add("-n", "--samples", type=count, default=10, metavar="N", help="motions wanted (default %(default)s)")
    add("--points", type=count, metavar="N", help="points of each (default: as demonstrated)")
    add("--duration", type=float, default=0.0, metavar="S", help="[s] (default: the demonstrations' mean)")
    add(
        "--random-seed",
        "--seed",
        type=random_seed_or_fresh,
        default=None,
        help="random seed; negative: a fresh one (default)",
    )
    add("--output", metavar="FILE", help="data set to write (.npz)")
    sample.set_defaults(job=_sample)
    score = jobs.add_parser("score", help="how likely motions are", description="Score the motions of a data set.")
    score.add_argument("--model", required=True, metavar="FILE", help="motion prior of eim train --task motion")
    score.add_argument("--data", required=True, metavar="FILE", help="data set of motions, of the same points")
    score.set_defaults(job=_score)
    for job in (sample, score):
        job.add_argument("--json", action="store_true", help="print one JSON object")
        add_threads_flag(job)
        job.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    return int(args.job(args))


def _sample(args: argparse.Namespace) -> int:
    if args.points is not None and args.points < 2:
        raise ConfigurationError(f"--points must be at least 2, got {args.points}", args.points)
    if not (math.isfinite(args.duration) and args.duration >= 0.0):
        raise ConfigurationError(f"--duration must be a positive number of seconds, got {args.duration}", args.duration)
    check_outputs({"--output": args.output}, {"--model": args.model})
    prior = MotionPrior.load(args.model)
    n_points = args.points or prior.representation.n_points
    duration = args.duration or prior.mean_duration
    given = prior.condition(args.context, [_via_point(words) for words in args.via])
    seed = secrets.randbelow(LARGEST_SEED) if args.random_seed is None else args.random_seed
    samples = given.sample(args.samples, torch.Generator().manual_seed(seed), n_points)
    if args.output:
        save_data_set(args.output, _data_set(prior, samples, args.context, duration, seed))
    if args.json:
        print(to_json(_sampled(prior, given, samples, duration, seed)))
    else:
        _print_samples(prior, given, samples, duration)
    return 0


def _score(args: argparse.Namespace) -> int:
    prior = MotionPrior.load(args.model)
    motions = Demonstrations.from_data_set(load_data_set(args.data))
    if set(motions.joint_names) != set(prior.joint_names):
        raise JointStateError(
            f"the motions are of joints {', '.join(motions.joint_names)}, the prior's are "
            f"{', '.join(prior.joint_names)}",
            motions.joint_names,
        )
    if motions.context.shape[1] != prior.n_context:
        raise DataError(
            f"the motions have {motions.context.shape[1]} contexts, the prior {prior.n_context}", motions.context.shape
        )
    columns = [motions.joint_names.index(name) for name in prior.joint_names]
    times = np.linspace(0.0, 1.0, motions.positions.shape[1])
    positions = np.stack([prior.representation.resampled(times, each[:, columns]) for each in motions.positions])
    scores = prior.score(positions, motions.context)
    if args.json:
        names = ("log_prob", "quantile", "residual")
        print(to_json({"n": len(motions), **{name: getattr(scores, name).tolist() for name in names}}))
        return 0
    print(f"{'motion':>6} {'log density [nat]':>18} {'quantile':>9} {'residual':>10}")
    for index, row in enumerate(zip(scores.log_prob, scores.quantile, scores.residual, strict=True)):
        print(f"{index:>6} {row[0]:>18.2f} {row[1]:>9.3f} {row[2]:>10.2e}")
    return 0


def _via_point(words: list[str]) -> ViaPoint:
    wrong = ConfigurationError(
        f"--via is a phase and then JOINT=VALUE or JOINT=VALUE:DEVIATION, got {' '.join(words)!r}", words
    )
    names, positions, deviations = [], [], []
    try:
        phase = float(words[0])
        for word in words[1:]:
            name, _, rest = word.rpartition("=")
            value, _, deviation = rest.partition(":")
            names.append(name)
            positions.append(float(value))
            deviations.append(float(deviation) if deviation else 1e-3)
    except ValueError as error:
        raise wrong from error
    if not names or "" in names:
        raise wrong
    return ViaPoint(phase, tuple(names), tuple(positions), tuple(deviations))


def _sampled(
    prior: MotionPrior, given: MotionDistribution, samples: MotionSamples, duration: float, seed: int
) -> dict[str, Any]:
    return {
        "joint_names": list(prior.joint_names),
        "n": len(samples),
        "n_points": samples.positions.shape[1],
        "duration": duration,
        "positions": samples.positions.tolist(),
        "log_prob": samples.log_prob.tolist(),
        "component": samples.component.tolist(),
        "valid": samples.valid.tolist(),
        "log_evidence": given.log_evidence,
        "seed": seed,
    }


def _data_set(prior: MotionPrior, samples: MotionSamples, context: list[float], duration: float, seed: int) -> DataSet:
    n, n_points, _ = samples.positions.shape
    description = {
        "source": "samples of a motion prior",
        "task": "motion",
        "joint_names": list(prior.joint_names),
        "n_points": n_points,
        "durations": [duration] * n,
        "context_names": list(prior.context_names),
        "labels": [],
        "lower": [float(x) if np.isfinite(x) else None for x in prior.lower],
        "upper": [float(x) if np.isfinite(x) else None for x in prior.upper],
        "seed": seed,
    }
    contexts = np.tile(np.array(context, dtype=np.float64), (n, 1)).reshape(n, -1)
    return DataSet(contexts, samples.positions.reshape(n, -1), description)


def _print_samples(prior: MotionPrior, given: MotionDistribution, samples: MotionSamples, duration: float) -> None:
    n_valid = int(samples.valid.sum())
    print(
        f"{len(samples)} motions of {samples.positions.shape[1]} points and {duration:.3g} s, {n_valid} within limits; "
        f"log density of the via points {given.log_evidence:.2f} nat"
    )
    heading = f"{'motion':>6} {'log density [nat]':>18} {'component':>9}"
    print(f"{heading}  from and to, by joint: {', '.join(prior.joint_names)}")
    for index, motion in enumerate(samples.positions):
        ends = ", ".join(f"{first:.3f} to {last:.3f}" for first, last in zip(motion[0], motion[-1], strict=True))
        print(f"{index:>6} {samples.log_prob[index]:>18.2f} {samples.component[index]:>9}  {ends}")
