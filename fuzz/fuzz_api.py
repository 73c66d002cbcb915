#!/usr/bin/env python3
"""Malformed calls of the public Python API: each works, or is refused by an error of the package.

    python fuzz/fuzz_api.py --seed 0 --count 10000

Each call is drawn from its seed and its number alone, so `--seed 0 --only 4711` repeats one and shows its traceback. A
warning counts as a foreign exception, and so does the plain `TypeError` of a wrong keyword where the function takes
keywords of its own (`**options`); Python's own refusal of a keyword of a plain signature does not.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from malformed_values import damaged, malformed, varied

from eim_ros.core.errors import EimError
from eim_ros.ik import (
    CapabilityGrid,
    CapabilityMap,
    Completeness,
    Constraints,
    LinkOrientation,
    LinkPosition,
    Posture,
    Sampler,
    SampleRequest,
    sample_batch,
    sample_path,
    stream_batch,
)
from eim_ros.ik.capability import survey
from eim_ros.ik.components import families
from eim_ros.kinematics import (
    Box,
    Capsule,
    CollisionOptions,
    Cylinder,
    Mesh,
    PointCloud,
    Robot,
    Sphere,
    context_from_pose,
    pose_from,
    pose_from_context,
    quaternion_from_matrix,
    robot_path,
    share_path,
)
from eim_ros.kinematics.collision import collisions
from eim_ros.kinematics.robot import tool_from, with_tool

__all__ = ["Outcome", "Tally", "calls", "run", "tally"]

KEYWORDS = ("q0", "seed", "limits", "rpy", "joint_limits", "start", "num_samples", "n", "pose", "tol", "timeout_s", "")
WRITERS = ("CapabilityMap.save", "survey")
SHORT = {"n": 2, "random_seed": 0, "timeout": 0.01}
REFUSED_BY_PYTHON = ("unexpected keyword argument", "required positional argument", "multiple values for argument")

Call = tuple[Callable[..., Any], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What came of one call.

    `kind` is "answered", "refused" by an `EimError`, "python" of a wrong number of arguments, "system" of a file that
    could not be written, or "foreign".
    """

    number: int
    call: str
    kind: str
    where: str = ""
    told: str = ""


@dataclass(frozen=True)
class Tally:
    """How many calls came out how, and all foreign exceptions."""

    counts: collections.Counter[str]
    foreign: list[Outcome]


