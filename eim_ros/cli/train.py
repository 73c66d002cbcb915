"""`eim train`: learn an inverse kinematics model or a motion prior from a data set, by EIM or EM.

Settings come from the defaults, then from the YAML file of --config, then from --set and flags. The run saves itself
beside the output; --resume continues it, bitwise, after Ctrl-C or a crash.
"""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path
from typing import Any

from eim_ros.cli.choices import ALGORITHMS, CHOICES, TASKS, Choice, chosen
from eim_ros.cli.options import (
    add_robot_flags,
    add_settings_flags,
    add_threads_flag,
    given_robot,
    given_settings,
    robot_file,
    use_threads,
)
from eim_ros.cli.progress import JsonProgress, ProgressBar
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.data_set import DataSet, load_data_set
from eim_ros.core.errors import ConfigurationError, DataError, ModelFileError, did_you_mean
from eim_ros.core.files import check_outputs, to_json
from eim_ros.core.settings import assigned, named, read_yaml, split_assignments
from eim_ros.ik import IKModel, TrainingRun
from eim_ros.ik.prior import model_path
from eim_ros.ik.training import FitConfig
from eim_ros.kinematics import Robot
from eim_ros.learning.learner import checked_device
from eim_ros.learning.run import RunOptions, Status
from eim_ros.motion import Demonstrations, MotionTrainingRun

ALIASES = {"n_components": "--experts", "n_iterations": "--iterations"}
BASIC = (
    "n_components",
    "n_iterations",
    "expert_kind",
    "gating_kind",
    "adaptation.add_every",
    "adaptation.max_components",
    "ratio.estimator",
    "m_step.kl_bound",
    "m_step.entropy_loss_bound",
    "m_step.gating.kl_bound",
    "n_starts",
    "tolerance",
    "motion.basis",
    "motion.n_functions",
    "motion.calibration_share",
)  # settings


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "train", help="learn an inverse kinematics model or a motion prior from a data set", description=__doc__
    )
    add_robot_flags(parser, default="that of the data set")
    add = parser.add_argument
    add("--data", required=True, metavar="FILE", help="data set of eim collect or eim import")
    add("--task", choices=TASKS, default="ik", help="configurations for poses, or motions (default %(default)s)")
    add("--algorithm", choices=ALGORITHMS, default="eim", help="learner (default %(default)s)")
    add("--output", required=True, metavar="FILE", help="model to write (.safetensors)")
    add("--config", metavar="FILE", help="YAML file of settings, 'name: value', with the names and values of --set")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, by the name of its flag")
    add(
        "--kinematics",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show the density ratio of EIM the robot's forward kinematics (default)",
    )
    add("--initial", metavar="FILE", help="model of eim train to start from (task ik)")
    add("--prior", metavar="FILE", help="model of demonstrations that multiplies the target of known-density (task ik)")
    add("--random-seed", "--seed", type=random_seed, default=0, help="random seed (default %(default)s)")
    add("--device", default="cpu", help="where EIM runs: cpu, cuda (default %(default)s)")
    add("--resume", action="store_true", help="continue the interrupted run from its checkpoint")
    add(
        "--checkpoint-every", type=count, default=10, metavar="N", help="iterations between saves (default %(default)s)"
    )
    add("--no-checkpoint", action="store_true", help="do not save the run itself")
    add("--quiet", action="store_true", help="no progress bar")
    add("--progress", choices=("bar", "json"), default="bar", help="bar, or JSON lines on stderr (default %(default)s)")
    add("--end-with-stdin", action="store_true", help="end at once when standard input is closed")
    add("--json", action="store_true", help="print one JSON object")
    add_threads_flag(parser)
    add_settings_flags(parser, {name: choice.settings() for name, choice in CHOICES.items()}, ALIASES, BASIC)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    if args.end_with_stdin:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    checkpoint = None if args.no_checkpoint else Path(f"{args.output}.checkpoint")
    check_outputs({"--output": args.output, "the checkpoint": checkpoint}, _inputs(args))
    if args.progress == "json":
        JsonProgress(0).enter("reading")
    robot = given_robot(args)
    data_set = load_data_set(args.data)
    choice = _choice(args)
    device = checked_device(args.device)
    if args.resume and checkpoint is None:
        raise ConfigurationError("--resume goes on from a checkpoint, --no-checkpoint does without: give one of them")
    if args.resume and checkpoint is not None and not checkpoint.exists():
        raise ModelFileError(f"nothing to resume: there is no {checkpoint}", str(checkpoint))
    with _progress(args, choice.learner) as progress:
        progress.enter("preparing")
        options = RunOptions([progress], checkpoint, args.checkpoint_every, args.resume)
        outcome = _trained(args, choice, device, data_set, robot, options)
        progress.enter("writing")
    iterations = outcome.model.training["iterations"]
    if outcome.status is Status.INTERRUPTED:
        rest = f"; give --resume to continue from {checkpoint}" if checkpoint is not None else ""
        print(f"interrupted after {iterations} iterations{rest}")
        return 130
    outcome.model.save(args.output)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    record = outcome.model.training
    if args.json:
        last = outcome.result.history.records[-1] if outcome.result.history.records else {}
        print(to_json({"output": args.output, **record, "last": last}))
    else:
        print(f"wrote {args.output}: {_ended(outcome.status, iterations)}, {record['cpu_seconds']} s of CPU")
    return 0 if outcome.status is not Status.NON_FINITE else 1


