"""Meshes of known solids and formulas for distances, as references for collisions of meshes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

__all__ = ["box_distance", "box_mesh", "random_poses", "sphere_mesh", "write_stl"]

BOX_FACES = [
    [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
    [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
]  # fmt: skip


def box_mesh(size: tuple[float, float, float], n_splits: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a box around the origin. Each triangle is split into four, `n_splits` times."""
    vertices = 0.5 * np.array(list(itertools.product(*[(-edge, edge) for edge in size])))
    return split(vertices, np.array(BOX_FACES), n_splits)


def sphere_mesh(radius: float, n_splits: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and faces of a ball, made from a split octahedron by moving the vertices to the sphere."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    faces = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    vertices, faces = split(corners, faces, n_splits)
    return radius * vertices / np.linalg.norm(vertices, axis=1)[:, None], faces


def split(vertices: np.ndarray, faces: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(n):
        corners = vertices[faces]
        middles = 0.5 * (corners + corners[:, [1, 2, 0]])
        points = np.concatenate([corners, middles], axis=1).reshape(-1, 3)
        firsts = 6 * np.arange(len(faces))[:, None, None]
        pattern = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])
        vertices, index = np.unique(points, axis=0, return_inverse=True)
        faces = index.reshape(-1)[(firsts + pattern).reshape(-1, 3)]
    return vertices, faces


def box_distance(points: np.ndarray, size: tuple[float, float, float]) -> np.ndarray:
    """Return the distances [m] of points (n, 3) from a box around the origin. Inside of the box, they are 0."""
    return np.linalg.norm(np.maximum(np.abs(points) - 0.5 * np.asarray(size), 0.0), axis=1)


def random_poses(n: int, reach: float, rng: np.random.Generator) -> np.ndarray:
    """Return poses (n, 4, 4) with random rotations and random positions in a cube."""
    poses = np.tile(np.eye(4), (n, 1, 1))
    turns = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    poses[:, :3, :3] = turns * np.linalg.det(turns)[:, None, None]
    poses[:, :3, 3] = rng.uniform(-reach, reach, (n, 3))
    return poses


def write_stl(path: Path, vertices: np.ndarray, faces: np.ndarray) -> Path:
    """Write a mesh as a binary STL."""
    records = np.zeros(len(faces), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
    records["corners"] = vertices[faces]
    path.write_bytes(b"\0" * 80 + np.uint32(len(faces)).tobytes() + records.tobytes())
    return path