@functools.cache
def calls() -> dict[str, Call]:
    """Public calls by name, with arguments that are right."""
    planar, panda = Robot.load("planar3"), Robot.load("panda")
    plain, learned, seven = Sampler.of(planar), Sampler.load("panda_pose"), Sampler.of(panda)
    q, q7 = np.array([0.3, 0.4, 0.5]), 0.5 * (panda.lower + panda.upper)
    pose, pose7, poses = planar.fk(q), panda.fk(q7), planar.fk(q + np.arange(3.0)[:, None] / 9.0)
    joint, rng, tool = planar.joint_names[0], np.random.default_rng(0), np.eye(4)
    grid = {"lower": (-0.5, -0.5, -0.1), "upper": (0.5, 0.5, 0.1), "spacing": 0.4, "n_approaches": 2, "n_rolls": 1}
    cells = CapabilityGrid(**grid)
    capability = CapabilityMap.of("planar3", cells, np.zeros((cells.n_poses, 4), dtype=np.float32))
    triangles = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    request = {
        "near": q,
        "order": {"distance": 1.0, "limits": 0.5},
        "position_only": True,
        "refine": True,
        "distinct": True,
        "position_tolerance": 1e-6,
        "orientation_tolerance": 1e-6,
        "explore": 0.5,
        "posture": {joint: 0.1},
        "until": Completeness(0.9, 0.1),
        "separation": 0.5,
        "distribution": "uniform",
        "temperature": 1.0,
        "certified": False,
        "constraints": Constraints({joint: (-1.0, 1.0)}, {planar.joint_names[1]: 0.4}),
    }
    asked = {"position_only": True, "tolerances": [0.01] * 6, "position_tolerance": 1e-6, "orientation_tolerance": 1e-6}
    limits = {"lower": planar.lower * 0.9, "upper": planar.upper * 0.9}
    constraints = {
        "limits": {joint: (-1.0, 1.0)},
        "fixed": {planar.joint_names[1]: 0.4},
        "self_collision": False,
        "obstacles": [Sphere([5.0, 5.0, 5.0], 0.1)],
        "tolerances": [0.01] * 6,
        "links": [],
        "clearance": 0.0,
    }
    quiet = {**SHORT, "position_only": True}
    sampled = functools.partial(plain.sample, pose, **quiet)
    bounded = functools.partial(Constraints, links=())
    return {
        "Robot.load": (Robot.load, {"name_or_path": "planar3", "base": None, "tip": None, "collision": None}),
        "Robot.from_urdf": (
            Robot.from_urdf,
            {"source": planar.urdf, "base": planar.base_link, "tip": planar.tip_link, "collision": CollisionOptions()},
        ),
        "Robot.forward": (planar.forward, {"q": q}),
        "Robot.fk": (panda.fk, {"q": q7}),
        "Robot.jacobian": (planar.jacobian, {"q": q}),
        "Robot.manipulability": (planar.manipulability, {"q": q, "position_only": True}),
        "Robot.skeleton": (planar.skeleton, {"q": q}),
        "Robot.within_limits": (planar.within_limits, {"q": q, "tolerance": 0.1}),
        "Robot.random_configuration": (planar.random_configuration, {"rng": rng}),
        "Robot.sample_configurations": (planar.sample_configurations, {"n": 2, "rng": rng}),
        "Robot.closed_form_holding": (panda.closed_form_holding, {"joint": 6}),
        "Robot.pose_errors": (planar.pose_errors, {"q": q, "pose": pose, "tolerances": None}),
        "Robot.verify": (planar.verify, {"q": q, "pose": pose, **asked, **limits}),
        "Robot.refine": (
            planar.refine,
            {"seeds": q, "pose": pose, "max_iterations": 3, "patience": 2, **asked, **limits},
        ),
        "Robot.solve": (planar.solve, {"pose": pose, "rng": rng, "max_restarts": 2, **asked, **limits}),
        "Robot.solve of seven joints": (panda.solve, {"pose": pose7, "rng": rng, "max_restarts": 2}),
        "Robot.solve_many": (planar.solve_many, {"poses": poses, "rng": rng, "max_restarts": 2, **asked}),
        "Robot.spread": (
            planar.spread,
            {"solutions": q, "pose": pose, "n": 2, "rng": rng, "step": 0.4, "finest": None, **asked},
        ),
        "Robot.descend": (planar.descend, {"solutions": q, "pose": pose, "preferred": q, "weights": np.ones(3)}),
        "Sampler": (Sampler, {"model": None}),
        "Sampler.of": (Sampler.of, {"robot": "planar3", "base": None, "tip": None}),
        "Sampler.load": (Sampler.load, {"model": "panda_position", "robot": None, "base": None, "tip": None}),
        "Sampler.with_tool": (lambda tool: plain.with_tool(tool).sample(pose, **quiet), {"tool": tool}),
        "Sampler.with_collision": (plain.with_collision, {"options": CollisionOptions()}),
        "Sampler.among": (
            lambda obstacles: plain.among(obstacles).sample(pose, **quiet),
            {"obstacles": [Sphere([0.3, 0.0, 0.0], 0.1)]},
        ),
        "Sampler.answer": (plain.answer, {"request": SampleRequest(pose, **quiet)}),
        "Sampler.sample": (plain.sample, {"pose": pose, **quiet, **request}),
        "Sampler.sample of a pose": (plain.sample, {"pose": pose, **quiet}),
        "Sampler.sample of a pair": (plain.sample, {"pose": ([0.5, 0.1, 0.2], [0.0, 0.0, 0.0, 1.0]), **quiet}),
        "Sampler.sample of a position": (plain.sample, {"pose": [0.5, 0.1, 0.0], **SHORT}),
        "Sampler.sample of seven numbers": (plain.sample, {"pose": [0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 1.0], **SHORT}),
        "Sampler.sample by a model": (learned.sample, {"pose": pose7, **SHORT, "near": q7, "explore": 0.0}),
        "Sampler.sample of seven joints": (
            seven.sample,
            {
                "pose": pose7,
                **SHORT,
                "separation": 0.5,
                "explore": 1.0,
                "near": q7,
                "posture": {panda.joint_names[0]: 0.1},
            },
        ),
        "Sampler.sample raw": (learned.sample, {"pose": pose7, **SHORT, "refine": False}),
        "Sampler.sample certified": (learned.sample, {"pose": pose7, **SHORT, "certified": True}),
        "Sampler.sample a distribution": (
            learned.sample,
            {"pose": pose7, **SHORT, "distribution": lambda rows: np.zeros(len(rows)), "temperature": 2.0},
        ),
        "SampleRequest": (lambda **given: plain.answer(SampleRequest(**given)), {"pose": pose, **quiet, **request}),
        "sample_batch": (sample_batch, {"sampler": plain, "poses": poses, "n_threads": 1, **quiet}),
        "sample_batch of a model": (
            sample_batch,
            {"sampler": learned, "poses": np.array([pose7, pose7]), "n_threads": 1, **SHORT, "near": q7},
        ),
        "sample_batch of seven joints": (
            sample_batch,
            {
                "sampler": seven,
                "poses": panda.fk(q7 + np.arange(3.0)[:, None] / 9.0),
                "n_threads": 1,
                **SHORT,
                "order": None,
            },
        ),
        "stream_batch": (stream_batch, {"sampler": plain, "poses": poses, "block": 2, "n_threads": 1, **quiet}),
        "sample_path": (
            sample_path,
            {"sampler": plain, "poses": poses, "near": q, "largest_step": 0.3, **quiet, "constraints": None},
        ),
        "Constraints": (lambda **given: sampled(constraints=Constraints(**given)), constraints),
        "Constraints.limits": (lambda ends: sampled(constraints=bounded({joint: ends})), {"ends": (-1.0, 1.0)}),
        "Constraints.check": (Constraints().check, {"robot": planar}),
        "LinkPosition": (
            lambda **given: sampled(constraints=Constraints(links=[LinkPosition(**given)])),
            {"link": planar.tip_link, "region": [Sphere([0.0, 0.0, 0.0], 5.0)], "point": [0.0, 0.0, 0.1]},
        ),
        "LinkOrientation": (
            lambda **given: sampled(constraints=Constraints(links=[LinkOrientation(**given)])),
            {"link": planar.tip_link, "rotation": np.eye(3), "tolerances": [3.0, 3.0, 3.0], "axes": np.eye(3)},
        ),
        "Posture": (
            lambda **given: sampled(posture=Posture(**given)),
            {"positions": {joint: 0.1}, "weights": {joint: 1.0}},
        ),
        "Completeness": (
            lambda **given: seven.sample(pose7, **SHORT, until=Completeness(**given)),
            {"confidence": 0.9, "missed_share": 0.1},
        ),
        "CapabilityGrid": (
            lambda **given: CapabilityGrid(**given).poses(0, 2),
            {**grid, "n_seeds": 2, "random_seed": 0},
        ),
        "CapabilityGrid.around": (CapabilityGrid.around, {"robot": planar, "spacing": 0.2, "n_rolls": 2}),
        "CapabilityGrid.from_mapping": (CapabilityGrid.from_mapping, {"values": cells.to_mapping()}),
        "CapabilityMap.at": (capability.at, {"position": [0.1, 0.1, 0.0], "approach": [0.0, 0.0, 1.0], "angle": 0.3}),
        "CapabilityMap.save": (capability.save, {"path": "map.npz"}),
        "CapabilityMap.load": (CapabilityMap.load, {"path": "none.npz"}),
        "survey": (
            survey,
            {"robot": planar, "grid": CapabilityGrid(**grid, n_seeds=1), "output": "survey.npz"},
        ),
        "families": (
            families,
            {"robot": planar, "solutions": q, "pose": pose, "position_only": True, "spacing": 0.3, "random_seed": 0},
        ),
        "collisions": (
            collisions,
            {
                "robot": planar,
                "q": q,
                "obstacles": [Box(tool, [0.1, 0.1, 0.1])],
                "self_collision": True,
                "clearance": 0.0,
            },
        ),
        "Box": (
            lambda **given: sampled(constraints=bounded(obstacles=[Box(**given)])),
            {"pose": tool, "size": [1, 1, 1]},
        ),
        "Sphere": (
            lambda **given: sampled(constraints=bounded(obstacles=[Sphere(**given)])),
            {"centre": [0.0, 0.0, 3.0], "radius": 1.0, "name": "ball"},
        ),
        "Cylinder": (
            lambda **given: sampled(constraints=bounded(obstacles=[Cylinder(**given)])),
            {"pose": tool, "radius": 1.0, "length": 1.0, "name": ""},
        ),
        "Capsule": (
            lambda **given: sampled(constraints=bounded(obstacles=[Capsule(**given)])),
            {"pose": tool, "radius": 1.0, "length": 1.0},
        ),
        "Mesh": (
            lambda **given: sampled(constraints=bounded(obstacles=[Mesh(**given)])),
            {"pose": tool, "vertices": triangles, "faces": faces, "convex": False, "name": ""},
        ),
        "Mesh.load": (Mesh.load, {"path": "none.stl", "pose": tool, "scale": 1.0, "convex": False}),
        "PointCloud": (
            lambda **given: sampled(constraints=bounded(obstacles=[PointCloud(**given)])),
            {"points": [[0.0, 0.0, 3.0], [1.0, 0.0, 3.0]], "radius": 0.1, "pose": tool, "resolution": 0.1},
        ),
        "CollisionOptions": (
            lambda **given: plain.with_collision(CollisionOptions(**given)).sample(
                pose, **quiet, constraints=bounded(self_collision=True)
            ),
            {"meshes": "none", "package_paths": (), "srdf": ""},
        ),
        "pose_from": (pose_from, {"position": [0.1, 0.0, 0.0], "quaternion_xyzw": [0.0, 0.0, 0.0, 1.0], "rpy": None}),
        "pose_from angles": (pose_from, {"position": [0.1, 0.0, 0.0], "rpy": [0.1, 0.2, 0.3]}),
        "context_from_pose": (context_from_pose, {"transform": pose, "kind": "pose"}),
        "pose_from_context": (pose_from_context, {"context": np.arange(9.0)}),
        "quaternion_from_matrix": (quaternion_from_matrix, {"rotation": np.eye(3)}),
        "with_tool": (with_tool, {"robot": planar, "tool": tool}),
        "tool_from": (tool_from, {"numbers": [0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]}),
        "robot_path": (robot_path, {"name_or_path": "panda"}),
        "share_path": (share_path, {"relative": "urdf/panda.urdf"}),
    }


