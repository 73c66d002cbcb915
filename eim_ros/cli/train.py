"""`eim train`: learn an inverse kinematics model from a data set, by EIM or EM.

Settings come from the defaults, then from the YAML file of --config, then from flags. The run saves itself beside the
output; --resume continues it, bitwise, after Ctrl-C or a crash.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from eim_ros.cli.choices import ALGORITHMS, config_class
from eim_ros.cli.output_file import check_output
from eim_ros.cli.progress import ProgressBar
from eim_ros.cli.robot_flags import add_robot_flags, robot_from
from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.cli.threads import add_threads_flag, use_threads
from eim_ros.cli.whole_numbers import count, seed
from eim_ros.data import load_data_set
from eim_ros.errors import ConfigurationError, ModelFileError
from eim_ros.ik.kinematic_inputs import KinematicEIMConfig
from eim_ros.ik.training import Training
from eim_ros.inference import EIMConfig, EMConfig, TruncatedEMConfig
from eim_ros.numerics import Status
from eim_ros.settings import read_yaml

__all__ = ["add_parser", "run"]

ALIASES = {"n_components": "--experts", "n_iterations": "--iterations"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "train", help="learn an inverse kinematics model from a data set", description=__doc__
    )
    add_robot_flags(parser)
    add = parser.add_argument
    add("--data", required=True, metavar="FILE", help="data set of eim collect")
    add("--algorithm", choices=ALGORITHMS, default="eim", help="learner (default %(default)s)")
    add("--output", required=True, metavar="FILE", help="model to write (.safetensors)")
    add("--config", metavar="FILE", help="YAML file of settings, 'name: value'")
    add(
        "--kinematics",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show the density ratio of EIM the robot's forward kinematics (default)",
    )
    add("--seed", type=seed, default=0, help="random seed (default %(default)s)")
    add("--device", default="cpu", help="where EIM runs: cpu, cuda (default %(default)s)")
    add("--resume", action="store_true", help="continue the interrupted run from its checkpoint")
    add(
        "--checkpoint-every", type=count, default=10, metavar="N", help="iterations between saves (default %(default)s)"
    )
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print one JSON object")
    add_threads_flag(parser)
    add_settings_flags(parser, (KinematicEIMConfig, EIMConfig, EMConfig, TruncatedEMConfig), ALIASES)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    robot = robot_from(args)
    data_set = load_data_set(args.data)
    training = _training(args)
    check_output(args.output)
    checkpoint = Path(f"{args.output}.checkpoint")
    if args.resume and not checkpoint.exists():
        raise ModelFileError(f"nothing to resume: there is no {checkpoint}", str(checkpoint))
    with ProgressBar(training.config.n_iterations, enabled=not args.quiet) as progress:
        outcome = training.run(
            data_set,
            robot,
            callbacks=[progress],
            checkpoint=checkpoint,
            checkpoint_every=args.checkpoint_every,
            resume=args.resume,
        )
    iterations = outcome.model.training["iterations"]
    if outcome.status is Status.INTERRUPTED:
        print(f"interrupted after {iterations} iterations; give --resume to continue from {checkpoint}")
        return 130
    outcome.model.save(args.output)
    checkpoint.unlink(missing_ok=True)
    record = outcome.model.training
    if args.json:
        last = outcome.result.history.records[-1] if outcome.result.history.records else {}
        print(json.dumps({"output": args.output, **record, "last": last}))
    else:
        print(
            f"wrote {args.output}: {record['status']} after {iterations} iterations, {record['cpu_seconds']} s of CPU"
        )
    return 0 if outcome.status is not Status.NON_FINITE else 1


def _training(args: argparse.Namespace) -> Training:
    values = {**(read_yaml(args.config) if args.config else {}), **given_settings(args)}
    config = config_class(args.algorithm, args.kinematics).from_mapping(values)
    return Training(config, args.seed, _device(args.device))


def _device(name: str) -> str:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigurationError(f"unknown device {name!r}; use cpu or cuda", name)
    if device.type == "cuda":
        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not n_devices:
            raise ConfigurationError("this PyTorch sees no CUDA device; use --device cpu", name)
        if (device.index or 0) >= n_devices:
            raise ConfigurationError(f"there is no {name}; this PyTorch sees {n_devices} CUDA devices", name)
    return name
