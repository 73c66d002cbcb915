"""The process of a node: start and end, command line, periodic work and Fast DDS profile.

`run_node` starts a node, spins it, and exits with code 0 on SIGINT and SIGTERM. If the node cannot start, the exit code
is 1. A bad parameter or a damaged model file is reported in one line on stderr.

`ros_arguments` accepts each parameter as a flag, such as `ik_server --model panda_pose`, and converts it to
`--ros-args -p NAME:=VALUE`. `PeriodicWork` runs timers that exist only while they are needed.

`use_own_profiles` selects a Fast DDS profile. Without this profile, clients on a busy computer can miss the services of
a node or its responses.
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

from eim_ros.core.errors import ConfigurationError, EimError, did_you_mean, shortened
from eim_ros.core.settings import Settings
from eim_ros.kinematics import share_path
from eim_ros.nodes.common.node import guarded
from eim_ros.nodes.common.service import reason_of

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LONGEST_END = 120  # [s] maximum time for a node to end its work
_LONGEST_DESTRUCTION = 10.0  # [s] maximum time for the destruction of a node; the middleware can hang on its own locks
_LONGEST_GOODBYE = 0.5  # [s] maximum time for the announcement that the node has left
ROS_ARGUMENTS = "--ros-args"
WIDTH = 100
PROFILES = "config/fastdds.xml"
PROFILES_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
TRANSPORTS_VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
TYPE_PROPAGATION = "fastdds.type_propagation"


class Startable(Protocol):
    """A `rclpy.node.Node` with additional methods for `run_node`."""

    def start(self) -> bool | Future:
        """Prepare to serve, and return whether this succeeded.

        On failure, the node logs the reason, and the process exits with code 1. A node that takes long to start uses
        another thread, and immediately returns a future of the result. Such a node can respond in the meantime.
        """

    def close(self, has_ended: Callable[[], object]) -> bool:
        """End all work, call `has_ended`, and destroy the node; return False if a thread is still busy."""


def run_node(name: str, make: Callable[[], Startable], args: list[str] | None = None, n_threads: int = 1) -> NoReturn:
    """Run a node until a signal arrives, then exit the process.

    `make` imports the module of the node and creates the node. The import takes seconds, so it must follow the
    installation of the signal handlers. `args` are passed to `rclpy.init`. `n_threads` is the number of threads of the
    executor.
    """
    signalled = _exit_on_first_signal()
    node: Startable | None = None
    status = 1
    try:
        if _initialise(name, args):
            # The executor is kept until the end, because a thread of rclpy uses it after a signal.
            executor = SingleThreadedExecutor() if n_threads == 1 else MultiThreadedExecutor(n_threads)
            node = make()
            started = node.start()
            if started is not False and _spin(node, executor, started):
                status = 0
    except SystemExit as leaving:  # a signal, or a node that has finished its task
        status = int(leaving.code or 0)
    except Exception as error:
        if not signalled.is_set():  # otherwise, the signal interrupted a call
            _complain(name, error)
    finally:
        # rclpy may shut down the context before the signal handler runs. The handler must not interrupt the end.
        status = 0 if signalled.is_set() else status
        signalled.set()
        _close(node, status)


def _exit_on_first_signal() -> threading.Event:
    """Make the first SIGINT or SIGTERM raise SystemExit. Return an event that the signal sets.

    The signal has this effect even while a model is being loaded. Further signals have no effect. `rclpy.init` installs
    another handler, which shuts down the context and then calls this handler. KeyboardInterrupt is not suitable: if it
    passes through code run by a C library, CPython kills the process by SIGINT, even if the exception is caught later.
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
        reason = shortened(" ".join(str(error).split()))
        remedy = ": set ROS_LOG_DIR to a writable folder" if "log directory" in reason else ""
        print(f"{name}: {reason}{remedy}", file=sys.stderr, flush=True)
        return False
    return True


def _spin(node: Any, executor: Executor, started: bool | Future) -> bool:
    """Spin until a signal arrives. Return False if the node fails to start."""
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
        except Exception as error:  # an error of rclpy's services or timers must not stop the node
            if rclpy.ok():
                node.get_logger().error(f"callback failed: {reason_of(error)}")
    return True


