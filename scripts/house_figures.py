"""Measure the structure of the code: modules, lines, import cycles, and files that one request uses.

    python scripts/house_figures.py [--flows]

Lines, modules, cycles and parameters are counted in the source without importing it. `--flows` runs one
`Sampler.sample`, one request of a running service, and one short `eim train`. This option counts files of the package
whose Python code runs in the meantime, except code that runs at import.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "eim_ros"
MAX_PARAMETERS = 8


def modules() -> dict[str, ast.Module]:
    """Parse every module of the package, and return the trees by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports_of(name: str, tree: ast.Module, known: Iterable[str]) -> set[str]:
    """Return the modules of the package that a module imports, including imports in functions and for type checking."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & set(known)) - {name}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other (strongly connected components, Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def import_graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the imports of each module. Packages do not count, because they only re-export names."""
    packages = {name for name in trees if any(other.startswith(f"{name}.") for other in trees)}
    leaves = set(trees) - packages
    return {name: imports_of(name, tree, leaves) for name, tree in trees.items() if name in leaves}


def long_signatures(trees: dict[str, ast.Module]) -> list[str]:
    """Return functions with more than eight parameters, without `self` and `cls`."""
    found = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([one for one in given if one.arg not in ("self", "cls")]) > MAX_PARAMETERS:
                    found.append(f"{name}.{node.name}")
    return found


@contextlib.contextmanager
def crossed_files() -> Iterator[set[str]]:
    """Collect files of the package whose code runs in the block, in this thread or in threads that the block starts."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            found.add(path)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def files_of_sample() -> set[str]:
    """Return the files of a default Python request. A first request imports and prepares everything."""
    from eim_ros.ik import Sampler
    from eim_ros.kinematics import Robot

    robot = Robot("panda")
    sampler = Sampler(robot)
    pose = robot.fk((robot.lower + robot.upper) / 2.0)
    sampler.sample(pose, 20)
    with crossed_files() as found:
        sampler.sample(pose, 20)
    return found


def files_of_training() -> set[str]:
    """Return the files of `eim train`: three iterations of EIM with kinematics on 500 samples."""
    from eim_ros.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        data, model = f"{folder}/data.npz", f"{folder}/model.safetensors"
        main(["collect", "--robot", "planar3", "--samples", "500", "--output", data])
        words = ["train", "--robot", "planar3", "--data", data, "--experts", "3", "--iterations", "3", "--quiet"]
        main([*words, "--output", f"{folder}/first.safetensors"])
        with crossed_files() as found:
            main([*words, "--output", model])
    return found


def files_of_service() -> set[str]:
    """Return the files of the node for one request, with client and server in this process."""
    import rclpy
    from geometry_msgs.msg import Pose
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.task import Future

    from eim_ros.kinematics import Robot, quaternion_from_matrix
    from eim_ros.nodes import SERVICE_QOS
    from eim_ros.nodes.common.interfaces import SampleIK
    from eim_ros.nodes.ik_server.node import IkServer

    rclpy.init(args=["--ros-args", "-p", "robot:=panda"])
    robot = Robot("panda")
    pose = robot.fk((robot.lower + robot.upper) / 2.0)
    request = SampleIK.Request(n_samples=20, timeout=5.0, poses=[Pose()])
    target = request.poses[0]
    target.position.x, target.position.y, target.position.z = pose[:3, 3].tolist()
    quaternion = quaternion_from_matrix(pose[:3, :3]).tolist()
    target.orientation.x, target.orientation.y, target.orientation.z, target.orientation.w = quaternion
    with crossed_files() as found:  # begin here, to include the worker threads of the node
        server = IkServer()
        client_node = rclpy.create_node("house_figures")
        client = client_node.create_client(SampleIK, "/ik_server/sample_ik", qos_profile=SERVICE_QOS)
        executor = SingleThreadedExecutor()
        executor.add_node(server)
        executor.add_node(client_node)
        try:
            is_started = server.start()
            if isinstance(is_started, Future):
                executor.spin_until_future_complete(is_started, timeout_sec=30.0)
            for _ in range(2):
                found.clear()
                future = client.call_async(request)
                executor.spin_until_future_complete(future, timeout_sec=30.0)
                answer = future.result()
                if answer is None or answer.solutions.n == 0:
                    raise SystemExit(f"the node did not answer: {answer}")
            crossed = set(found)
        finally:
            server.close()
            executor.shutdown()
            client_node.destroy_node()
            rclpy.shutdown()
    return crossed


FLOWS: dict[str, Callable[[], set[str]]] = {
    "files that `Sampler.sample` crosses": files_of_sample,
    "files that `eim train` crosses": files_of_training,
    "files that a service request crosses": files_of_service,
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flows", action="store_true", help="count the files that requests and a training cross")
    parser.add_argument("--verbose", action="store_true", help="print the items that are counted")
    args = parser.parse_args()
    trees = modules()
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py"))
    counted: dict[str, int | list[Any]] = {
        "installed lines of Python": lines,
        "modules": len(trees),
        "functions with more than 8 parameters": long_signatures(trees),
        "import cycles": cycles(import_graph(trees)),
    }
    for name, flow in FLOWS.items() if args.flows else ():
        counted[name] = sorted(str(Path(path).relative_to(ROOT)) for path in flow())
    for name, value in counted.items():
        print(f"{name}: {value if isinstance(value, int) else len(value)}")
        if args.verbose and not isinstance(value, int):
            print("\n".join(f"    {one}" for one in value))


if __name__ == "__main__":
    main()
