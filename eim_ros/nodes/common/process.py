"""The process of a node: starts it, spins, ends cleanly (exit code 0) on SIGINT and SIGTERM.

Exit code 1 with one line on stderr where it cannot start: an unknown or bad parameter, or something the node needs and
refuses, such as a damaged model file.

The command line of a node for people: `ik_server --help`, and `ik_server --model panda_pose` for a parameter.

ROS takes parameters as `--ros-args -p NAME:=VALUE`. A flag of a parameter's name is turned into that; what follows
`--ros-args` is left as it is.

Work that is done again and again while it is switched on; switched off it costs an idle node nothing.

Settings of Fast DDS without which clients of a busy computer can miss a node's services, or answers.

Types. Fast DDS 3 (Kilted) requests the type description of each endpoint that it discovers, and ignores the endpoint
until the description arrives. If many processes start at the same time, requests or replies get lost and are not
repeated: a client then sees the node, but never its service. ROS 2 nodes know their types, so the profile disables the
exchange.

Heartbeats. A client requests a lost answer again when a heartbeat shows that it is missing. By default that takes up to
3 s, in which newer answers can fill the queue of a client with the default depth of 10. The profile sends heartbeats
after 50 ms, and only while an answer is unconfirmed.

Transport. With shared memory, Fast DDS 3.2.3 can deadlock while processes come and go (its issue 6502). So nodes use
UDP with larger socket buffers, as far as the system allows them (net.core.rmem_max). The recorder receives messages of
other nodes, and keeps shared memory.

`benchmarks/service_load.py one_shot` compares a server with and without the profile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol

import rclpy
import yaml
from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor, ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from rclpy.timer import Timer

from eim_ros.core.errors import ConfigurationError, EimError, did_you_mean
from eim_ros.core.settings import Settings
from eim_ros.kinematics import share_path
from eim_ros.nodes.common.node import guarded

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LONGEST_END = 120  # [s]; Fast DDS can hang while it says goodbye


class Startable(Protocol):
    """A node as `run_node` needs it; beside what is here it is a `rclpy.node.Node`."""

    def start(self) -> bool | Future:
        """Get ready to serve; False, with the reason in the log, ends the process with exit code 1.

        What takes long is done on a thread, so that the node answers meanwhile: then a future comes back at once, which
        will hold the same.
        """

    def end(self, timeout: float) -> bool:
        """End all work; False when something still goes on after `timeout` [s]."""

    def close(self) -> bool:
        """End all work and destroy the node; False when a thread is still busy, which is then not waited for."""


def run_node(name: str, make: Callable[[], Startable], args: list[str] | None = None, n_threads: int = 1) -> NoReturn:
    """Run a node until a signal; the process ends with it.

    Parameters
    ----------
    name : str
        Of the process, for its complaints.
    make : callable
        Imports the module of the node and makes it: imports take seconds, in which a signal may come.
    args : list of str, optional
        As for `rclpy.init`.
    n_threads : int
        Of the executor.
    """
    signalled = _exit_on_first_signal()
    node: Startable | None = None
    status = 1
    try:
        if _initialise(name, args):
            executor = _executor(n_threads)  # until the end: on a signal a thread of rclpy's still touches what it has
            node = make()
            started = node.start()
            if started is not False and _spin(node, executor, started):
                status = 0
    except SystemExit as leaving:  # a signal, or a node that has done what it was started for
        status = int(leaving.code or 0)
    except Exception as error:
        if not signalled.is_set():  # else the error comes from a call that the signal cut short
            _complain(name, error)
    finally:
        _close(node, 0 if signalled.is_set() else status)


def _exit_on_first_signal() -> threading.Event:
    """Let the first SIGINT or SIGTERM raise SystemExit, also while a model is loaded, and set the event.

    Further ones do nothing. rclpy's own handler, installed by init, shuts the context down and then calls this one. Not
    KeyboardInterrupt: when that passes through code run by a C library, CPython ends the process by SIGINT even if it
    is caught afterwards.
    """
    signalled = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        if not signalled.is_set():
            signalled.set()
            raise SystemExit(0)

    for number in SIGNALS:
        signal.signal(number, leave)
    return signalled


def _initialise(name: str, args: list[str] | None) -> bool:
    try:
        rclpy.init(args=args)
    except Exception as error:  # rclpy has a private class for each kind of bad argument
        _complain(name, error)
        return False
    return True


def _executor(n_threads: int) -> Executor:
    return SingleThreadedExecutor() if n_threads == 1 else MultiThreadedExecutor(n_threads)


def _spin(node: Any, executor: Executor, started: bool | Future) -> bool:
    """Serve until a signal; False as soon as the node has not started."""
    executor.add_node(node)
    while rclpy.ok():
        try:
            if isinstance(started, Future):
                executor.spin_until_future_complete(started)
                started = not started.done() or bool(started.result())
            if not started:
                return False
            executor.spin()
        except ExternalShutdownException:
            break
        except Exception as error:  # of one of rclpy's own services or timers: keep serving
            if rclpy.ok():
                node.get_logger().error(f"callback failed: {type(error).__name__}: {error}")
    return True


def _close(node: Startable | None, status: int) -> NoReturn:
    """End everything, and the process at once.

    A worker that does not come back is not waited for: the compiled solver must not outlive the libraries it uses. And
    what the interpreter does at its end, which takes torch seconds where the processor is busy, helps nobody: files are
    written, and other nodes have been told that this one has gone.
    """
    signal.alarm(_LONGEST_END)  # kills the process
    if node is None:
        gc.collect()  # of what was made of one before it failed
    else:
        node.close()
    rclpy.try_shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who read them has gone
            stream.flush()
    os._exit(status)


def _complain(name: str, error: Exception) -> None:
    """One line for what a user can mend, a traceback for anything else."""
    if isinstance(error, (EimError, ImportError)) or not rclpy.ok():
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(error)


ROS_ARGUMENTS = "--ros-args"
WIDTH = 100


def wants_help(words: Sequence[str]) -> bool:
    """Whether the words of a node ask for its help."""
    return any(word in ("-h", "--help") for word in _before_ros(words))


def ros_arguments(words: Sequence[str], kind: Callable[[], type[Settings]]) -> list[str]:
    """The same words with flags of parameters as ROS takes them.

    Parameters
    ----------
    words : sequence of str
        What follows the name of the program.
    kind : callable
        Gives the settings of which the fields are the parameters; only called where there is a flag.

    Raises
    ------
    ConfigurationError
        For a flag that is no parameter, with those that are like it, or that lacks its value.
    """
    given = _before_ros(words)
    if not any(word.startswith("--") for word in given):
        return list(words)
    fields = {field.name: field for field in dataclasses.fields(kind())}
    own: list[str] = []
    parameters: list[str] = []
    rest = iter(given)
    for word in rest:
        if not word.startswith("--"):
            own.append(word)
            continue
        flag, equals, text = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if name not in fields:
            flags = [f"--{field}" for field in fields]
            raise ConfigurationError(f"there is no parameter {flag}{did_you_mean(flag, flags)} (see --help)", flag)
        parameters += ["-p", f"{name}:={_value(fields[name], flag, text if equals else None, rest)}"]
    added = [ROS_ARGUMENTS, *parameters] if parameters else []
    return [*own, *added, *words[len(given) :]]


def help_text(name: str, kind: type[Settings]) -> str:
    """Usage and all parameters, with their meanings, units and defaults."""
    lines = [
        f"usage: {name} [--PARAMETER VALUE ...] [--ros-args ...]",
        "",
        f"The node {name}. Each parameter may be given as a flag, as `--ros-args -p NAME:=VALUE`, or in a file, as",
        f"`--ros-args --params-file config/{name}.yaml`. `ros2 param describe /{name} NAME` tells the same of one.",
        "",
        "parameters:",
    ]
    for field in dataclasses.fields(kind):
        unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
        choices = f" One of {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
        shown = list(field.default) if isinstance(field.default, tuple) else field.default
        meaning = f"{field.metadata['description']}{unit}{choices} Default {json.dumps(shown)}."
        indent = "      "
        lines.append(f"  --{field.name}")
        lines.append(textwrap.fill(meaning, WIDTH, initial_indent=indent, subsequent_indent=indent))
    return "\n".join(lines)


def _before_ros(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index(ROS_ARGUMENTS)] if ROS_ARGUMENTS in words else words


def _value(field: dataclasses.Field[Any], flag: str, text: str | None, rest: Iterator[str]) -> str:
    """The value of a flag as YAML of the parameter's type; a flag of a truth value may do without."""
    if text is None:
        text = "true" if isinstance(field.default, bool) else next(rest, None)
    if text is None:
        raise ConfigurationError(f"{flag} needs a value (see --help)", flag)
    if isinstance(field.default, str):
        return json.dumps(text)
    if isinstance(field.default, tuple):
        words = yaml.safe_load(text) if text.startswith("[") else text.replace(",", " ").split()
        return json.dumps(words)
    try:
        return json.dumps(float(text)) if isinstance(field.default, float) else text
    except ValueError as error:
        raise ConfigurationError(f"{flag} must be a number, got {text!r}", text) from error


