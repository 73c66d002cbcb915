"""`eim train`: learn an inverse kinematics model or a motion prior from a data set, by EIM or EM.

The flags of the verb are read first, without torch. The settings of the chosen learner are read afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Suppress, arg

from eim_ros.cli.options import (
    Arm,
    Count,
    File,
    Json,
    Quiet,
    Repeated,
    Seed,
    Switch,
    Threads,
    parse,
    parse_settings,
    read_with_settings,
    use_threads,
)
from eim_ros.core.errors import ConfigurationError, DataError, ModelFileError, did_you_mean
from eim_ros.core.files import check_outputs, to_json
from eim_ros.core.settings import assigned, field_types, is_within, named, read_yaml, split_assignments

if TYPE_CHECKING:
    from eim_ros.cli.progress import JsonProgress, ProgressBar
    from eim_ros.core.data_set import DataSet
    from eim_ros.ik import TrainingRun
    from eim_ros.ik.training import FitConfig
    from eim_ros.kinematics import Robot
    from eim_ros.learning import RunOptions
    from eim_ros.motion import MotionTrainingRun

ALIASES = {"n_components": "--experts", "n_iterations": "--iterations"}
HELP = {"-h", "--help"}


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Task and algorithm."""

    task: Literal["ik", "motion"] = "ik"
    """What to learn: configurations for poses (ik), or motions."""
    algorithm: Literal["eim", "em", "truncated-em", "known-density"] = "eim"
    """Learner. Its settings are flags as well: see `eim train --algorithm ALGORITHM --help`."""
    kinematics: bool = True
    """Add the robot's forward kinematics to the inputs of EIM's density ratio."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Learn an inverse kinematics model or a motion prior from a data set.

    Settings are taken from the defaults, the YAML file of --config, --set and flags, and later sources have priority.
    The run is saved next to the output. After Ctrl-C or a crash, --resume continues it with the same result.
    """

    learner: Learner
    arm: Arm
    data: Annotated[str, arg(metavar="FILE")]
    """Data set from eim collect or eim import."""
    output: Annotated[str, arg(metavar="FILE")]
    """Model to write (.safetensors)."""
    config: File = None
    """YAML file of settings, with the names and values of --set."""
    set: Annotated[Repeated, arg(metavar="NAME=VALUE")] = ()
    """A setting, by the name of its flag."""
    initial: File = None
    """Initial model, from eim train (task ik)."""
    prior: File = None
    """Model of demonstrations that multiplies the target of known-density (task ik)."""
    seed: Seed = 0
    """Random seed."""
    device: str = "cpu"
    """Device of EIM: cpu or cuda."""
    resume: Switch = False
    """Continue the interrupted run from its checkpoint."""
    checkpoint_every: Count = 10
    """Number of iterations between two checkpoints."""
    no_checkpoint: Switch = False
    """Save no checkpoints."""
    quiet: Quiet = False
    progress: Literal["bar", "json"] = "bar"
    """Show a bar, or print JSON lines on stderr."""
    end_with_stdin: Switch = False
    """Stop immediately when standard input is closed."""
    json: Json = False
    threads: Threads = None
    settings: Suppress[tuple[str, ...]] = field(default=())

    @classmethod
    def read(cls, words: Sequence[str]) -> Train:
        """Read the flags of the verb. `run` reads the flags of settings, because it imports the learner."""

        def settings() -> FitConfig:
            learner, _ = parse(Learner, "eim train", [word for word in words if word not in HELP], keep_unknown=True)
            return default_settings(learner.task, learner.algorithm, learner.kinematics)

        verb: Train = read_with_settings(cls, "eim train", words, settings, ALIASES)
        return verb

    def run(self) -> int:
        if self.end_with_stdin:
            threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
        checkpoint = None if self.no_checkpoint else Path(f"{self.output}.checkpoint")
        check_outputs({"--output": self.output, "the checkpoint": checkpoint}, self._inputs())
        if self.progress == "json":
            from eim_ros.cli.progress import JsonProgress

            JsonProgress(0).enter("reading")
        from eim_ros.core.data_set import load_data_set
        from eim_ros.learning import RunOptions
        from eim_ros.learning.learner import checked_device
        from eim_ros.learning.run import Status

        use_threads(self.threads)
        robot = self.arm.find()
        data_set = load_data_set(self.data)
        config = self._config()
        device = checked_device(self.device)
        if self.resume and checkpoint is None:
            raise ConfigurationError("--resume needs the checkpoint that --no-checkpoint forbids: give one of them")
        if self.resume and checkpoint is not None and not checkpoint.exists():
            raise ModelFileError(f"nothing to resume: there is no {checkpoint}", str(checkpoint))
        with self._progress(config) as progress:
            progress.enter("preparing")
            options = RunOptions([progress], checkpoint, self.checkpoint_every, self.resume)
            outcome = self._trained(config, device, data_set, robot, options)
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
            print(to_json({"output": self.output, **record, "last": last}))
        else:
            ended = f"{outcome.status.value.replace('_', ' ')} after {iterations} iterations"
            if outcome.status is Status.MAX_ITERATIONS:
                ended = f"did all {iterations} iterations without convergence (--initial continues from it)"
            print(f"wrote {self.output}: {ended}, {record['cpu_seconds']} s of CPU")
        return 0 if outcome.status is not Status.NON_FINITE else 1

    def _inputs(self) -> dict[str, str | Path | None]:
        from eim_ros.ik.prior import model_path

        models = {"--initial": self.initial, "--prior": self.prior}
        return {
            "--data": self.data,
            "--config": self.config,
            "--robot": self.arm.file,
            **{flag: model_path(path) for flag, path in models.items() if path},
        }

    def _trained(
        self, config: FitConfig, device: str, data_set: DataSet, robot: Robot | None, options: RunOptions
    ) -> TrainingRun | MotionTrainingRun:
        from eim_ros.ik import IKModel, Training
        from eim_ros.motion import Demonstrations, MotionTraining

        if self.learner.task == "ik":
            initial, prior = (IKModel.load(path) if path else None for path in (self.initial, self.prior))
            smoothing, known = getattr(config, "smoothing", None), self.learner.algorithm == "known-density"
            training = Training(learner_of(config), self.seed, device, smoothing, known)
            return training.run(data_set, robot, initial=initial, prior=prior, run=options)
        for flag, path in (("--initial", self.initial), ("--prior", self.prior)):
            if path:
                raise ConfigurationError(f"{flag} is for task ik", path)
        if robot is not None:
            names = Demonstrations.from_data_set(data_set).joint_names
            if set(names) != set(robot.joint_names):
                raise DataError(
                    f"the motions are of joints {', '.join(names)}, robot '{robot.name}' has "
                    f"{', '.join(robot.joint_names)}",
                    robot.name,
                )
        learner: Any = learner_of(config)
        return MotionTraining(config.motion, learner, self.seed, device).run(data_set, run=options)  # type: ignore[union-attr]  # by task

    def _config(self) -> FitConfig:
        """Return the settings of the file, of --set and of flags, in this order."""
        of_file = named(read_yaml(self.config).items(), ALIASES) if self.config else {}
        given: dict[str, Any] = {**of_file, **split_assignments(self.set, ALIASES)}
        kinematics = _yes_or_no("kinematics", given.pop("kinematics", self.learner.kinematics))
        default = default_settings(self.learner.task, self.learner.algorithm, kinematics)
        types = field_types(type(default))
        used = [name for name in types if not is_within(name, default.unused)]
        known = [*used, *(flag.removeprefix("--") for flag in ALIASES.values())]
        for name in given:
            if name not in known and not any(each.startswith(f"{name}.") for each in used):
                raise ConfigurationError(
                    f"unknown setting {name} of {type(learner_of(default)).__name__}, see `eim train --help`"
                    f"{did_you_mean(name, known)}",
                    name,
                )
        settings = default.replace(**assigned(given, types))
        program = f"eim train --task {self.learner.task} --algorithm {self.learner.algorithm}"
        return parse_settings(settings, program, self.settings, ALIASES)

    def _progress(self, config: FitConfig) -> ProgressBar | JsonProgress:
        from eim_ros.cli.progress import JsonProgress, ProgressBar

        n_iterations = config.n_iterations * getattr(config, "n_starts", 1)
        if self.progress == "json":
            return JsonProgress(n_iterations)
        return ProgressBar(n_iterations, enabled=not self.quiet)


