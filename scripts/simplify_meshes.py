"""Write the meshes of an included robot for `eim view`, from the visuals of a description of the same arm.

    pip install fast-simplification
    python scripts/simplify_meshes.py ur5e ur5e.urdf --package-path ~/ws/src
    python scripts/simplify_meshes.py panda panda.urdf --package-path ~/ws/src --skip hand finger

Both descriptions must have the same joints with the same zero position. The script checks this condition. A xacro file
is expanded first. `urdf/meshes/README.md` lists the sources and licences of the included meshes.

For each link, the file `urdf/meshes/<robot>.npz` contains the vertices (n, 3) in the frame of the link [0.1 mm] and the
faces (m, 3). Vertices at sharp edges are doubled. A viewer with one normal per vertex then shows the edges.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import fast_simplification
import numpy as np
import numpy.typing as npt
import trimesh

from eim_ros.kinematics import Robot
from eim_ros.kinematics.catalogue import read_urdf_source
from eim_ros.kinematics.links import MeshReference, body_poses, body_shapes, link_placements, link_shapes
from eim_ros.kinematics.meshes import find_mesh, read_mesh
from eim_ros.kinematics.urdf import parse_urdf
from eim_ros.view.surfaces import MESH_UNIT

SAME = 5e-3  # largest difference between the joints of the two descriptions [m] or [rad]
SHARP = np.radians(35.0)


def main() -> None:
    """Read the flags, and write the file of a robot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("robot", help="name of the included robot")
    parser.add_argument("urdf", type=Path, help="description with visuals")
    parser.add_argument("--package-path", action="append", default=[], type=Path)
    parser.add_argument(
        "--skip", nargs="*", default=[], help="leave out the meshes of links whose names contain one of these texts"
    )
    parser.add_argument("--triangles", type=int, default=2400, help="maximum number of triangles of a link")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "urdf" / "meshes")
    flags = parser.parse_args()

    ours = Robot(flags.robot)
    theirs = _same_arm(ours, flags.urdf)
    moved = _checked(ours, theirs)
    placements = link_placements(parse_urdf(ours.urdf), ours.base_link, ours.tip_link)
    links = {body: link for link, (body, _) in reversed(placements.items())}
    at_zero = body_poses(ours, np.zeros(ours.dof))[0]
    parts: dict[str, list[trimesh.Trimesh]] = {}
    for placed in body_shapes(theirs, link_shapes(read_urdf_source(flags.urdf), "visual")):
        shape = placed.shape
        if not isinstance(shape, MeshReference) or any(word in placed.link for word in flags.skip):
            continue
        vertices, faces = read_mesh(find_mesh(shape.filename, flags.urdf.parent, flags.package_path), shape.scale)
        link = links[placed.body]
        from_body = np.linalg.inv(placements[link][1]) @ at_zero[placed.body] @ moved[placed.body]
        mesh = trimesh.Trimesh(vertices, faces)
        mesh.apply_transform(from_body @ placed.pose)
        parts.setdefault(link, []).append(mesh)
    arrays: dict[str, npt.NDArray[np.integer]] = {}
    for link, meshes in parts.items():
        whole = trimesh.util.concatenate(meshes)
        simple = _simplified(whole, flags.triangles)
        arrays[f"{link}/vertices"] = np.round(simple.vertices / MESH_UNIT).astype(np.int16)
        arrays[f"{link}/faces"] = simple.faces.astype(np.uint16)
        print(f"{link}: {len(whole.faces)} triangles, now {len(simple.faces)}")
    path = flags.folder / f"{flags.robot}.npz"
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type] # the names are not names of its parameters
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def _same_arm(ours: Robot, urdf: Path) -> Robot:
    """Return the description as a chain that ends at the last joint of the included robot, if that joint exists."""
    robot = Robot(urdf)
    named = [joint.child for joint in parse_urdf(robot.urdf).joints if joint.name == ours.joint_names[-1]]
    return robot.with_tip(named[0]) if named else robot


def _checked(ours: Robot, theirs: Robot) -> npt.NDArray[np.float64]:
    """Return the constant pose (n_bodies, 4, 4) of each body of `theirs` in the frame of our body."""
    assert ours.dof == theirs.dof, (ours.joint_names, theirs.joint_names)
    rows = np.concatenate([np.zeros((1, ours.dof)), ours.random(50, np.random.default_rng(0))])
    relative = np.linalg.inv(body_poses(ours, rows)) @ body_poses(theirs, rows)
    away = float(np.abs(relative - relative[:1]).max())
    assert away < SAME, f"the joints differ by up to {away:.3g}"
    return np.asarray(relative[0])


def _simplified(mesh: trimesh.Trimesh, n: int) -> trimesh.Trimesh:
    mesh.merge_vertices(merge_tex=True, merge_norm=True, digits_vertex=4)  # 0.1 mm
    mesh.update_faces(mesh.nondegenerate_faces() & mesh.unique_faces())
    mesh.remove_unreferenced_vertices()
    if len(mesh.faces) > n:
        points, faces = np.asarray(mesh.vertices, dtype=np.float32), np.asarray(mesh.faces, dtype=np.int32)
        for aggressiveness in (3, 5, 7):  # the first values preserve the shape better, but may stop early
            if len(faces) > n:
                points, faces = fast_simplification.simplify(points, faces, target_count=n, agg=aggressiveness)
        mesh = trimesh.Trimesh(points, faces)
    return trimesh.graph.smooth_shade(mesh, angle=SHARP)


if __name__ == "__main__":
    main()
