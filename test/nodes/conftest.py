"""Fixtures of the ROS tests: a separate domain, a small model, processes of nodes, and a client in this process."""

from __future__ import annotations

import importlib
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from nodes.client_node import ClientNode
from nodes.models import save_small_model
from nodes.server_process import ServerProcess

from eim_ros.nodes.common.domain import TEST_DOMAINS, own_domain

WITH_FILES = ("demo_recorder", "fk_collector", "ik_server", "motion_prior_server", "trainer", "training_coordinator")


@pytest.fixture(scope="session", autouse=True)
def ros_environment() -> Iterator[None]:
    """Use only this machine, an unused domain, and rclpy's field checks. The servers inherit these settings."""
    with own_domain(TEST_DOMAINS) as domain, pytest.MonkeyPatch.context() as patch:
        values = {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_PYTHON_CHECK_FIELDS": "1",
            "FASTDDS_DEFAULT_PROFILES_FILE": str(Path(__file__).with_name("discovery.xml")),
        }
        for name, value in values.items():
            patch.setenv(name, value)
        with warnings.catch_warnings():  # lark, which rosidl imports, imports a deprecated module
            warnings.simplefilter("ignore", DeprecationWarning)
            importlib.import_module("rosidl_generator_py")
        rclpy.init()
        yield
        rclpy.try_shutdown()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small mixture of experts for positions of the iiwa."""
    return save_small_model(tmp_path_factory.mktemp("models") / "iiwa14.safetensors", "iiwa14", "position")


@pytest.fixture(scope="module")
def start_server(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Return a function that starts a node with parameters, by default `ik_server` with the small model.

    After the tests of a file, nodes that are still running are interrupted. They must exit with code 0.
    """
    folder = tmp_path_factory.mktemp("logs")
    servers: list[ServerProcess] = []

    def start(*arguments: str, node: str = "ik_server", **parameters: Any) -> ServerProcess:
        given = {"model": model, **parameters} if node == "ik_server" else parameters
        if node in WITH_FILES:  # allow paths in temporary folders
            given = {"data_directory": tmp_path_factory.getbasetemp(), **given}
        server = ServerProcess(folder / f"{len(servers)}.log", given, arguments, node)
        servers.append(server)
        return server

    yield start
    running = [server for server in servers if server.is_running]
    try:
        for server in running:
            server.signal(signal.SIGINT)
        for server in running:
            assert server.wait() == 0, server.log
    finally:
        for server in servers:
            server.kill()


@pytest.fixture(scope="module")
def client_of_file(ros_environment: None) -> Iterator[ClientNode]:
    node = ClientNode(f"test_client_{os.getpid()}")
    yield node
    node.destroy()


@pytest.fixture
def client(client_of_file: ClientNode) -> ClientNode:
    """Return a client of /ik_server in this process. The tests of a file share it, because discovery takes time."""
    client_of_file.waits_for_start = True
    return client_of_file
