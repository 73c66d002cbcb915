#!/usr/bin/env python3
"""Fuzz the public Python API with malformed calls. Each call must succeed or raise an error of the package.

    python fuzz/fuzz_api.py --seed 0 --count 10000

A call depends only on the seed and its number. `--seed 0 --only 4711` repeats call 4711 and prints its traceback.

A warning counts as a foreign exception. A plain `TypeError` for an unknown keyword also counts if the function accepts
`**options`. It does not count if Python rejects the keyword because the signature lacks it.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import math
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
    base_grid,
    place_base,
    self_motion_components,
)
from eim_ros.ik.capability import survey
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
    refine,
    robot_path,
    share_path,
    spread,
)
from eim_ros.kinematics.collision import collisions
from eim_ros.kinematics.robot import tool_from

__all__ = ["Outcome", "Tally", "calls", "run", "tally"]

KEYWORDS = ("q0", "seed", "limits", "rpy", "joint_limits", "start", "num_samples", "n", "pose", "tol", "timeout_s", "")
WRITERS = ("CapabilityMap.save", "survey")
LONGEST_WAIT = 1.0  # [s]
BRIEF: dict[str, Any] = {"seed": 0, "timeout": 0.01}
SHORT: dict[str, Any] = {"n": 2, **BRIEF}
MANY_OPTIONS = ("Sampler.sample", "Sampler.sample of seven joints")  # only some combinations of options are valid
REFUSED_BY_PYTHON = ("unexpected keyword argument", "required positional argument", "multiple values for argument")

Call = tuple[Callable[..., Any], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """Outcome of one call.

    `kind` is "answered", "refused" (an `EimError` was raised), "python" (Python rejected wrong arguments), "system" (a
    file could not be written) or "foreign" (any other exception was raised).
    """

    number: int
    call: str
    kind: str
    where: str = ""
    told: str = ""


@dataclass(frozen=True)
class Tally:
    """Number of calls with each outcome, and all foreign exceptions."""

    counts: collections.Counter[str]
    foreign: list[Outcome]


@functools.cache
def calls() -> dict[str, Call]:
    """Return public calls by name, with valid arguments."""
    planar, panda, arm = Robot("planar3"), Robot("panda"), Robot("ur5e")
    plain, learned, seven = Sampler(planar), Sampler.load("panda_pose"), Sampler(panda)
    plain = plain.with_constraints(position_only=True)
    q, q7 = np.array([0.3, 0.4, 0.5]), 0.5 * (panda.lower + panda.upper)
    pose, pose7, poses = planar.fk(q), panda.fk(q7), planar.fk(q + np.arange(3.0)[:, None] / 9.0)
    poses7 = panda.fk(q7 + np.arange(3.0)[:, None] / 9.0)
    kernels = seven.on("cpu")
    joint, rng, tool = planar.joint_names[0], np.random.default_rng(0), np.eye(4)
    grid = {"lower": (-0.5, -0.5, -0.1), "upper": (0.5, 0.5, 0.1), "spacing": 0.4, "n_approaches": 2, "n_rolls": 1}
    cells = CapabilityGrid(**grid)
    capability = CapabilityMap.of("planar3", cells, np.zeros((cells.n_poses, 4), dtype=np.float32))
    triangles = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    options = {"near": q, "order": {"distance": 1.0, "limits": 0.5}, "posture": {joint: 0.1}, "diversity": 0.5}
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
    sampled = functools.partial(plain.sample, pose, **SHORT)
    bounded = functools.partial(Constraints, links=(), position_only=True)

    def constrained(constraints: Constraints) -> Any:
        return plain.with_constraints(constraints).sample(pose, **SHORT)

    return {
        "Robot": (Robot, {"source": "planar3", "tip": None, "base": None, "collision": None}),
        "Robot of text": (
            Robot,
            {"source": planar.urdf, "tip": planar.tip_link, "base": planar.base_link, "collision": CollisionOptions()},
        ),
        "Robot.fk": (planar.fk, {"q": q}),
        "Robot.fk of seven joints": (panda.fk, {"q": q7}),
        "Robot.jacobian": (planar.jacobian, {"q": q}),
        "Robot.manipulability": (planar.manipulability, {"q": q, "position_only": True}),
        "Robot.skeleton": (planar.skeleton, {"q": q}),
        "Robot.within_limits": (planar.within_limits, {"q": q, "tolerance": 0.1}),
        "Branches.labels": (arm.branches.labels, {"q": np.zeros((2, 6))}),
        "Branches.matches": (arm.branches.matches, {"q": np.zeros(6), "branch": {"elbow": "up"}}),
        "Robot.random of one": (planar.random, {"seed": rng}),
        "Robot.random": (planar.random, {"n": 2, "seed": rng}),
        "Robot.closed_form_with_fixed": (panda.closed_form_with_fixed, {"joint": 6}),
        "Robot.pose_errors": (planar.pose_errors, {"q": q, "pose": pose, "tolerances": None}),
        "Robot.verify": (planar.verify, {"q": q, "pose": pose, **asked, **limits}),
        "refine": (
            refine,
            {"robot": planar, "seeds": q, "pose": pose, "max_iterations": 3, "patience": 2, **asked, **limits},
        ),
        "refine of seven joints": (refine, {"robot": panda, "seeds": q7, "pose": pose7}),
        "spread": (
            spread,
            {"robot": planar, "solutions": q, "pose": pose, "n": 2, "seed": rng, "step": 0.4, "finest": None, **asked},
        ),
        "Sampler of a model": (Sampler, {"model": "panda_position"}),
        "Sampler": (
            Sampler,
            {"robot": "planar3", "base": None, "tip": None, "model": None, "constraints": Constraints()},
        ),
        "Sampler.load": (Sampler.load, {"model": "panda_position", "robot": None, "base": None, "tip": None}),
        "Sampler.with_tool": (lambda tool: plain.with_tool(tool).sample(pose, **SHORT), {"tool": tool}),
        "Sampler.with_tip": (plain.with_tip, {"link": planar.tip_link}),
        "Sampler.with_collision_options": (
            lambda **given: (
                plain.with_collision_options(CollisionOptions(**given))
                .with_constraints(self_collision=True)
                .sample(pose, **SHORT)
            ),
            {"meshes": "none", "package_paths": (), "srdf": ""},
        ),
        "Sampler.with_collision_options of options": (plain.with_collision_options, {"options": CollisionOptions()}),
        "Sampler.with_obstacles": (
            lambda obstacles: plain.with_obstacles(obstacles).sample(pose, **SHORT),
            {"obstacles": [Sphere([0.3, 0.0, 0.0], 0.1)]},
        ),
        "Sampler.with_constraints": (
            lambda **given: plain.with_constraints(**given).sample(pose, **SHORT),
            {**constraints, "position_only": True, "position_tolerance": 1e-6, "orientation_tolerance": 1e-6},
        ),
        "Sampler.with_constraints of a branch": (
            lambda branch: Sampler(arm).with_constraints(branch=branch).sample(arm.fk(np.ones(6)), **SHORT),
            {"branch": {"elbow": "up"}},
        ),
        "Sampler.with_constraints of an object": (plain.with_constraints, {"constraints": bounded()}),
        "Sampler.solve": (plain.solve, {"pose": pose, "near": q, **BRIEF}),
        "Sampler.solve near some joints": (seven.solve, {"pose": pose7, "near": {panda.joint_names[0]: 0.1}, **BRIEF}),
        "Sampler.solve near a posture": (
            lambda positions, **given: seven.solve(pose7, Posture(positions), **given),
            {"positions": {panda.joint_names[0]: 0.1}, **BRIEF},
        ),
        "Sampler.solve near all joints": (
            seven.solve,
            {"pose": pose7, "near": dict(zip(panda.joint_names, q7.tolist(), strict=True)), **BRIEF},
        ),
        "Sampler.sample": (plain.sample, {"pose": pose, **SHORT, **options}),
        "Sampler.sample of a pose": (plain.sample, {"pose": pose, **SHORT}),
        "Sampler.sample of a pair": (plain.sample, {"pose": ([0.5, 0.1, 0.2], [0.0, 0.0, 0.0, 1.0]), **SHORT}),
        "Sampler.sample of a position": (plain.sample, {"pose": [0.5, 0.1, 0.0], **SHORT}),
        "Sampler.sample of seven numbers": (plain.sample, {"pose": [0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 1.0], **SHORT}),
        "Sampler.sample by a model": (learned.sample, {"pose": pose7, **SHORT, "near": q7, "diversity": 0.0}),
        "Sampler.sample of seven joints": (
            seven.sample,
            {"pose": pose7, **SHORT, "diversity": 1.0, "near": q7, "posture": {panda.joint_names[0]: 0.1}},
        ),
        "Sampler.solve_all": (
            seven.solve_all,
            {"pose": pose7, "max_spacing": 0.5, "near": q7, "order": "distance", "max_solutions": 100, **BRIEF},
        ),
        "Sampler.solve_all until complete": (
            seven.solve_all,
            {"pose": pose7, "max_spacing": 0.5, "guarantee": Completeness(0.9, 0.1), **BRIEF},
        ),
        "Sampler.solve_all certified": (learned.solve_all, {"pose": pose7, "guarantee": "certified", **BRIEF}),
        "Sampler.draw": (seven.draw, {"pose": pose7, "density": "uniform", "guarantee": None, **SHORT}),
        "Sampler.draw of a model": (learned.draw, {"pose": pose7, "density": "model", **SHORT}),
        "Sampler.draw by a cost": (
            learned.draw,
            {"pose": pose7, "density": lambda rows: np.zeros(len(rows)), "temperature": 2.0, **SHORT},
        ),
        "Sampler.draw by a posture": (
            lambda positions, **given: seven.draw(pose7, density=Posture(positions), **given),
            {"positions": {panda.joint_names[0]: 0.1}, "temperature": 0.5, **SHORT},
        ),
        "Sampler.propose": (learned.propose, {"pose": pose7, "n": 2, "seed": 0}),
        "Sampler.follow": (plain.follow, {"poses": poses, "near": q, "max_step": 0.3, "n_candidates": 4, **BRIEF}),
        "Sampler.solve_batch": (plain.solve_batch, {"poses": poses, "near": q, "n_threads": 1, **BRIEF}),
        "Sampler.solve_batch of seven joints": (seven.solve_batch, {"poses": poses7, "n_threads": 1, **BRIEF}),
        "Sampler.on": (seven.on, {"device": "cpu"}),
        "DeviceSampler.solve_batch": (kernels.solve_batch, {"poses": poses7, "near": q7, "seed": 0}),
        "DeviceSampler.sample_batch": (
            kernels.sample_batch,
            {"poses": poses7, "n": 2, "seed": 0},
        ),
        "DeviceSampler.solve_all_batch": (kernels.solve_all_batch, {"poses": poses7, "max_spacing": 0.5}),
        "Sampler.sample_batch": (plain.sample_batch, {"poses": poses, "n_threads": 1, **SHORT}),
        "Sampler.sample_batch of a model": (
            learned.sample_batch,
            {"poses": poses7, "near": q7, "diversity": 0.0, "n_threads": 1, **SHORT},
        ),
        "Sampler.sample_batch of seven joints": (
            seven.sample_batch,
            {"poses": poses7, "order": None, "diversity": None, "n_threads": 1, **SHORT},
        ),
        "Sampler.stream": (plain.stream, {"poses": poses, "block": 2, "n_threads": 1, **SHORT}),
        "Sampler.stream of solve": (
            seven.stream,
            {"poses": poses7, "operation": seven.solve, "near": q7, "block": 2, "n_threads": 1, **BRIEF},
        ),
        "Sampler.stream of solve_all": (
            seven.stream,
            {"poses": poses7, "operation": seven.solve_all, "max_spacing": 0.5, "n_threads": 1, **BRIEF},
        ),
        "Sampler.stream of draw": (
            seven.stream,
            {"poses": poses7, "operation": seven.draw, "density": "uniform", "n_threads": 1, **SHORT},
        ),
        "Constraints": (lambda **given: constrained(Constraints(**given)), constraints),
        "Constraints.limits": (lambda ends: constrained(bounded({joint: ends})), {"ends": (-1.0, 1.0)}),
        "Constraints.check": (Constraints().check, {"robot": planar}),
        "LinkPosition": (
            lambda **given: constrained(Constraints(links=[LinkPosition(**given)])),
            {"link": planar.tip_link, "region": [Sphere([0.0, 0.0, 0.0], 5.0)], "point": [0.0, 0.0, 0.1]},
        ),
        "LinkOrientation": (
            lambda **given: constrained(Constraints(links=[LinkOrientation(**given)])),
            {"link": planar.tip_link, "rotation": np.eye(3), "tolerances": [3.0, 3.0, 3.0], "axes": np.eye(3)},
        ),
        "Posture": (
            lambda **given: sampled(posture=Posture(**given)),
            {"positions": {joint: 0.1}, "weights": {joint: 1.0}},
        ),
        "Completeness": (
            lambda **given: seven.solve_all(pose7, guarantee=Completeness(**given), **BRIEF),
            {"confidence": 0.9, "missed_share": 0.1},
        ),
        "CapabilityGrid": (
            lambda **given: CapabilityGrid(**given).poses(0, 2),
            {**grid, "n_seeds": 2, "seed": 0},
        ),
        "CapabilityGrid.around": (CapabilityGrid.around, {"robot": planar, "spacing": 0.2, "n_rolls": 2}),
        "CapabilityGrid.from_mapping": (CapabilityGrid.from_mapping, {"values": cells.to_mapping()}),
        "CapabilityMap.at": (capability.at, {"position": [0.1, 0.1, 0.0], "approach": [0.0, 0.0, 1.0], "angle": 0.3}),
        "CapabilityMap.save": (capability.save, {"path": "map.npz"}),
        "CapabilityMap.load": (CapabilityMap.load, {"path": "none.npz"}),
        "survey": (
            survey,
            {"robot": planar, "grid": CapabilityGrid(**grid, n_seeds=1), "output": "survey.npz", "device": "cpu"},
        ),
        "base_grid": (base_grid, {"x": (0.0, 1.0), "y": (0.0, 1.0), "spacing": 0.5, "n_yaws": 2, "z": 0.0}),
        "place_base": (
            functools.partial(place_base, seven, n_refined=1),
            {
                "poses": [pose7],
                "bases": np.zeros((2, 4)),
                "obstacles": (),
                "criterion": "length",
                "seed": 0,
                "device": None,
            },
        ),
        "self_motion_components": (
            self_motion_components,
            {"robot": planar, "solutions": q, "pose": pose, "position_only": True, "spacing": 0.3, "seed": 0},
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
            lambda **given: constrained(bounded(obstacles=[Box(**given)])),
            {"pose": tool, "size": [1, 1, 1]},
        ),
        "Sphere": (
            lambda **given: constrained(bounded(obstacles=[Sphere(**given)])),
            {"centre": [0.0, 0.0, 3.0], "radius": 1.0, "name": "ball"},
        ),
        "Cylinder": (
            lambda **given: constrained(bounded(obstacles=[Cylinder(**given)])),
            {"pose": tool, "radius": 1.0, "length": 1.0, "name": ""},
        ),
        "Capsule": (
            lambda **given: constrained(bounded(obstacles=[Capsule(**given)])),
            {"pose": tool, "radius": 1.0, "length": 1.0},
        ),
        "Mesh": (
            lambda **given: constrained(bounded(obstacles=[Mesh(**given)])),
            {"pose": tool, "vertices": triangles, "faces": faces, "convex": False, "name": ""},
        ),
        "Mesh.load": (Mesh.load, {"path": "none.stl", "pose": tool, "scale": 1.0, "convex": False}),
        "PointCloud": (
            lambda **given: constrained(bounded(obstacles=[PointCloud(**given)])),
            {"points": [[0.0, 0.0, 3.0], [1.0, 0.0, 3.0]], "radius": 0.1, "pose": tool, "resolution": 0.1},
        ),
        "pose_from": (pose_from, {"position": [0.1, 0.0, 0.0], "quaternion_xyzw": [0.0, 0.0, 0.0, 1.0], "rpy": None}),
        "pose_from angles": (pose_from, {"position": [0.1, 0.0, 0.0], "rpy": [0.1, 0.2, 0.3]}),
        "context_from_pose": (context_from_pose, {"transform": pose, "kind": "pose"}),
        "pose_from_context": (pose_from_context, {"context": np.arange(9.0)}),
        "quaternion_from_matrix": (quaternion_from_matrix, {"rotation": np.eye(3)}),
        "Robot.with_tool": (planar.with_tool, {"tool": tool}),
        "tool_from": (tool_from, {"numbers": [0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]}),
        "robot_path": (robot_path, {"name_or_path": "panda"}),
        "share_path": (share_path, {"relative": "urdf/panda.urdf"}),
    }


def drawn(seed: int, number: int) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """Draw one call with malformed arguments."""
    rng = np.random.default_rng((seed, number))
    name = list(calls())[int(rng.integers(len(calls())))]
    call, right = calls()[name]
    arguments = {key: value for key, value in right.items() if rng.integers(20) or len(right) < 3}
    if name in MANY_OPTIONS:
        kept = [str(key) for key in rng.permutation(list(right))[: rng.integers(1, 6)]]
        arguments = {key: value for key, value in right.items() if key in ("pose", *SHORT, *kept)}
    arguments = {key: value if rng.integers(4) else varied(value, rng) for key, value in arguments.items()}
    for _ in range(int(rng.integers(3)) if len(arguments) > 1 else 1):
        if arguments:
            key = list(arguments)[int(rng.integers(len(arguments)))]
            arguments[key] = damaged(arguments[key], rng) if rng.integers(3) else malformed(rng)
    if not rng.integers(20):
        arguments[KEYWORDS[int(rng.integers(len(KEYWORDS)))]] = malformed(rng)
    timeout = arguments.get("timeout")
    if isinstance(timeout, int | float) and LONGEST_WAIT < timeout < math.inf:
        arguments["timeout"] = LONGEST_WAIT  # with a longer timeout, a valid call would search too long
    return name, call, arguments


def tried(seed: int, number: int) -> Outcome:
    """Make the call with this number and return its outcome."""
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
        if isinstance(error, OSError) and name in WRITERS:  # for example, the path is a folder
            return Outcome(number, name, "system", told=str(error))
        steps = traceback.extract_tb(error.__traceback__)
        own = [step for step in steps if f"{os.sep}eim_ros{os.sep}" in step.filename] or steps[-1:]
        where = f"{own[-1].filename.rpartition(os.sep)[2]}:{own[-1].lineno}"
        return Outcome(number, name, "foreign", where, f"{type(error).__name__}: {error}"[:200])
    return Outcome(number, name, "answered")


def run(seed: int, numbers: range) -> Iterator[Outcome]:
    """Make calls in a temporary folder, because some calls write files."""
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
    """Make calls and count their outcomes."""
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
