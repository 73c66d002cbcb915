"""`eim train`: learn an inverse kinematics model or a motion prior from a data set, by EIM or EM.

The flags of the verb are read first, without torch. The settings of the chosen learner are read afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from eim_ros.cli.flags import (
    flag,
    json_flag,
    listed_settings,
    parse,
    quiet_flag,
    seed_flag,
    switch,
    threads_flag,
)
from eim_ros.cli.options import Arm, use_threads
from eim_ros.core.errors import ConfigurationError, ModelFileError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.core.settings import Settings, assignments, chosen, described, option, read_yaml

if TYPE_CHECKING:
    from eim_ros.cli.progress import JsonProgress, ProgressBar
    from eim_ros.core.arrays import FloatArray
    from eim_ros.core.data_set import DataSet
    from eim_ros.ik import TrainingRun
    from eim_ros.ik.training import FitConfig
    from eim_ros.kinematics import Robot
    from eim_ros.learning import FitResult, RunOptions
    from eim_ros.learning.run import Status
    from eim_ros.motion import MotionTrainingRun


@dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of the run."""

    initial: str = option("", "initial model, from eim train (task ik)")
    prior: str = option("", "model of demonstrations, whose density multiplies the target of known-density (task ik)")
    device: str = option("cpu", "device of EIM: cpu or cuda")
    checkpoint_every: int = option(
        10, "number of iterations between two checkpoints; 0: save no checkpoints", minimum=0
    )
    progress: str = option("bar", "kind of progress report on stderr: a bar, or lines of JSON", choices=("bar", "json"))
    end_with_stdin: bool = option(False, "whether the run stops when standard input is closed")


@dataclass(frozen=True)
class TrainSettings(Settings):
    """Settings of the training, apart from the learner."""

    kinematics: bool = option(True, "whether the forward kinematics are inputs of EIM's ratio network (task ik)")
    run: RunSettings = RunSettings()