class PeriodicWork:
    """Timers of a node, in wall time.

    Parameters
    ----------
    node : Node
    periods : mapping of callable to float
        What is done, and the time between two times [s]; what it raises is logged.
    """

    def __init__(self, node: Node, periods: Mapping[Callable[[], None], float]) -> None:
        self._node = node
        self._periods = dict(periods)
        self._timers: list[Timer] = []

    @property
    def is_on(self) -> bool:
        """Whether it is switched on."""
        return bool(self._timers)

    def start(self) -> None:
        """Switch on, unless it is."""
        if self._timers:
            return
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timers = [
            self._node.create_timer(period, guarded(self._node, work), clock=clock)
            for work, period in self._periods.items()
        ]

    def stop(self) -> None:
        """Switch off, also from within the work."""
        timers, self._timers = self._timers, []
        for timer in timers:
            self._node.destroy_timer(timer)


PROFILES = "config/fastdds.xml"
PROFILES_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
TRANSPORTS_VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
TYPE_PROPAGATION = "fastdds.type_propagation"


def use_own_profiles(environment: MutableMapping[str, str] = os.environ, *, shared_memory: bool = False) -> None:
    """Make new participants of this process use `PROFILES`, unless the user has set a profile.

    They use UDP only unless `shared_memory` is true, or the user has chosen transports.
    """
    if any(environment.get(name) for name in PROFILES_VARIABLES):
        return
    environment[PROFILES_VARIABLES[0]] = str(share_path(PROFILES))
    if not shared_memory and not environment.get(TRANSPORTS_VARIABLE):
        environment[TRANSPORTS_VARIABLE] = "UDPv4"
