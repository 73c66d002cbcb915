"""Draw docs/self_motion.gif: a Panda that moves through all solutions of one pose while its hand stays in place.

    python scripts/self_motion.py [--output docs/self_motion.gif]

The arm consists of the capsules of its collision model. The capsules are rendered by ray casting, because the
intersection of a ray with a capsule has a closed form. No graphics card is needed. Each colour is one self-motion
component.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from scipy.spatial.transform import Rotation

from eim_ros import Robot, Sampler

FloatArray = npt.NDArray[np.float64]

ROBOT, POSE = "panda", [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]  # x, y, z [m], quaternion x, y, z, w
SIZE, SCALE = (560, 420), 2  # pixels of a frame; it is rendered larger and then reduced, to smooth edges
COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233))  # colours by Okabe and Ito
PAPER, FLOOR, SHADOW = np.array([255.0] * 3), np.array([240.0, 241.0, 244.0]), np.array([208.0, 210.0, 216.0])
EYE, LOOK_AT, VIEW_ANGLE = np.array([1.35, -1.95, 1.05]), np.array([0.16, 0.0, 0.36]), np.deg2rad(27.0)
SUN = np.array([0.25, -0.45, 1.0]) / np.linalg.norm([0.25, -0.45, 1.0])
FLOOR_RADIUS = 0.58  # [m]
STEP, FRAME_TIME = 0.16, 60  # distance along a component between frames [rad]; duration of a frame [ms]


class Capsules:
    """Capsules of an arm, each between two points of a link."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._parts: list[tuple[Robot | None, FloatArray, float]] = []
        for link in ET.fromstring(robot.urdf).iter("link"):
            name = link.attrib["name"]
            spheres = [shape for shape in link.iter("collision") if shape.find("geometry/sphere") is not None]
            for start, end in zip(spheres[::2], spheres[1::2], strict=True):
                radius = float(start.find("geometry/sphere").attrib["radius"])  # type: ignore[union-attr]  # filtered
                ends = np.array([[float(x) for x in one.find("origin").attrib["xyz"].split()] for one in (start, end)])  # type: ignore[union-attr]  # written by us
                self._parts.append((None if name == robot.base_link else Robot(ROBOT, tip=name), ends, radius))

    def at(self, q: FloatArray) -> list[tuple[FloatArray, FloatArray, float]]:
        """Return the two ends and the radius of each capsule in the base frame [m]."""
        placed = []
        for arm, ends, radius in self._parts:
            pose = np.eye(4) if arm is None else arm.fk(q[: arm.dof])
            placed.append((*(ends @ pose[:3, :3].T + pose[:3, 3]), radius))
        joints = self._robot.skeleton(q)  # thin capsules from joint to joint close the gaps
        return [
            *placed,
            *((a, b, 0.045) for a, b in zip(joints[:-1], joints[1:], strict=True) if np.linalg.norm(b - a) > 0.01),
        ]


class Camera:
    """Perspective camera: a ray for each pixel, and the pixel of a point."""

    def __init__(self, width: int, height: int) -> None:
        forward = (LOOK_AT - EYE) / np.linalg.norm(LOOK_AT - EYE)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        self._axes = np.stack([right, np.cross(forward, right), forward])
        self._centre, self._focal = np.array([width, height]) / 2.0, height / 2.0 / np.tan(VIEW_ANGLE / 2.0)
        columns, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        pixels = np.stack([columns - self._centre[0], rows - self._centre[1], np.full_like(columns, self._focal)], -1)
        self.rays = pixels.reshape(-1, 3) @ self._axes
        self.rays /= np.linalg.norm(self.rays, axis=1, keepdims=True)

    def project(self, points: FloatArray) -> list[tuple[float, float]]:
        seen = (points - EYE) @ self._axes.T
        return [tuple(row) for row in self._centre + self._focal * seen[:, :2] / seen[:, 2:]]