@dataclass(frozen=True, kw_only=True)
class Train:
    """Learn an inverse kinematics model or a motion prior from a data set, or any mixture from arrays.

    With --samples, the data are your own arrays, and the learner fits them as it does in Python.
    Settings come from the defaults, the YAML file of --config, --set and flags, and later sources have priority.
    --help-settings lists the settings. --NAME VALUE is the same as --set NAME=VALUE.
    Checkpoints of the run are saved next to the output. After Ctrl-C or a crash, --resume continues the run, and the
    result is the same as without the interruption.
    """

    first_words: ClassVar[tuple[str, ...]] = ("data",)

    arm: Arm
    data: str = flag(
        text="Data set from eim collect or eim import; with --samples, an .npz file or a .csv file with a header.",
        metavar="FILE",
    )
    samples: str | None = flag(
        None,
        "Columns (.csv) or arrays (.npz) of --data to model, such as a,b (default: the samples of the data set).",
        metavar="NAMES",
    )
    contexts: str | None = flag(
        None, "Columns or arrays of --data on which --samples depend, such as x,y (default: none).", metavar="NAMES"
    )
    output: str = flag(text="Model to write (.safetensors).", metavar="FILE", short="-o")
    task: Literal["ik", "motion"] = flag("ik", "Kind of model: configurations for poses (ik), or motions.")
    algorithm: Literal["eim", "em", "truncated-em", "known-density"] = flag("eim", "Learner.")
    experts: int | None = flag(
        None, "Number of experts, like the setting n_components (default: depends on the learner)."
    )
    iterations: int | None = flag(
        None, "Number of iterations, like the setting n_iterations (default: depends on the learner)."
    )
    seed: int = seed_flag()
    reach: tuple[str, ...] = flag(
        (),
        "Goal for a coordinate of the tip of --robot at the end of all motions. VALUE is a number [m] or the name of "
        "a context; the default tolerance is 0.05 m. Motions drawn from the model reach it (task motion).",
        metavar="AXIS=VALUE[:TOLERANCE]",
        repeated=True,
        is_expert=True,
    )
    set: tuple[str, ...] = flag(
        (),
        "Setting, such as ratio.patience=5. --help-settings lists all settings.",
        metavar="NAME=VALUE",
        repeated=True,
    )
    config: str | None = flag(None, "YAML file of settings.", metavar="FILE", is_expert=True)
    resume: bool = switch("Continue the interrupted run from its checkpoint.")
    quiet: bool = quiet_flag()
    json: bool = json_flag()
    threads: int | None = threads_flag(is_expert=True)

    @classmethod
    def read(cls, words: Sequence[str]) -> Train:
        """Read the flags of the verb, or list the settings of its learner."""
        if "--help-settings" in words:
            asked = parse(cls, "eim train", [word for word in words if word != "--help-settings"], is_partial=True)
            both = asked.settings()
            print(f"settings of eim train --task {asked.task} --algorithm {asked.algorithm}:")
            print(listed_settings(*both))
            raise SystemExit(0)
        verb: Train = parse(cls, "eim train", words)
        return verb

    @classmethod
    def setting_names(cls, words: Sequence[str]) -> list[str]:
        """Return the names of the settings, which may also be given as flags."""
        asked = {name: word for name, word in itertools.pairwise(words) if name in ("--task", "--algorithm")}
        task, algorithm = asked.get("--task", "ik"), asked.get("--algorithm", "eim")
        with contextlib.suppress(ConfigurationError):  # `parse` reports a wrong task or algorithm later
            learner = default_settings(task, algorithm, "--samples" not in words)
            return [*described(TrainSettings()), *described(learner)]
        return []

    def settings(self) -> tuple[TrainSettings, FitConfig]:
        """Return the settings of the run and of the learner. The YAML file, --set and flags are applied in this
        order.
        """
        own, learner = TrainSettings(), list[dict[str, Any]]()
        for given in (read_yaml(self.config) if self.config else {}, assignments(self.set)):
            names = [name for name in given if name.partition(".")[0] in ("kinematics", "run")]
            own = chosen(own, {name: given[name] for name in names})
            learner.append({name: value for name, value in given.items() if name not in names})
        config = default_settings(self.task, self.algorithm, own.kinematics and not self.samples)
        for given in learner:
            config = chosen(config, given)
        flags = {"n_components": self.experts, "n_iterations": self.iterations}
        return own, config.replace(**{name: value for name, value in flags.items() if value is not None})

    def _check_arrays(self) -> None:
        """Raise `ConfigurationError` for flags that do not work with arrays."""
        if self.samples is None:
            if self.contexts is not None:
                raise ConfigurationError(
                    "--contexts has an effect only with --samples: also give --samples, the columns to model",
                    self.contexts,
                )
            return
        if self.arm.robot or self.task != "ik":
            raise ConfigurationError(
                "--samples fits arrays without a robot: leave out --robot and --task", self.samples
            )
        if self.algorithm == "known-density":
            raise ConfigurationError(
                "known-density works only for arms: to fit your own log density, use GMMVI in Python (see "
                "docs/how_to/own_data.md)",
                self.algorithm,
            )

    def run(self) -> int:
        self._check_arrays()
        inputs: dict[str, str | Path | None] = {"--data": self.data, "--config": self.config, "--robot": self.arm.file}
        check_outputs({"--output": self.output}, inputs)
        settings, config = self.settings()
        run = settings.run
        if run.end_with_stdin:
            threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
        checkpoint = Path(f"{self.output}.checkpoint") if run.checkpoint_every else None
        from eim_ros.ik.prior import model_path

        models = {"run.initial": run.initial, "run.prior": run.prior}
        inputs |= {name: model_path(path) for name, path in models.items() if path and self.samples is None}
        check_outputs({"--output": self.output, "the checkpoint": checkpoint}, inputs)
        if run.progress == "json":
            from eim_ros.cli.progress import JsonProgress

            JsonProgress(0).enter("reading")
        from eim_ros.learning import RunOptions
        from eim_ros.learning.learner import checked_device
        from eim_ros.learning.run import Status

        use_threads(self.threads)
        robot = self.arm.find()
        if self.reach and (robot is None or self.task != "motion"):
            raise ConfigurationError("--reach works only with --robot and --task motion: give both", self.reach)
        data = self._data()
        checked_device(run.device)
        if self.resume and checkpoint is None:
            raise ConfigurationError("--resume needs a checkpoint, but run.checkpoint_every is 0: set it to 1 or more")
        if self.resume and checkpoint is not None and not checkpoint.exists():
            raise ModelFileError(
                f"cannot resume, because there is no checkpoint {checkpoint}; leave out --resume to start a new run",
                str(checkpoint),
            )
        with self._progress(config, run) as progress:
            progress.enter("preparing")
            options = RunOptions([progress], checkpoint, run.checkpoint_every or 1, self.resume)
            outcome = self._trained(config, run, data, robot, options)
            progress.enter("writing")
        iterations = outcome.model.training["iterations"]
        if outcome.status is Status.INTERRUPTED:
            rest = f"; give --resume to continue from {checkpoint}" if checkpoint is not None else ""
            print(f"interrupted after {iterations} iterations{rest}")
            return 130
        outcome.model.save(self.output)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        record = outcome.model.training
        if self.json:
            last = outcome.result.history.records[-1] if outcome.result.history.records else {}
            print(to_json({"output": self.output, **record, "message": outcome.result.message, "last": last}))
        else:
            ended = f"{outcome.status.value.replace('_', ' ')} after {iterations} iterations"
            if outcome.status is Status.MAX_ITERATIONS:
                ended = (
                    f"the fit did not converge in {iterations} iterations (to continue, give this model as run.initial)"
                )
            print(f"wrote {self.output}: {ended}, {record['cpu_seconds']} s of CPU time")
            if outcome.result.message:
                print(outcome.result.message)
        return 0 if outcome.status is not Status.NON_FINITE else 1

    def _data(self) -> DataSet | Arrays:
        """Return the data set. With --samples, return the arrays in the user's file."""
        from eim_ros.core.data_set import load_data_set
        from eim_ros.core.tables import load_columns

        if self.samples is None:
            return load_data_set(self.data)
        names = [_names(flag, text) for flag, text in (("--contexts", self.contexts), ("--samples", self.samples))]
        *contexts, samples = load_columns(self.data, *filter(None, names))
        return Arrays(contexts[0] if contexts else None, samples, *names)

    def _trained(
        self,
        config: FitConfig,
        run: RunSettings,
        data_set: DataSet | Arrays,
        robot: Robot | None,
        options: RunOptions,
    ) -> TrainingRun | MotionTrainingRun | ArrayRun:
        if isinstance(data_set, Arrays):
            return fitted_to_arrays(config, self.seed, run, data_set, options)
        from eim_ros.core.data_set import DataSet
        from eim_ros.ik import IKModel, Training
        from eim_ros.motion import Demonstrations, MotionTraining, TipGoal
        from eim_ros.motion.tip_goal import check_goals

        if self.task == "ik":
            initial, prior = (IKModel.load(path) if path else None for path in (run.initial, run.prior))
            smoothing, known = getattr(config, "smoothing", None), self.algorithm == "known-density"
            training = Training(learner_of(config), self.seed, run.device, smoothing, known)
            return training.run(data_set, robot, initial=initial, prior=prior, run=options)
        for name, path in (("run.initial", run.initial), ("run.prior", run.prior)):
            if path:
                raise ConfigurationError(f"{name} works only with --task ik: leave out {name}", path)
        goals = [TipGoal.parse(word) for word in self.reach]
        if robot is not None:
            motions = Demonstrations.from_data_set(data_set)
            names = motions.joint_names
            check_goals(goals, robot, names, motions.context_names)
            for goal in goals:
                goal.check_demonstrated(robot, motions)
            data_set = DataSet(data_set.context, data_set.sample, {**data_set.description, **_limits(robot, names)})
        learner: Any = learner_of(config)
        outcome = MotionTraining(config.motion, learner, self.seed, run.device).run(data_set, run=options)  # type: ignore[union-attr]  # by task
        return outcome if robot is None else replace(outcome, model=outcome.model.with_goals(robot, *goals))

    def _progress(self, config: FitConfig, run: RunSettings) -> ProgressBar | JsonProgress:
        from eim_ros.cli.progress import JsonProgress, ProgressBar

        n_iterations = config.n_iterations * getattr(config, "n_starts", 1)
        if run.progress == "json":
            return JsonProgress(n_iterations)
        return ProgressBar(n_iterations, enabled=not self.quiet)


