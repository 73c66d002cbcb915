"""MJCF files, such as those of mujoco_menagerie: which files load, default tips, and comparison with MuJoCo.

    git clone https://github.com/google-deepmind/mujoco_menagerie FOLDER
    python -m benchmarks.mjcf FOLDER [--output benchmarks/results/mjcf.txt]

All models of the folder except scenes are tried, including legged robots and hands. MuJoCo computes the pose of the tip
in the frame of the base for 1000 random configurations that satisfy the equalities of joints. If mesh files are
missing, geoms with meshes are deleted for MuJoCo, which does not move any body. If a file cannot be loaded, the error
message is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from benchmarks._machine import print_table
from eim_ros import EimError, Robot
from eim_ros.core.arrays import FloatArray

N = 1000
LINKED = 6  # longest chain of joints that follow each other, longer than in any model we know


def compiled(file: Path) -> Any:
    """Return MuJoCo's model, without meshes if their files are missing."""
    try:
        return mujoco.MjModel.from_xml_path(str(file))
    except ValueError:
        spec = mujoco.MjSpec.from_file(str(file))
    for geom in list(spec.geoms):
        if geom.meshname:
            spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    for texture in spec.textures:
        texture.file, texture.builtin = "", mujoco.mjtBuiltin.mjBUILTIN_FLAT
        texture.width = texture.height = 1
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    for body in spec.bodies[1:]:
        if not body.explicitinertial:
            body.explicitinertial, body.mass, body.inertia = True, 1.0, np.ones(3)
    return spec.compile()


def errors(file: Path, robot: Robot, q: FloatArray) -> tuple[float, float]:
    """Return the largest differences of position [m] and of the entries of the rotation from MuJoCo's."""
    model = compiled(file)
    data, poses = mujoco.MjData(model), robot.fk(q)
    where, start = model.jnt_qposadr, model.qpos0
    names = [model.joint(joint).name or f"joint{joint}" for joint in range(model.njnt)]
    own = where[[names.index(name) for name in robot.joint_names]]
    kinds = model.eq_type == mujoco.mjtEq.mjEQ_JOINT
    equalities = np.flatnonzero(kinds & (model.eq_active0 != 0)).tolist()
    is_body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, robot.tip_link) >= 0
    tip = data.body(robot.tip_link) if is_body else data.site(robot.tip_link)
    base, differences = data.body(robot.base_link), []
    for row, pose in zip(q, poses, strict=True):
        data.qpos[:] = start
        data.qpos[own] = row
        for equality in equalities * LINKED:
            first, second = model.eq_obj1id[equality], model.eq_obj2id[equality]
            shift = data.qpos[where[second]] - start[where[second]] if second >= 0 else 0.0
            value = np.polynomial.polynomial.polyval(shift, model.eq_data[equality, :5])
            data.qpos[where[first]] = start[where[first]] + value
        mujoco.mj_kinematics(model, data)
        turn = base.xmat.reshape(3, 3).T
        position, rotation = turn @ (tip.xpos - base.xpos), turn @ tip.xmat.reshape(3, 3)
        differences.append((np.abs(position - pose[:3, 3]).max(), np.abs(rotation - pose[:3, :3]).max()))
    far, turned = np.max(differences, axis=0).tolist()
    return far, turned


def rows(files: list[Path], seed: int) -> Iterator[str]:
    """Yield a line for each file, and the totals."""
    worst, n_loaded = 0.0, 0
    for file in files:
        name = "/".join(file.parts[-2:])
        try:
            robot = Robot.quietly(file)
        except EimError as error:
            yield f"{name:52} {str(error).replace(str(file), name)}"
            continue
        far, turned = errors(file, robot, robot.random(N, seed))
        worst, n_loaded = max(worst, far), n_loaded + 1
        yield f"{name:52} {f'{robot.base_link} -> {robot.tip_link}':46} {robot.dof:6} {far:9.1e} {turned:9.1e}"
    yield f"{n_loaded} of {len(files)} files load; their positions differ from MuJoCo's by at most {worst:.1e} m"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="unknown version", help="version of the files, printed in the first line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    files = [file for file in sorted(args.folder.glob("*/*.xml")) if not file.name.startswith(("scene", "keyframe"))]
    head = [
        f"{args.folder.name}, {args.version}; mujoco {mujoco.__version__}; {N} configurations each; seed {args.seed}",
        f"{'file':52} {'base -> tip':46} {'joints':>6} {'[m]':>9} {'rotation':>9}",
    ]
    print_table(head, rows(files, args.seed), args.output)


if __name__ == "__main__":
    main()