def drawn(seed: int, number: int) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """One call with something wrong in its arguments."""
    rng = np.random.default_rng((seed, number))
    name = list(calls())[int(rng.integers(len(calls())))]
    call, right = calls()[name]
    arguments = {key: value for key, value in right.items() if rng.integers(20) or len(right) < 3}
    if name == "Sampler.sample" or name == "SampleRequest":  # few of its options go together
        kept = [str(key) for key in rng.permutation(list(right))[: rng.integers(1, 6)]]
        arguments = {key: value for key, value in right.items() if key in ("pose", *SHORT, *kept)}
    arguments = {key: value if rng.integers(4) else varied(value, rng) for key, value in arguments.items()}
    for _ in range(int(rng.integers(3)) if len(arguments) > 1 else 1):
        if arguments:
            key = list(arguments)[int(rng.integers(len(arguments)))]
            arguments[key] = damaged(arguments[key], rng) if rng.integers(3) else malformed(rng)
    if not rng.integers(20):
        arguments[KEYWORDS[int(rng.integers(len(KEYWORDS)))]] = malformed(rng)
    return name, call, arguments


def tried(seed: int, number: int) -> Outcome:
    """Make one call and tell what came of it."""
    name, call, arguments = drawn(seed, number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = call(**arguments)
            for _ in itertools.islice(answer, 3) if isinstance(answer, Iterator) else ():
                pass
    except EimError as error:
        return Outcome(number, name, "refused", told=str(error))
    except Exception as error:
        if isinstance(error, TypeError) and any(words in str(error) for words in REFUSED_BY_PYTHON):
            return Outcome(number, name, "python", told=str(error))
        if isinstance(error, OSError) and name in WRITERS:  # such as a folder in the place of the file
            return Outcome(number, name, "system", told=str(error))
        steps = traceback.extract_tb(error.__traceback__)
        own = [step for step in steps if f"{os.sep}eim_ros{os.sep}" in step.filename] or steps[-1:]
        where = f"{own[-1].filename.rpartition(os.sep)[2]}:{own[-1].lineno}"
        return Outcome(number, name, "foreign", where, f"{type(error).__name__}: {error}"[:200])
    return Outcome(number, name, "answered")


def run(seed: int, numbers: range) -> Iterator[Outcome]:
    """Make calls, in a folder of their own: some of them write files."""
    calls()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number in numbers:
                yield tried(seed, number)
        finally:
            os.chdir(before)


def tally(seed: int, numbers: range) -> Tally:
    """Make calls and count."""
    outcomes = list(run(seed, numbers))
    return Tally(
        collections.Counter(outcome.kind for outcome in outcomes),
        [outcome for outcome in outcomes if outcome.kind == "foreign"],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", type=int, help="the number of one call, which is made without a net")
    parser.add_argument("--slow", type=float, default=2.0, help="name calls that take longer [s]")
    asked = parser.parse_args()
    if asked.only is not None:
        name, call, arguments = drawn(asked.seed, asked.only)
        print(name, arguments)
        warnings.simplefilter("error")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            answer = call(**arguments)
            print(list(itertools.islice(answer, 3)) if isinstance(answer, Iterator) else answer)
        return 0
    began = before = now = time.perf_counter()
    counts: collections.Counter[str] = collections.Counter()
    foreign: dict[str, list[Outcome]] = collections.defaultdict(list)
    for outcome in run(asked.seed, range(asked.count)):
        counts[outcome.kind] += 1
        if outcome.kind == "foreign":
            foreign[outcome.where].append(outcome)
        now = time.perf_counter()
        if now - before > asked.slow:
            print(f"slow: call {outcome.number} of {outcome.call} took {now - before:.1f} s", flush=True)
        before = now
    for where, outcomes in sorted(foreign.items(), key=lambda entry: -len(entry[1])):
        first = outcomes[0]
        print(f"{len(outcomes):4d} x {where}  call {first.number} of {first.call}: {first.told}")
    print(
        f"seed {asked.seed}: {asked.count} calls in {now - began:.0f} s: {counts['answered']} answered, "
        f"{counts['refused']} refused by an EimError, {counts['python']} refused by Python as calls, "
        f"{counts['system']} files not written, "
        f"{counts['foreign']} foreign exceptions"
    )
    return 1 if counts["foreign"] else 0


if __name__ == "__main__":
    sys.exit(main())