@dataclass(frozen=True)
class Arrays:
    """Samples (n, n_dims) and optional contexts (n, n_context) from the user's file, with names of the columns."""

    contexts: FloatArray | None
    samples: FloatArray
    context_names: tuple[str, ...]
    sample_names: tuple[str, ...]


@dataclass(frozen=True)
class ArrayModel:
    """Model that was fitted to arrays, in the form that the verb writes."""

    fitted: FitResult[Any]
    names: dict[str, Any]

    @property
    def training(self) -> dict[str, Any]:
        """Record of the fit."""
        return self.fitted.record()

    def save(self, path: str | Path) -> None:
        """Write the model with its record and the names; `FittedModel.load` reads it."""
        from eim_ros.learning.models import save_model

        save_model(path, self.fitted.model, {"training": self.training, **self.names})


@dataclass(frozen=True)
class ArrayRun:
    """Result of a fit to arrays."""

    result: FitResult[Any]
    model: ArrayModel

    @property
    def status(self) -> Status:
        return self.result.status


def fitted_to_arrays(config: FitConfig, seed: int, run: RunSettings, data: Arrays, options: RunOptions) -> ArrayRun:
    """Fit the learner of the settings to arrays."""
    import torch

    from eim_ros.learning import EIM, EM, EIMConfig, EMConfig, FittedModel, TruncatedEM

    if run.prior:
        raise ConfigurationError("run.prior works only for arms: leave out run.prior", run.prior)
    learner: Any = EM if isinstance(config, EMConfig) else EIM if isinstance(config, EIMConfig) else TruncatedEM
    start = FittedModel.load(run.initial) if run.initial else None
    generator = None if run.device == "cpu" else torch.Generator(run.device).manual_seed(seed)
    pairs = data.samples if data.contexts is None else (data.contexts, data.samples)
    result = learner(config, seed=seed).fit(pairs, start, generator=generator, run=options)
    names = {"context_names": data.context_names, "sample_names": data.sample_names}
    return ArrayRun(result, ArrayModel(result, names))