def hits(origins: FloatArray, rays: FloatArray, start: FloatArray, end: FloatArray, radius: float) -> FloatArray:
    """Return the distance along each ray to a capsule. The distance is infinite if the ray misses the capsule."""
    axis, from_start = end - start, origins - start
    length2 = axis @ axis
    along_ray, along_origin = rays @ axis, from_start @ axis
    a = length2 - along_ray**2
    b = length2 * np.sum(rays * from_start, -1) - along_origin * along_ray
    c = length2 * (np.sum(from_start**2, -1) - radius**2) - along_origin**2
    found = np.full(len(rays), np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = (-b - np.sqrt(b * b - a * c)) / a
        on_side = along_origin + distance * along_ray
    is_side = np.isfinite(distance) & (on_side > 0.0) & (on_side < length2) & (distance > 0.0)
    found[is_side] = distance[is_side]
    for centre in (start, end):
        offset = origins - centre
        b = np.sum(rays * offset, -1)
        inside = b * b - np.sum(offset**2, -1) + radius**2
        distance = -b - np.sqrt(np.maximum(inside, 0.0))
        found = np.where((inside > 0.0) & (distance > 0.0), np.minimum(found, distance), found)
    return found


def render(camera: Camera, capsules: list[tuple[FloatArray, FloatArray, float]], colour: FloatArray) -> FloatArray:
    """Return the colour of each pixel (n, 3): the arm, the floor with the arm's shadow, or the background."""
    origins = np.broadcast_to(EYE, camera.rays.shape)
    distances = np.stack([hits(origins, camera.rays, *capsule) for capsule in capsules])
    nearest, distance = distances.argmin(0), distances.min(0)
    to_floor = -EYE[2] / np.where(camera.rays[:, 2] < 0.0, camera.rays[:, 2], -1e-9)
    on_floor = EYE + to_floor[:, None] * camera.rays
    is_floor = (np.linalg.norm(on_floor[:, :2], axis=1) < FLOOR_RADIUS) & (to_floor < distance)
    image = np.where(is_floor[:, None], FLOOR, PAPER)
    lines = is_floor & (np.abs((on_floor[:, :2] + 0.1) % 0.2 - 0.1).min(1) < 0.002)
    image[lines] = PAPER
    floor = on_floor[is_floor]
    is_dark = np.zeros(len(floor), dtype=bool)
    for capsule in capsules:
        is_dark |= np.isfinite(hits(floor, np.broadcast_to(SUN, floor.shape), *capsule))
    image[np.flatnonzero(is_floor)[is_dark]] = SHADOW
    for index, (start, end, _) in enumerate(capsules):
        rows = np.flatnonzero((nearest == index) & np.isfinite(distance) & ~is_floor)
        points = EYE + distance[rows, None] * camera.rays[rows]
        share = np.clip((points - start) @ (end - start) / max((end - start) @ (end - start), 1e-12), 0.0, 1.0)
        normals = points - start - share[:, None] * (end - start)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        light = 0.45 + 0.55 * np.clip(normals @ SUN, 0.0, 1.0)
        facing = np.abs(np.sum(normals * camera.rays[rows], -1))
        # Adjacent capsules must differ in colour.
        tint = (0.85 if index % 2 else 0.68) * colour + (38.0 if index % 2 else 80.0)
        image[rows] = np.clip(tint * (light * (0.7 + 0.3 * facing))[:, None] + 45.0 * (light[:, None] - 0.6), 0, 255)
    return image


def components(robot: Robot, spacing: float = STEP) -> list[FloatArray]:
    """Return the self-motion components of the pose, in the order in which the arm moves through each component."""
    rows = Sampler(robot).solve_all(POSE, max_spacing=spacing, guarantee="certified", timeout=60.0).q
    left, found = list(range(len(rows))), []
    while left:
        chain = [left.pop(0)]
        for end in (-1, 0):  # rows forward from the first row, then rows backward
            while left:
                gaps = np.linalg.norm(rows[left] - rows[chain[end]], axis=1)
                if gaps.min() > 3.0 * spacing:
                    break
                chain.insert(len(chain) if end else 0, left.pop(int(gaps.argmin())))
        found.append(rows[chain])
    return sorted(found, key=len, reverse=True)


def draw_lines(image: Image.Image, camera: Camera, robot: Robot, chosen: int, found: list[FloatArray]) -> None:
    """Draw the path of the elbow in each component, and the axes of the pose."""
    pen = ImageDraw.Draw(image)
    for index, rows in enumerate(found):
        elbows = np.stack([robot.skeleton(q) for q in rows])[:, 4]
        pen.line(
            camera.project(elbows), fill=COLOURS[index], width=SCALE * (4 if index == chosen else 2), joint="curve"
        )
    target, turn = np.array(POSE[:3]), Rotation.from_quat(POSE[3:]).as_matrix()
    for axis, colour in zip(turn.T, ((213, 94, 0), (0, 158, 115), (0, 114, 178)), strict=True):
        pen.line(camera.project(np.stack([target, target + 0.12 * axis])), fill=colour, width=SCALE * 3)


def main() -> None:
    """Compute the solutions, render one frame per solution, and write an animation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/self_motion.gif"))
    parser.add_argument("--frames", type=int, help="draw only this number of frames")
    args = parser.parse_args()
    robot = Robot(ROBOT)
    found, capsules = components(robot), Capsules(robot)
    camera = Camera(SIZE[0] * SCALE, SIZE[1] * SCALE)
    frames = [(index, q) for index, rows in enumerate(found) for q in (*rows, *rows[::-1])][: args.frames]
    images = []
    for index, q in frames:
        pixels = render(camera, capsules.at(q), np.array(COLOURS[index], dtype=float))
        image = Image.fromarray(pixels.reshape(SIZE[1] * SCALE, SIZE[0] * SCALE, 3).astype(np.uint8))
        draw_lines(image, camera, robot, index, found)
        images.append(image.resize(SIZE, Image.Resampling.LANCZOS))
    palette = Image.new("RGB", (SIZE[0], SIZE[1] * len(found)))
    for index in range(len(found)):
        first = next(i for i, frame in enumerate(frames) if frame[0] == index) if args.frames is None else 0
        palette.paste(images[first], (0, SIZE[1] * index))
    colours = palette.quantize(96)
    flat = [image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images]
    flat[0].save(args.output, save_all=True, append_images=flat[1:], duration=FRAME_TIME, loop=0, optimize=True)
    print(f"{args.output}: {len(flat)} frames, {args.output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