def default_settings(task: str, algorithm: str, kinematics: bool) -> FitConfig:
    """Return the settings of a learner. For some learners they have a group `motion` or `smoothing`."""
    from eim_ros.cli.learners import DEFAULTS

    name = f"{algorithm}-kinematics" if (task, algorithm) == ("ik", "eim") and kinematics else algorithm
    if (task, name) not in DEFAULTS:
        raise ConfigurationError(f"motion priors are learnt by eim or em, not by {algorithm}", algorithm)
    return DEFAULTS[task, name]


def learner_of(settings: FitConfig) -> FitConfig:
    """Return the settings of the learner without the group that `default_settings` adds."""
    from eim_ros.learning import EIMConfig, EMConfig, TruncatedEMConfig

    kind = next(kind for kind in (EIMConfig, EMConfig, TruncatedEMConfig) if isinstance(settings, kind))
    found: FitConfig = kind(**{each.name: getattr(settings, each.name) for each in fields(kind)})
    return found


def _yes_or_no(name: str, value: object) -> bool:
    answers = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    text = str(value).lower()
    if text not in answers:
        raise ConfigurationError(f"{name} must be true or false, got {value!r}", value)
    return answers[text]


def _end_with_stdin() -> None:
    """Wait until the parent process closes its end of the pipe or ends. The result is then not needed any more."""
    while os.read(0, 4096):  # not sys.stdin, because its lock must be free when the interpreter exits
        pass
    os._exit(1)