def _names(flag: str, text: str | None) -> tuple[str, ...]:
    """Return the names in a flag, separated by commas."""
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(f"{flag} {text}: expected different names, separated by commas", text)
    return names


def _limits(robot: Robot, names: Sequence[str]) -> dict[str, Any]:
    """Return the limits of a robot's joints in the form of a data set's description."""
    order = [robot.joint_names.index(name) for name in names]
    limits = {"lower": robot.lower, "upper": robot.upper}
    described = {
        side: [None if robot.continuous[joint] else float(values[joint]) for joint in order]
        for side, values in limits.items()
    }
    return {**described, "limits_source": "robot"}


def default_settings(task: str, algorithm: str, kinematics: bool) -> FitConfig:
    """Return the default settings of a learner. Settings of some learners have a group `motion` or `smoothing`."""
    from eim_ros.cli.learners import DEFAULTS

    name = f"{algorithm}-kinematics" if (task, algorithm) == ("ik", "eim") and kinematics else algorithm
    if (task, name) not in DEFAULTS:
        raise ConfigurationError(f"--algorithm {algorithm} cannot learn motion priors: use eim or em", algorithm)
    return DEFAULTS[task, name]


def learner_of(settings: FitConfig) -> FitConfig:
    """Return the settings of the learner without the group that `default_settings` adds."""
    from eim_ros.learning import EIMConfig, EMConfig, TruncatedEMConfig

    kind = next(kind for kind in (EIMConfig, EMConfig, TruncatedEMConfig) if isinstance(settings, kind))
    found: FitConfig = kind(**{each.name: getattr(settings, each.name) for each in fields(kind)})
    return found


def _end_with_stdin() -> None:
    """End this process when its parent ends or closes the pipe, because the result is no longer needed."""
    while os.read(0, 4096):  # not sys.stdin; its lock must be free when the interpreter exits
        pass
    os._exit(1)
