"""`eim motion sample` draws motions from a motion prior, and `eim motion score` rates motions. They run without ROS."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from eim_ros.cli.flags import count, flag, json_flag, report, seed_flag, switch, threads_flag
from eim_ros.cli.options import Arm, use_threads
from eim_ros.core.errors import ConfigurationError, DataError, JointStateError
from eim_ros.core.files import check_outputs

if TYPE_CHECKING:
    from eim_ros.core.data_set import DataSet
    from eim_ros.motion import MotionDistribution, MotionPrior, MotionSamples, ViaPoint

LARGEST_SEED = 2**31


@dataclass(frozen=True, kw_only=True)
class MotionSample:
    """Draw motions for a context within the joint limits, optionally through via points and to a goal of the tip."""

    first_words: ClassVar[tuple[str, ...]] = ("model",)

    arm: Arm
    model: str = flag(text="Motion prior from eim train --task motion.", metavar="FILE")
    context: tuple[float, ...] | None = flag(None, "Values of the context, in the order of the data set's columns.")
    via: tuple[tuple[str, ...], ...] = flag(
        (),
        "Via point: joint values [rad or m] at a phase from 0 to 1, and their standard deviations (default: 1e-5).",
        repeated=True,
        metavar="PHASE JOINT=VALUE[:DEVIATION] ...",
    )
    reach: tuple[str, ...] = flag(
        (),
        "Goal for a coordinate of the tip at the end of the motion. VALUE is a number [m] or the name of a context; "
        "the default tolerance is 0.05 m. It replaces the goals of eim train --reach. If the model contains no robot, "
        "also give --robot.",
        repeated=True,
        metavar="AXIS=VALUE[:TOLERANCE]",
    )
    ignore_goals: bool = switch("Ignore the goals of eim train --reach that the model contains.", is_expert=True)
    samples: int = count(10, "Number of motions.", short="-n")
    points: int | None = count(
        None, "Number of points of each motion (default: as in the demonstrations).", is_expert=True
    )
    duration: float | None = flag(None, "Duration of each motion [s] (default: the mean of the demonstrations).")
    seed: int | None = seed_flag(None)
    blend: str | None = flag(
        None, "Second motion prior, to which the motions change (default: none).", metavar="FILE", is_expert=True
    )
    blend_context: tuple[float, ...] | None = flag(None, "Values of the second prior's context.", is_expert=True)
    blend_phases: tuple[float, float] = flag(
        (0.25, 0.75),
        "Phases at which the change to the second prior begins and ends.",
        is_expert=True,
    )
    output: str | None = flag(None, "Data set to write (.npz).", metavar="FILE", short="-o")
    trajectories: str | None = flag(
        None,
        "File for trajectories with time stamps, as JointTrajectory messages (.json) or as a table (.csv).",
        metavar="FILE",
    )
    json: bool = json_flag()
    threads: int | None = threads_flag(is_expert=True)

    def run(self) -> int:
        if self.points == 1:
            raise ConfigurationError("--points must be at least 2, got 1", self.points)
        if self.duration is not None and not 0.0 < self.duration < float("inf"):
            raise ConfigurationError(
                f"--duration must be a positive number of seconds, got {self.duration}", self.duration
            )
        inputs = {"--model": self.model, "--blend": self.blend, "--robot": self.arm.file}
        outputs = {"--output": self.output, "--trajectories": self.trajectories}
        check_outputs(outputs, inputs)
        if () in self.via:
            raise ConfigurationError("--via is empty: expected PHASE JOINT=VALUE[:DEVIATION] ...")
        import torch

        from eim_ros.core.data_set import save_data_set
        from eim_ros.motion import MotionPrior, TipGoal, blended, write_trajectories
        from eim_ros.motion.trajectories import check_suffix

        if self.trajectories:
            check_suffix(self.trajectories)
        use_threads(self.threads)
        prior = MotionPrior.load(self.model)
        n_points = self.points or prior.representation.n_points
        duration = self.duration or prior.mean_duration
        prior, goals = self._with_robot(prior), [TipGoal.parse(word) for word in self.reach]
        stored = () if goals or self.ignore_goals else None
        points = [_via_point(words) for words in self.via]
        given = prior.condition(self.context or (), points, goals or stored)
        if self.blend:
            first = prior.condition(self.context or (), goals=stored)
            second = MotionPrior.load(self.blend).condition(self.blend_context or (), goals=stored)
            tasks = given.tasks if goals else ()
            given = blended(first, second, self.blend_phases).condition(points).reaching(*tasks)
        seed = secrets.randbelow(LARGEST_SEED) if self.seed is None else self.seed
        samples = given.sample(self.samples, torch.Generator().manual_seed(seed), n_points)
        if self.output:
            save_data_set(self.output, _data_set(prior, samples, self.context or (), duration, seed))
        if self.trajectories:
            write_trajectories(self.trajectories, prior.joint_names, samples.positions, duration)
        figures = _sampled(prior, given, samples, duration, seed)
        return report(self.json, figures, _lines(prior, given, samples, duration))

    def _with_robot(self, prior: MotionPrior) -> MotionPrior:
        """Return the prior with the robot of the flags instead of the robot of the model."""
        robot = self.arm.find()
        if robot is None:
            return prior
        if not self.reach:
            raise ConfigurationError("--robot has an effect only with --reach: give both or neither", self.arm.robot)
        return prior.with_goals(robot, *prior.goals)


@dataclass(frozen=True, kw_only=True)
class MotionScore:
    """Rate how likely the motions of a data set are, compared with held-out demonstrations."""

    first_words: ClassVar[tuple[str, ...]] = ("model", "data")

    model: str = flag(text="Motion prior from eim train --task motion.", metavar="FILE")
    data: str = flag(text="Data set of motions with the same context.", metavar="FILE")
    json: bool = json_flag()
    threads: int | None = threads_flag(is_expert=True)

    def run(self) -> int:
        import numpy as np

        from eim_ros.core.data_set import load_data_set
        from eim_ros.motion import Demonstrations, MotionPrior

        use_threads(self.threads)
        prior = MotionPrior.load(self.model)
        motions = Demonstrations.from_data_set(load_data_set(self.data))
        ours, theirs = motions.joint_names, prior.joint_names
        if set(ours) != set(theirs):
            raise JointStateError(
                f"the motions have the joints {', '.join(ours)}, but the prior has {', '.join(theirs)}: give motions "
                "of the same joints",
                ours,
            )
        if motions.context.shape[1] != prior.n_context:
            raise DataError(
                f"the motions have {motions.context.shape[1]} context values, but the prior has {prior.n_context}: "
                "give motions with the same context",
                motions.context.shape,
            )
        order = [ours.index(name) for name in theirs]
        times = np.linspace(0.0, 1.0, motions.positions.shape[1])
        positions = np.stack([prior.representation.resampled(times, each[:, order]) for each in motions.positions])
        scores = prior.score(positions, motions.context)
        columns = {name: getattr(scores, name).tolist() for name in ("log_prob", "quantile", "residual")}
        heading = f"{'motion':>6} {'log density [nat]':>18} {'quantile':>9} {'residual':>10}"
        rows = (
            f"{i:>6} {a:>18.2f} {b:>9.3f} {c:>10.2e}" for i, (a, b, c) in enumerate(zip(*columns.values(), strict=True))
        )
        return report(self.json, {"n": len(motions), **columns}, [heading, *rows])


Motion = {"sample": MotionSample, "score": MotionScore}


def _via_point(words: tuple[str, ...]) -> ViaPoint:
    from eim_ros.motion import ViaPoint
    from eim_ros.motion.distribution import DEFAULT_DEVIATION

    wrong = ConfigurationError(
        f"--via must be a phase and then JOINT=VALUE or JOINT=VALUE:DEVIATION, got {' '.join(words)!r}", words
    )
    names, positions, deviations = [], [], []
    try:
        phase = float(words[0])
        for word in words[1:]:
            name, _, rest = word.rpartition("=")
            value, _, deviation = rest.partition(":")
            names.append(name)
            positions.append(float(value))
            deviations.append(float(deviation) if deviation else DEFAULT_DEVIATION)
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
        "acceptance_rate": given.acceptance_rate,
        "log_evidence": given.log_evidence,
        "seed": seed,
    }


def _data_set(
    prior: MotionPrior, samples: MotionSamples, context: tuple[float, ...], duration: float, seed: int
) -> DataSet:
    import numpy as np

    from eim_ros.core.data_set import DataSet

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
        "limits_source": prior.limits_source,
        "seed": seed,
    }
    contexts = np.tile(np.array(context, dtype=np.float64), (n, 1)).reshape(n, -1)
    return DataSet(contexts, samples.positions.reshape(n, -1), description)


def _lines(prior: MotionPrior, given: MotionDistribution, samples: MotionSamples, duration: float) -> Iterator[str]:
    reaching = " and reaching the goals" if given.tasks else ""
    yield (
        f"{len(samples)} motions of {samples.positions.shape[1]} points and {duration:.3g} s within limits{reaching} "
        f"(acceptance rate {given.acceptance_rate:.3g}); the log density of the via points is "
        f"{given.log_evidence:.2f} nat"
    )
    heading = f"{'motion':>6} {'log density [nat]':>18} {'component':>9}"
    yield f"{heading}  first and last value of {', '.join(prior.joint_names)}"
    for index, motion in enumerate(samples.positions):
        ends = ", ".join(f"{first:.3f} to {last:.3f}" for first, last in zip(motion[0], motion[-1], strict=True))
        yield f"{index:>6} {samples.log_prob[index]:>18.2f} {samples.component[index]:>9}  {ends}"
