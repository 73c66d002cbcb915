"""A serial chain as arrays, the form the compiled solver works on. Numbers come from pinocchio's reading of the URDF.

Every joint turns about, or slides along, the z axis of its own frame: with A_i a rotation that takes z to the joint's
axis, the pose of the tip is

    T(q) = P_0 Z(v_0) P_1 Z(v_1) ... P_{m-1} Z(v_{m-1}) P_m,    v_i = multiplier_i q[source_i] + offset_i,

where Z is a rotation about, or a translation along, z, and P_i = A_{i-1}^T (placement of joint i) A_i are constant.
Row i of `links` (m + 1, 16) holds the rotation of P_i row by row (9), its translation [m] (3), whether joint i slides
(0 or 1), the index of the independent joint it follows (its own, mostly), multiplier and offset; the last row only P_m.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import RobotError
from eim_ros.kinematics.link_tree import UrdfJoint

__all__ = ["MULTIPLIER", "OFFSET", "PRISMATIC", "SOURCE", "TRANSLATION", "ChainModel", "build_chain"]

FloatArray = npt.NDArray[np.float64]

TRANSLATION = slice(9, 12)
PRISMATIC, SOURCE, MULTIPLIER, OFFSET = 12, 13, 14, 15  # columns of `links`


@dataclass(frozen=True, eq=False)
class ChainModel:
    """A chain and what is known of its independent joints."""

    links: FloatArray
    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    continuous: npt.NDArray[np.bool_]
    fingerprint: str


def build_chain(joints: tuple[UrdfJoint, ...]) -> ChainModel:
    """Arrays of the chain made of these joints (fixed ones are merged into their neighbours).

    A continuous joint gets the limits -pi, pi and is marked continuous, unless a follower makes the chain's pose change
    over a full turn (a sliding follower, or one with a fractional multiplier): then it counts as bounded by them.
    """
    rotations, translations, axes = _placements(joints)
    moving = [joint for joint in joints if joint.moves]
    independent = [joint for joint in moving if joint.mimic is None]
    index = {joint.name: i for i, joint in enumerate(independent)}
    source = np.array([index[joint.mimic.joint if joint.mimic else joint.name] for joint in moving], dtype=np.int64)
    multiplier = np.array([joint.mimic.multiplier if joint.mimic else 1.0 for joint in moving])
    offset = np.array([joint.mimic.offset if joint.mimic else 0.0 for joint in moving])
    prismatic = np.array([joint.kind == "prismatic" for joint in moving])
    lower, upper, continuous = _limits(moving, independent, index)

    names = tuple(joint.name for joint in independent)
    arrays = (rotations, translations, axes, prismatic, source, multiplier, offset, lower, upper, continuous)
    described = json.dumps([list(names), *(_rounded(array) for array in arrays)])
    fingerprint = hashlib.sha256(described.encode()).hexdigest()

    for i, axis in enumerate(axes):
        turn = _rotation_from_z(axis)
        rotations[i] = rotations[i] @ turn
        rotations[i + 1] = turn.T @ rotations[i + 1]
        translations[i + 1] = turn.T @ translations[i + 1]
    links = np.zeros((len(moving) + 1, 16))
    links[:, :9] = rotations.reshape(-1, 9)
    links[:, TRANSLATION] = translations
    for column, values in ((PRISMATIC, prismatic), (SOURCE, source), (MULTIPLIER, multiplier), (OFFSET, offset)):
        links[:-1, column] = values
    for array in (links, lower, upper, continuous):
        array.flags.writeable = False
    return ChainModel(links, names, lower, upper, continuous, fingerprint)


def _placements(joints: tuple[UrdfJoint, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pinocchio's placements (m + 1, 3, 3) and (m + 1, 3), the tip's last, and unit axes (m, 3)."""
    import pinocchio  # deferred: a slow import

    try:
        model = pinocchio.buildModelFromXML(_neutral_urdf(joints))
    except (ValueError, RuntimeError) as error:
        cause = " ".join(str(error).split())
        raise RobotError(f"pinocchio cannot load the chain: {cause}", [joint.name for joint in joints]) from error
    tip = model.frames[model.getFrameId(f"link_{len(joints)}", pinocchio.FrameType.BODY)]
    placements = [model.jointPlacements[i] for i in range(1, model.njoints)] + [tip.placement]
    axes = []
    for joint in list(model.joints)[1:]:
        data = joint.createData()
        joint.calc(data, pinocchio.neutral(model))
        subspace = np.asarray(data.S, dtype=np.float64).reshape(6)
        axes.append(subspace[:3] + subspace[3:])
    rotations = np.array([placement.rotation for placement in placements])
    translations = np.array([placement.translation for placement in placements])
    return rotations, translations, np.array(axes)


def _neutral_urdf(joints: tuple[UrdfJoint, ...]) -> str:
    """The bare chain under neutral names: no name of the user's can clash, and pinocchio has nothing to warn of."""
    lines = ['<robot name="chain">', '<link name="link_0"/>']
    for i, joint in enumerate(joints):
        xyz, rpy, axis = (
            " ".join(repr(value) for value in values) for values in (joint.origin_xyz, joint.origin_rpy, joint.axis)
        )
        lines += [
            f'<link name="link_{i + 1}"/>',
            f'<joint name="joint_{i}" type="{joint.kind}">',
            f'<parent link="link_{i}"/><child link="link_{i + 1}"/>',
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>',
            f'<limit lower="{joint.lower!r}" upper="{joint.upper!r}" effort="1" velocity="1"/>'
            if joint.kind in ("revolute", "prismatic")
            else "",
            "</joint>",
        ]
    return "\n".join([*lines, "</robot>"])


def _limits(
    moving: list[UrdfJoint], independent: list[UrdfJoint], index: dict[str, int]
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Limits of the independent joints, narrowed so that their followers keep theirs too."""
    continuous = np.array([joint.kind == "continuous" for joint in independent])
    lower = np.array([-math.pi if joint.kind == "continuous" else joint.lower for joint in independent])
    upper = np.array([math.pi if joint.kind == "continuous" else joint.upper for joint in independent])
    for joint in moving:
        if joint.mimic is None:
            continue
        i = index[joint.mimic.joint]
        if joint.kind == "prismatic" or joint.mimic.multiplier != round(joint.mimic.multiplier):
            continuous[i] = False
        if joint.kind == "continuous" or joint.mimic.multiplier == 0.0:
            continue
        ends = sorted((limit - joint.mimic.offset) / joint.mimic.multiplier for limit in (joint.lower, joint.upper))
        if ends[0] > lower[i] or ends[1] < upper[i]:
            continuous[i] = False
        lower[i], upper[i] = max(lower[i], ends[0]), min(upper[i], ends[1])
        if lower[i] > upper[i]:
            raise RobotError(
                f"the limits of joint {joint.mimic.joint!r} and of its follower {joint.name!r} exclude each other", ends
            )
    return lower, upper, continuous


def _rotation_from_z(axis: FloatArray) -> FloatArray:
    """A rotation whose third column is the axis; a permutation with signs when the axis is a coordinate axis."""
    first: FloatArray = np.zeros(3)
    first[(int(np.argmax(np.abs(axis))) + 1) % 3] = 1.0
    first = first - axis * (axis @ first)
    first = first / np.linalg.norm(first)
    return np.column_stack([first, np.cross(axis, first), axis])


def _rounded(array: npt.NDArray[Any]) -> Any:
    """Nested lists rounded to 1e-9, so that the last bit of a platform's sine does not make another robot; no -0."""
    return (np.round(np.asarray(array, dtype=np.float64), 9) + 0.0).tolist()
