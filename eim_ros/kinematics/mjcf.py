"""Conversion of MJCF files to a URDF by MuJoCo, so that other modules only need to read URDFs.

MuJoCo resolves includes, default classes, degrees, orientations and limits. Each body of the compiled model becomes a
link. A body with several joints, or with a joint away from its origin, becomes several links. Sites also become links,
because MJCF marks the frames of tools by sites. The root is the link `world`, so that poses are in the same frame as in
MuJoCo. The values of joints are equal to the values in `qpos`. Let A be the anchor of a joint and q_0 its reference
position. The pose of a body in the frame of its parent is

    T = P T(A_1) Z_1(q_1 - q_{0,1}) T(-A_1) T(A_2) Z_2(q_2 - q_{0,2}) T(-A_2) ...

where P is the placement of the body, and Z a rotation about the joint's axis or a translation along it.

Meshes and textures are not read. MuJoCo moves the origin of a mesh to its centre of mass, but a URDF needs the pose of
the origin in the file. Each mesh is therefore replaced by a box while MuJoCo compiles the model.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from eim_ros.core.arrays import FloatArray, length, product, transformed
from eim_ros.core.errors import RobotError
from eim_ros.kinematics.poses import pose_from
from eim_ros.kinematics.urdf import UrdfJoint, listed, rpy_from_rotation

UNLIMITED = 1e6  # limit of a prismatic joint without limits, because a URDF needs a number [m]
MESH_FORMATS = (".stl", ".obj", ".dae", ".ply")
STAND_IN = 0.01  # half the size of the box that replaces a mesh while MuJoCo compiles [m]
FIRST_ELEMENT = re.compile(rb"(?:[^<]|<\?.*?\?>|<!--.*?-->)*<([A-Za-z_][\w:.-]*)", re.DOTALL)
LAST_VISIBLE_GROUP = 2  # MuJoCo's viewer hides the geoms of later groups


@dataclass(frozen=True)
class Remark:
    """Sentence about a part of a description that was not read.

    The remark only applies to arms that have a joint in `joints`. If `joints` is empty, it applies to all arms.
    """

    text: str
    joints: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Description:
    """URDF, remarks on parts that it lacks, and names of the joints in closed loops, which a URDF cannot express."""

    text: str | bytes
    remarks: tuple[Remark, ...] = ()
    in_loops: frozenset[str] = frozenset()

    def remarks_on(self, joints: Iterable[UrdfJoint]) -> list[str]:
        """Return the sentences that apply to a chain of joints."""
        names = {joint.name for joint in joints}
        return [remark.text for remark in self.remarks if not remark.joints or remark.joints & names]


def is_mjcf(text: bytes) -> bool:
    """Return whether the first element of a file is <mujoco>."""
    found = FIRST_ELEMENT.match(text) if b"<mujoco" in text else None
    return found is not None and found[1] == b"mujoco"


def urdf_of_mjcf(path: Path) -> Description:
    """Convert an MJCF file to a URDF.

    Raises
    ------
    RobotError
        If MuJoCo is not installed, or cannot compile the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from eim_ros.kinematics import joint_limits
    >>> from eim_ros.kinematics.mjcf import urdf_of_mjcf
    >>> file, arm = Path("arm.xml"), '<body><joint name="turn" range="-90 90"/><geom size="0.1"/></body>'
    >>> n_written = file.write_text(f"<mujoco><worldbody>{arm}</worldbody></mujoco>")
    >>> joint_limits(urdf_of_mjcf(file).text)
    {'turn': (-1.5707963267948966, 1.5707963267948966)}
    """
    try:
        import mujoco
    except ImportError as error:
        raise RobotError(
            f"{path} is MJCF, which needs MuJoCo: pip install '.[mjcf]' in the clone, or pip install mujoco", str(path)
        ) from error
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        meshes = _without_meshes(mujoco, spec)
        model = spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise RobotError(f"MuJoCo cannot compile {path}: {' '.join(str(error).split())}", str(path)) from error
    name = spec.modelname if spec.modelname not in ("", "MuJoCo Model") else path.stem
    return _Writer(mujoco, model, name, {geom.id: mesh for geom, mesh in meshes}, path.absolute().parent).description()


@dataclass(frozen=True)
class _MeshFile:
    """Mesh of a geom: file, scale (3,), and pose in the frame of the geom. Without a path, `kind` is the reason."""

    path: Path | None
    kind: str
    scale: FloatArray
    translation: FloatArray
    rotation: FloatArray


def _without_meshes(mujoco: Any, spec: Any) -> list[tuple[Any, _MeshFile]]:
    """Replace meshes by boxes, and return each geom with its mesh. Remove all that needs other files or inertias."""
    meshes = {mesh.name: _mesh_file(spec, mesh) for mesh in spec.meshes}
    types, found = mujoco.mjtGeom, []
    for geom in spec.geoms:
        if geom.type not in (types.mjGEOM_MESH, types.mjGEOM_SDF, types.mjGEOM_HFIELD) and not geom.meshname:
            continue
        none = _MeshFile(None, "height fields", np.ones(3), np.zeros(3), np.eye(3))
        found.append((geom, meshes.get(geom.meshname, none)))
        geom.type, geom.size, geom.meshname, geom.hfieldname = types.mjGEOM_BOX, np.full(3, STAND_IN), "", ""
        geom.plugin.active = False
    for site in spec.sites:
        if site.meshname:
            site.type, site.size, site.meshname = types.mjGEOM_BOX, np.full(3, STAND_IN), ""
    for unused in (*spec.meshes, *spec.hfields, *spec.skins):
        spec.delete(unused)
    for texture in spec.textures:
        texture.file, texture.cubefiles = "", [""] * 6
        texture.builtin, texture.width, texture.height = mujoco.mjtBuiltin.mjBUILTIN_FLAT, 1, 1
    # MuJoCo rejects moving bodies without inertia, which the kinematics do not need
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    spec.compiler.fusestatic = spec.compiler.discardvisual = False
    for body in spec.bodies[1:]:
        body.explicitinertial, body.mass, body.inertia = True, 1.0, np.ones(3)
        body.ipos, body.iquat, body.fullinertia = np.zeros(3), [1.0, 0.0, 0.0, 0.0], np.full(6, np.nan)
        body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    return found


def _mesh_file(spec: Any, mesh: Any) -> _MeshFile:
    """Return the file of a mesh. MuJoCo shifts vertices by -`refpos`, rotates them by `refquat`, and scales them."""
    scale, rotation = np.array(mesh.scale), _rotation(mesh.refquat).T
    translation = -scale * transformed(rotation, np.array(mesh.refpos))
    path: Path | None = None
    kind = "meshes without a file"
    if mesh.file:
        compiler = getattr(mesh, "compiler", spec.compiler)
        path = Path(spec.modelfiledir, compiler.meshdir, Path(mesh.file).name if spec.strippath else mesh.file)
        suffix = Path(mesh.file).suffix
        if suffix.lower() not in MESH_FORMATS:
            path, kind = None, f"meshes in the format {suffix}"
        elif not np.allclose(rotation, np.eye(3)) and not np.allclose(scale, scale[0]):
            path, kind = None, "meshes with refquat and different scales"
    return _MeshFile(path, kind, scale, translation, rotation)


def _rotation(quat: Sequence[float]) -> FloatArray:
    """Return the rotation (3, 3) of a quaternion w, x, y, z of any length."""
    values = np.array(quat, dtype=np.float64)
    w, *xyz = (values / length(values)).tolist()
    return pose_from(np.zeros(3), (*xyz, w))[:3, :3]


@dataclass(frozen=True)
class _Pose:
    """Rotation (3, 3) and translation (3,) [m]."""

    rotation: FloatArray
    translation: FloatArray

    def __matmul__(self, other: _Pose) -> _Pose:
        moved = self.translation + transformed(self.rotation, other.translation)
        return _Pose(product(self.rotation, other.rotation), moved)

    def element(self) -> Element:
        rpy = rpy_from_rotation(self.rotation)
        return Element("origin", xyz=_words(self.translation), rpy=_words(rpy))


def _shift(by: FloatArray) -> _Pose:
    return _Pose(np.eye(3), np.array(by, dtype=np.float64))


def _words(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


class _Writer:
    """Conversion of one compiled model."""

    def __init__(self, mujoco: Any, model: Any, name: str, meshes: dict[int, _MeshFile], folder: Path) -> None:
        self._mujoco, self._model, self._meshes, self._folder = mujoco, model, meshes, folder
        self._robot = Element("robot", name=name)
        self._remarks: list[Remark] = []
        self._in_loops: set[str] = set()
        bodies = [self._named("body", model.body(i).name, i) for i in range(model.nbody)]
        self._links = {name: ElementTree.SubElement(self._robot, "link", name=name) for name in bodies}
        self._bodies = bodies
        self._joints = [self._named("joint", model.joint(i).name, i) for i in range(model.njnt)]
        self._joint_names = set(self._joints)
        self._followers, self._fixed = self._equalities()

    @staticmethod
    def _named(kind: str, name: str, index: int) -> str:
        return name or f"{kind}{index}"

    def description(self) -> Description:
        """Return the URDF with remarks."""
        model = self._model
        for body in range(1, model.nbody):
            self._add_body(body)
        for site in range(model.nsite):
            if name := model.site(site).name:
                pose = _Pose(_rotation(model.site_quat[site]), model.site_pos[site])
                link = self._new_link(name if name not in self._links else f"{name}_site")
                self._fix(self._bodies[model.site_bodyid[site]], link, pose)
        self._add_geoms()
        text = ElementTree.tostring(self._robot, encoding="unicode")
        return Description(text, tuple(self._remarks), frozenset(self._in_loops))

    def _new_link(self, name: str) -> str:
        name = _unique(name, self._links)
        self._links[name] = ElementTree.SubElement(self._robot, "link", name=name)
        return name

    def _add_body(self, body: int) -> None:
        """Add the joints between a body and its parent."""
        model, kinds = self._model, self._mujoco.mjtJoint
        parent, own = self._bodies[model.body_parentid[body]], self._bodies[body]
        pose = _Pose(_rotation(model.body_quat[body]), model.body_pos[body])
        first, n = model.body_jntadr[body], model.body_jntnum[body]
        for joint in range(first, first + n):
            name, kind = self._joints[joint], kinds(int(model.jnt_type[joint]))
            if kind in (kinds.mjJNT_FREE, kinds.mjJNT_BALL):
                joint_type, anchor = ("floating" if kind == kinds.mjJNT_FREE else "ball"), model.jnt_pos[joint]
                pose = pose if kind == kinds.mjJNT_FREE else pose @ _shift(anchor)
                anchor = np.zeros(3) if kind == kinds.mjJNT_FREE else anchor
                limits = None
            else:
                is_slide = kind == kinds.mjJNT_SLIDE
                joint_type, limits = self._limits(joint, is_slide)
                anchor, reference = model.jnt_pos[joint], model.qpos0[model.jnt_qposadr[joint]]
                if joint in self._fixed:
                    joint_type, limits = "fixed", None
                pose = pose @ _shift(anchor) @ self._moved(joint, is_slide, self._fixed.get(joint, 0.0) - reference)
            is_last = joint == first + n - 1 and not anchor.any()
            child = own if is_last else self._new_link(f"{own} at {name}")
            element = self._joint(name, joint_type, parent, child, pose)
            if limits is not None:
                ElementTree.SubElement(element, "axis", xyz=_words(model.jnt_axis[joint]))
                ElementTree.SubElement(element, "limit", lower=repr(limits[0]), upper=repr(limits[1]))
                if joint in self._followers:
                    source, factor, offset = self._followers[joint]
                    rule = {"joint": self._joints[source], "multiplier": repr(factor), "offset": repr(offset)}
                    ElementTree.SubElement(element, "mimic", rule)
            parent, pose = child, _shift(-anchor)
        if parent != own:
            self._fix(parent, own, pose)

    def _limits(self, joint: int, is_slide: bool) -> tuple[str, tuple[float, float]]:
        if self._model.jnt_limited[joint]:
            lower, upper = self._model.jnt_range[joint].tolist()
            return "prismatic" if is_slide else "revolute", (lower, upper)
        return ("prismatic", (-UNLIMITED, UNLIMITED)) if is_slide else ("continuous", (0.0, 0.0))

    def _moved(self, joint: int, is_slide: bool, by: float) -> _Pose:
        """Return the motion of a joint by a value [rad] or [m]."""
        axis = self._model.jnt_axis[joint]
        if by == 0.0:
            return _shift(np.zeros(3))
        if is_slide:
            return _shift(axis * by)
        half = 0.5 * by
        return _Pose(_rotation([np.cos(half), *(np.sin(half) * axis)]), np.zeros(3))

    def _joint(self, name: str, kind: str, parent: str, child: str, pose: _Pose) -> Element:
        element = ElementTree.SubElement(self._robot, "joint", name=name, type=kind)
        element.extend([pose.element(), Element("parent", link=parent), Element("child", link=child)])
        return element

    def _fix(self, parent: str, child: str, pose: _Pose) -> None:
        name = _unique(f"{child} on {parent}", self._joint_names)
        self._joint_names.add(name)
        self._joint(name, "fixed", parent, child, pose)

    def _equalities(self) -> tuple[dict[int, tuple[int, float, float]], dict[int, float]]:
        """Return the source, multiplier and offset of each mimic joint, and the value of each fixed joint."""
        model, kinds = self._model, self._mujoco.mjtEq
        followers, fixed = dict[int, tuple[int, float, float]](), dict[int, float]()
        for i in np.flatnonzero(model.eq_active0):
            kind, first, second = kinds(int(model.eq_type[i])), int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
            if kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
                self._add_loop(int(i), "connect" if kind == kinds.mjEQ_CONNECT else "weld")
            elif kind == kinds.mjEQ_JOINT:
                coefficients, at = model.eq_data[i, :5].tolist(), model.qpos0[model.jnt_qposadr[[first, second]]]
                if second < 0:
                    fixed[first] = float(at[0]) + coefficients[0]
                elif any(coefficients[2:]) or first in followers:
                    why = "is not linear" if any(coefficients[2:]) else "is the second equality of the same joint"
                    names = self._joints[first], self._joints[second]
                    self._remark(f"the equality of joints {listed(names)} is ignored, because it {why}", names[:1])
                else:
                    offset = float(at[0] + coefficients[0] - coefficients[1] * at[1])
                    followers[first] = second, coefficients[1], offset
            elif kind == kinds.mjEQ_TENDON:
                tendons = [tendon for tendon in (first, second) if tendon >= 0]
                joints = [self._joints[joint] for tendon in tendons for joint in self._joints_of_tendon(tendon)]
                self._remark(f"the equality of the tendons of joints {listed(joints)} is ignored", joints)
        return followers, fixed

    def _joints_of_tendon(self, tendon: int) -> list[int]:
        model = self._model
        wraps = range(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon])
        joint = self._mujoco.mjtWrap.mjWRAP_JOINT
        return [int(model.wrap_objid[wrap]) for wrap in wraps if model.wrap_type[wrap] == joint]

    def _add_loop(self, equality: int, kind: str) -> None:
        """Add a remark that two bodies close a loop. A floating body closes no loop, because it follows the other."""
        model, ends = self._model, (int(self._model.eq_obj1id[equality]), int(self._model.eq_obj2id[equality]))
        if model.eq_objtype[equality] == self._mujoco.mjtObj.mjOBJ_SITE:
            ends = int(model.site_bodyid[ends[0]]), int(model.site_bodyid[ends[1]])
        above = [self._joints_above(body) for body in ends]
        between = set(above[0]) ^ set(above[1])
        is_free = any(model.jnt_type[joint] == self._mujoco.mjtJoint.mjJNT_FREE for joint in between)
        if is_free or any(model.body_mocapid[body] >= 0 for body in ends):
            return
        names = [self._joints[joint] for joint in sorted(between)]
        self._in_loops.update(names)
        bodies = listed(self._bodies[body] for body in ends)
        self._remark(
            f"the bodies {bodies} close a loop ({kind}), but this constraint is ignored, and the joints of "
            "the loop count as free",
            names,
        )

    def _joints_above(self, body: int) -> list[int]:
        model, found = self._model, list[int]()
        while body > 0:
            first = int(model.body_jntadr[body])
            found += range(first, first + int(model.body_jntnum[body]))
            body = int(model.body_parentid[body])
        return found

    def _remark(self, text: str, joints: Sequence[str] = ()) -> None:
        self._remarks.append(Remark(f"MJCF of robot {self._robot.get('name')!r}: {text}", frozenset(joints)))

    def _add_geoms(self) -> None:
        """Add collision shapes and visuals. If MuJoCo's viewer shows some groups, only these groups are visuals."""
        model, left_out = self._model, dict[str, int]()
        shown = model.geom_group <= LAST_VISIBLE_GROUP
        shown = shown if shown.any() else ~shown
        collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        collides[[*model.pair_geom1, *model.pair_geom2]] = True
        for geom in range(model.ngeom):
            pose = _Pose(_rotation(model.geom_quat[geom]), model.geom_pos[geom])
            kind, shape, pose = self._shape(geom, pose)
            if shape is None:
                left_out[kind] = left_out.get(kind, 0) + 1
                continue
            link = self._links[self._bodies[model.geom_bodyid[geom]]]
            for tag, applies in (("collision", collides[geom]), ("visual", shown[geom])):
                if applies:
                    element = ElementTree.SubElement(link, tag)
                    element.append(pose.element())
                    ElementTree.SubElement(element, "geometry").append(shape)
        if left_out:
            told = ", ".join(f"{n} {kind}" for kind, n in left_out.items())
            self._remark(f"these shapes are ignored, because a URDF cannot express them: {told}")

    def _shape(self, geom: int, pose: _Pose) -> tuple[str, Element | None, _Pose]:
        """Return the kind of a geom, its shape in a URDF (None if URDF does not have this shape), and its pose."""
        kinds, size = self._mujoco.mjtGeom, self._model.geom_size[geom]
        kind = kinds(int(self._model.geom_type[geom]))
        if (mesh := self._meshes.get(geom)) is not None:
            if mesh.path is None:
                return mesh.kind, None, pose
            stretch = size / STAND_IN  # scale of the frame, given by <frame scale>
            name = Path(os.path.relpath(mesh.path, self._folder)).as_posix()
            shape = Element("mesh", filename=name, scale=_words(mesh.scale * stretch))
            return "", shape, pose @ _Pose(mesh.rotation, mesh.translation * stretch)
        if kind == kinds.mjGEOM_BOX:
            return "", Element("box", size=_words(2.0 * size)), pose
        if kind == kinds.mjGEOM_SPHERE:
            return "", Element("sphere", radius=_words(size[:1])), pose
        if kind in (kinds.mjGEOM_CYLINDER, kinds.mjGEOM_CAPSULE):
            tag = "cylinder" if kind == kinds.mjGEOM_CYLINDER else "capsule"
            return "", Element(tag, radius=_words(size[:1]), length=_words(2.0 * size[1:2])), pose
        return {kinds.mjGEOM_PLANE: "planes", kinds.mjGEOM_ELLIPSOID: "ellipsoids"}.get(kind, "others"), None, pose


def _unique(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not in `taken`; a number is appended if necessary."""
    taken, number, candidate = set(taken), 2, name
    while candidate in taken:
        candidate, number = f"{name} {number}", number + 1
    return candidate