def _close(node: Startable | None, status: int) -> NoReturn:
    """Close the node and exit the process immediately.

    The process does not wait for a busy worker thread, because the compiled solver must not outlive the libraries that
    it uses. The process also skips the shutdown of the interpreter, which takes seconds with torch on a busy processor.
    This shutdown is not needed: all files are written, and the other nodes know that this node has left.
    """

    def exit_after(seconds: float) -> None:
        threading.Timer(seconds, os._exit, (status,)).start()

    signal.alarm(_LONGEST_END)  # kills the process if the shutdown hangs
    if node is None:
        gc.collect()  # destroys a node whose constructor has failed
    else:
        node.close(lambda: exit_after(_LONGEST_DESTRUCTION))  # Fast DDS can hang while it destroys the node
    exit_after(_LONGEST_GOODBYE)  # Fast DDS can also hang in the following calls
    rclpy.try_shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader may have closed the pipe
            stream.flush()
    os._exit(status)


def _complain(name: str, error: Exception) -> None:
    """Print one line if the user can fix the error, otherwise a traceback."""
    if isinstance(error, (EimError, ImportError)) or not rclpy.ok():
        print(f"{name}: {shortened(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(error)


def wants_help(words: Sequence[str]) -> bool:
    """Return whether the arguments of a node ask for help."""
    return any(word in ("-h", "--help") for word in _before_ros(words))


def ros_arguments(words: Sequence[str], kind: Callable[[], type[Settings]]) -> list[str]:
    """Replace parameter flags by the equivalent ROS arguments. Arguments after `--ros-args` stay the same.

    `words` are the arguments after the name of the program. `kind` returns the settings class. This function is called
    only if there is a flag. `ConfigurationError` is raised if a flag is not a parameter, or if its value is missing or
    wrong. For an unknown flag, the message suggests similar parameters.
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
    """Return the usage and a list of all parameters with their descriptions, units and defaults."""
    lines = [
        f"usage: {name} [--PARAMETER VALUE ...] [--ros-args ...]",
        "",
        f"The node {name}. Each parameter may be given as a flag, as `--ros-args -p NAME:=VALUE`, or in a file, as",
        f"`--ros-args --params-file config/{name}.yaml`. `ros2 param describe /{name} NAME` describes one parameter.",
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
    """Return the value of a flag as YAML of the parameter's type. A boolean flag without a value means true."""
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
    """Timers of a node in wall time. The timers exist only while they are switched on.

    Therefore, they cause no load while the node is idle. `periods` contains the period of each function [s]. Exceptions
    of a function are logged.
    """

    def __init__(self, node: Node, periods: Mapping[Callable[[], None], float]) -> None:
        self._node = node
        self._periods = dict(periods)
        self._timers: list[Timer] = []

    @property
    def is_on(self) -> bool:
        """Whether the timers are running."""
        return bool(self._timers)

    def start(self) -> None:
        """Start the timers, unless they are already running."""
        if self._timers:
            return
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timers = [
            self._node.create_timer(period, guarded(self._node, work), clock=clock)
            for work, period in self._periods.items()
        ]

    def stop(self) -> None:
        """Stop the timers. The functions of the timers may call this method too."""
        timers, self._timers = self._timers, []
        for timer in timers:
            self._node.destroy_timer(timer)


def use_own_profiles(environment: MutableMapping[str, str] = os.environ, *, shared_memory: bool = False) -> None:
    """Select the Fast DDS profile `PROFILES` for this process, unless the user has set one.

    The process uses only UDP, unless `shared_memory` is true or the user has chosen the transports.
    `benchmarks/service_load.py one_shot` compares a server with and without the profile.

    Types: Fast DDS 3 (Kilted) requests the type description of each endpoint that it discovers, and ignores the
    endpoint until the description arrives. If many processes start at the same time, requests or replies of this
    exchange are lost and not repeated. A client then discovers the node, but never its service. The profile disables
    the exchange, because ROS 2 nodes know their types.

    Heartbeats: a client requests a lost response again when a heartbeat shows that it is missing. By default, the next
    heartbeat may come 3 s later. In this time, newer responses can fill the queue of the client, which has a default
    depth of 10. With the profile, heartbeats are sent after 50 ms, and only while a response is unconfirmed.

    Transport: with shared memory, Fast DDS 3.2.3 can deadlock while processes start and stop (Fast DDS issue 6502).
    Therefore, the nodes use UDP with larger socket buffers, up to net.core.rmem_max. The recorder keeps shared memory,
    because it receives the messages of other nodes.
    """
    if any(environment.get(name) for name in PROFILES_VARIABLES):
        return
    environment[PROFILES_VARIABLES[0]] = str(share_path(PROFILES))
    if not shared_memory and not environment.get(TRANSPORTS_VARIABLE):
        environment[TRANSPORTS_VARIABLE] = "UDPv4"
