"""Between the fields of a request and the constraints of the sampler, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from geometry_msgs.msg import Pose
from shape_msgs.msg import SolidPrimitive

from eim_ros.errors import ConstraintError
from eim_ros.ik import Constraints
from eim_ros.kinematics import Box, Capsule, Cylinder, Mesh, PointCloud, Robot, Shape, Sphere
from eim_ros.kinematics.deadlines import NEVER, check_time
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.interfaces import SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.common.pose_messages import pose_message, transform_of
from eim_ros.nodes.ik_server.scene_messages import check_size, fill_scene, scene_obstacles

__all__ = ["constraints_of", "fill_constraints", "shape_of"]

_NONE = Constraints()


def constraints_of(
    request: SampleIK.Request | SampleIKBatch.Request | SampleIKPath.Request,
    robot: Robot,
    data: DataDirectory,
    deadline: float = NEVER,
) -> Constraints:
    """Constraints of a request to a server of this robot, read until the deadline, a time of `perf_counter` [s].

    Meshes of obstacles may be read from the directory `data`.

    Raises
    ------
    ConstraintError, DataError, MeshError, PathError, PoseError
        If lists differ in length, name a joint twice, an obstacle is none, or there are too many.
    OutOfTime
        If the deadline is over before all obstacles are read.
    """
    if _has_none(request):
        return _NONE
    joints, lower, upper = list(request.limited_joints), list(request.lower_limits), list(request.upper_limits)
    if not len(joints) == len(lower) == len(upper) or len(set(joints)) != len(joints):
        raise ConstraintError(
            f"there are {len(joints)} limited_joints, {len(lower)} lower_limits and {len(upper)} upper_limits; "
            "expected as many of each, each joint once",
            joints,
        )
    fixed, values = list(request.fixed_joints.name), list(request.fixed_joints.position)
    if len(fixed) != len(values) or len(set(fixed)) != len(fixed):
        raise ConstraintError(
            f"fixed_joints has {len(fixed)} names and {len(values)} positions; expected as many, each joint once", fixed
        )
    if len(request.obstacles) != len(request.obstacle_poses):
        raise ConstraintError(
            f"there are {len(request.obstacles)} obstacles and {len(request.obstacle_poses)} obstacle_poses; expected "
            "as many",
            len(request.obstacle_poses),
        )
    check_size(request.scene, robot.collision, len(request.obstacles))
    return Constraints(
        limits={joint: (low, high) for joint, low, high in zip(joints, lower, upper, strict=True)},
        fixed=dict(zip(fixed, values, strict=True)),
        self_collision=bool(request.avoid_self_collision),
        obstacles=(
            *_primitives(request.obstacles, request.obstacle_poses, deadline),
            *scene_obstacles(request.scene, robot, data, deadline),
        ),
        clearance=float(request.clearance),
        tolerances=list(request.tolerances) or None,
    )


def _has_none(request: SampleIK.Request | SampleIKBatch.Request | SampleIKPath.Request) -> bool:
    """Whether all fields have their defaults, as those of most requests: a fifth of the time to parse one."""
    scene = request.scene
    return not (
        request.limited_joints
        or request.lower_limits
        or request.upper_limits
        or request.fixed_joints.name
        or request.fixed_joints.position
        or request.avoid_self_collision
        or request.obstacles
        or request.obstacle_poses
        or request.clearance
        or request.tolerances
        or scene.meshes
        or scene.mesh_poses
        or scene.mesh_files
        or scene.mesh_file_poses
        or scene.mesh_file_scales
        or scene.point_clouds
    )


def _primitives(messages: Sequence[SolidPrimitive], poses: Sequence[Pose], deadline: float) -> Iterator[Shape]:
    for primitive, pose in zip(messages, poses, strict=True):
        check_time(deadline, "read the obstacles")
        yield shape_of(primitive, transform_of(pose), "an obstacle")


def fill_constraints(request: SampleIK.Request, constraints: Constraints) -> None:
    """Copy constraints into a request; `ConstraintError` of a capsule, which no message describes."""
    request.limited_joints = list(constraints.limits)
    request.lower_limits = [float(lower) for lower, _ in constraints.limits.values()]
    request.upper_limits = [float(upper) for _, upper in constraints.limits.values()]
    request.fixed_joints.name = list(constraints.fixed)
    request.fixed_joints.position = [float(value) for value in constraints.fixed.values()]
    request.avoid_self_collision = constraints.self_collision
    primitives = [shape for shape in constraints.obstacles if not isinstance(shape, (Mesh, PointCloud))]
    request.obstacles = [_primitive(shape) for shape in primitives]
    request.obstacle_poses = [pose_message(np.asarray(shape.pose, dtype=np.float64)) for shape in primitives]
    fill_scene(request.scene, [shape for shape in constraints.obstacles if isinstance(shape, (Mesh, PointCloud))])
    request.clearance = float(constraints.clearance)
    if constraints.tolerances is not None:
        request.tolerances = np.asarray(constraints.tolerances, dtype=np.float64).tolist()


def shape_of(primitive: SolidPrimitive, transform: np.ndarray, what: str) -> Shape:
    """A primitive at a pose (4, 4) in the base frame; `ConstraintError` tells `what` it is where it is none."""
    sizes = list(primitive.dimensions)
    expected = {SolidPrimitive.BOX: 3, SolidPrimitive.SPHERE: 1, SolidPrimitive.CYLINDER: 2}
    if len(sizes) != expected.get(primitive.type):
        raise ConstraintError(
            f"{what} is of type {primitive.type} and has {len(sizes)} dimensions; expected BOX (3), SPHERE (1) "
            "or CYLINDER (2)",
            primitive.type,
        )
    if primitive.type == SolidPrimitive.BOX:
        return Box(transform, sizes)
    if primitive.type == SolidPrimitive.SPHERE:
        return Sphere(transform[:3, 3], sizes[SolidPrimitive.SPHERE_RADIUS])
    return Cylinder(transform, sizes[SolidPrimitive.CYLINDER_RADIUS], sizes[SolidPrimitive.CYLINDER_HEIGHT])


def _primitive(shape: Shape) -> SolidPrimitive:
    if isinstance(shape, Capsule):
        raise ConstraintError("a request cannot hold a capsule; give a cylinder and two spheres", shape)
    if isinstance(shape, Box):
        return SolidPrimitive(type=SolidPrimitive.BOX, dimensions=np.asarray(shape.size, dtype=np.float64).tolist())
    if isinstance(shape, Sphere):
        return SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[float(shape.radius)])
    return SolidPrimitive(type=SolidPrimitive.CYLINDER, dimensions=[float(shape.length), float(shape.radius)])