def _ended(status: Status, iterations: int) -> str:
    if status is Status.MAX_ITERATIONS:
        return (
            f"all {iterations} iterations done, the last of which still changed the model (--initial goes on from it)"
        )
    return f"{status.value.replace('_', ' ')} after {iterations} iterations"


def _inputs(args: argparse.Namespace) -> dict[str, str | Path]:
    models = {"--initial": args.initial, "--prior": args.prior}
    return {
        "--data": args.data,
        "--config": args.config,
        "--robot": robot_file(args),
        **{flag: model_path(path) for flag, path in models.items() if path},
    }


def _trained(
    args: argparse.Namespace,
    choice: Choice,
    device: str,
    data_set: DataSet,
    robot: Robot | None,
    options: RunOptions,
) -> TrainingRun | MotionTrainingRun:
    if args.task == "ik":
        initial, prior = (IKModel.load(path) if path else None for path in (args.initial, args.prior))
        training = choice.training(args.random_seed, device)
        return training.run(data_set, robot, initial=initial, prior=prior, run=options)
    for flag, path in (("--initial", args.initial), ("--prior", args.prior)):
        if path:
            raise ConfigurationError(f"{flag} is for task ik", path)
    if robot is not None:
        _check_joints(Demonstrations.from_data_set(data_set), robot)
    return choice.motion_training(args.random_seed, device).run(data_set, run=options)


def _choice(args: argparse.Namespace) -> Choice:
    """Return the settings that the file, --set and the flags give."""
    of_file = named(read_yaml(args.config).items(), ALIASES) if args.config else {}
    given: dict[str, Any] = {**of_file, **split_assignments(args.set, ALIASES)}
    kinematics = _yes_or_no("kinematics", given.pop("kinematics", args.kinematics))
    name = chosen(args.task, args.algorithm, kinematics)
    known = CHOICES[name].settings()
    by_flag = given_settings(args)
    for setting in by_flag:
        if setting not in known:
            owners = ", ".join(owner for owner, other in CHOICES.items() if setting in other.settings())
            raise ConfigurationError(f"--{setting.replace('_', '-')} is no setting of {name}, but of {owners}", setting)
    for setting in given:
        if setting not in known:
            of_group = [one for one in known if one.startswith(f"{setting}.")]
            if of_group:
                raise ConfigurationError(
                    f"{setting} is a group of settings; did you mean {of_group[0]}?", given[setting]
                )
            names = [*known, *(flag.removeprefix("--") for flag in ALIASES.values())]
            raise ConfigurationError(
                f"unknown setting {setting} of {name}; `eim train --help-all` lists all{did_you_mean(setting, names)}",
                setting,
            )
    types = {setting: known[setting].annotation for setting in known}
    return CHOICES[name].replaced({**assigned(given, types), **by_flag})


def _progress(args: argparse.Namespace, config: FitConfig) -> ProgressBar | JsonProgress:
    n_iterations = config.n_iterations * getattr(config, "n_starts", 1)
    if args.progress == "json":
        return JsonProgress(n_iterations)
    return ProgressBar(n_iterations, enabled=not args.quiet)


def _check_joints(demonstrations: Demonstrations, robot: Robot) -> None:
    if set(demonstrations.joint_names) != set(robot.joint_names):
        raise DataError(
            f"the motions are of joints {', '.join(demonstrations.joint_names)}, robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}",
            robot.name,
        )


def _yes_or_no(name: str, value: object) -> bool:
    answers = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    text = str(value).lower()
    if text not in answers:
        raise ConfigurationError(f"{name} must be true or false, got {value!r}", value)
    return answers[text]


def _end_with_stdin() -> None:
    """The program that started this one holds the other end: when it is gone, nobody wants the result."""
    while os.read(0, 4096):  # not sys.stdin, whose lock must not be held when the interpreter ends
        pass
    os._exit(1)
