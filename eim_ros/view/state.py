"""State of the page as text: a link, a Python program, or a request of the service `sample_ik` in YAML.

A link such as http://127.0.0.1:8080/?robot=panda&pose=0.4,0.1,0.5,1,0,0,0 restores the state on any page. Positions are
in metres, angles in radians, quaternions in the order x, y, z, w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import numpy.typing as npt
import yaml

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import Box, Robot, Sphere, pose_from, quaternion_from_matrix

DIGITS = 6  # number of decimals of lengths, angles and quaternions
MOST_OBSTACLES = 20  # maximum number of obstacles in a link and on the page


@dataclass(frozen=True, eq=False)
class ViewState:
    """Robot, request and chosen configuration of a page.


    Examples
    --------
    >>> from eim_ros.view.state import ViewState
    >>> state = ViewState.from_link("http://127.0.0.1:8080/?robot=ur5e&pose=0.4,0.1,0.5&sphere=0.4,0,0.2,0.1")
    >>> state.robot, state.obstacles[0].radius
    ('ur5e', 0.1)
    """

    # names of an included robot and of its tip link; empty if a link does not contain them
    robot: str = ""
    tip: str = ""
    pose: FloatArray | None = None  # target in the base frame, or None if a link does not contain it
    q: FloatArray | None = None  # chosen configuration [rad] or [m], or None
    # whether every orientation is accepted, and whether self-collisions are rejected
    position_only: bool = False
    self_collision: bool = False
    obstacles: Sequence[Box | Sphere] = ()  # obstacles in the base frame

    @classmethod
    def from_link(cls, link: str) -> ViewState:
        """Return the state in a link, or in the text of a link after the question mark.

        Raises
        ------
        ConfigurationError
            If a value is malformed.
        """
        words = parse_qs(urlsplit(link).query or link.rpartition("?")[2])
        pose, q = _numbers(words, "pose", (3, 7)), _numbers(words, "q", None)
        obstacles: list[Box | Sphere] = [
            Box(pose_from(box[:3], box[6:] or None), box[3:6]) for box in _lists(words, "box", (6, 10))
        ]
        obstacles += [Sphere(ball[:3], ball[3]) for ball in _lists(words, "sphere", (4,))]
        if len(obstacles) > MOST_OBSTACLES:
            raise ConfigurationError(f"a link can have at most {MOST_OBSTACLES} obstacles, got {len(obstacles)}")
        return cls(
            _word(words, "robot"),
            _word(words, "tip"),
            None if pose is None else pose_from(pose[:3], pose[3:] or None),
            None if q is None else np.array(q),
            _word(words, "any_orientation") == "1",
            _word(words, "self_collision") == "1",
            obstacles,
        )

    @property
    def query(self) -> str:
        """Text of a link after the question mark."""
        parts = {"robot": self.robot, "tip": self.tip}
        pairs = [(name, quote(value, safe="")) for name, value in parts.items() if value]
        if self.pose is not None:
            pairs.append(("pose", _joined(_seven(self.pose))))
        if self.q is not None:
            pairs.append(("q", _joined(self.q)))
        pairs += [
            (name, "1")
            for name, is_set in (("any_orientation", self.position_only), ("self_collision", self.self_collision))
            if is_set
        ]
        for shape in self.obstacles:
            if isinstance(shape, Box):
                values = [*_seven(shape.pose)[:3], *_rounded(shape.size), *_seven(shape.pose)[3:]]
                pairs.append(("box", _joined(values)))
            else:
                pairs.append(("sphere", _joined([*shape.pose[:3, 3], shape.radius])))
        return "&".join(f"{name}={value}" for name, value in pairs)

    def python(self, robot: Robot, source: str = "") -> str:
        """Return a program that makes the same request, with the chosen configuration.

        `source` is the file of the robot, if the robot is not an included one.
        """
        pose = [] if self.pose is None else _seven(self.pose)
        lines = ["from eim_ros import Sampler"]
        changes = ["self_collision=True"] if self.self_collision else []
        if self.position_only:
            changes.append("position_only=True")
        if self.obstacles:
            kinds = sorted({type(shape).__name__ for shape in self.obstacles})
            lines = [f"from eim_ros import {', '.join([*kinds, 'Sampler'])}"]
            changes.append("obstacles=obstacles")
        lines += ["", f"sampler = Sampler({(source or robot.name)!r}, tip={robot.tip_link!r})"]
        if self.obstacles:
            lines += ["obstacles = [", *(f"    {_called(shape)}," for shape in self.obstacles), "]"]
        if changes:
            lines.append(f"sampler = sampler.with_constraints({', '.join(changes)})")
        lines.append(f"pose = {_list(pose)}  # x, y, z [m], quaternion x, y, z, w")
        if self.q is not None:
            lines.append(f"q = {_list(_rounded(self.q))}  # {', '.join(robot.joint_names)}")
        near = "" if self.q is None else ", near=q"
        lines += [f"solution = sampler.solve(pose{near}, seed=0)", "solutions = sampler.sample(pose, 50, seed=0)"]
        return "\n".join(lines) + "\n"

    def yaml(self, robot: Robot) -> str:
        """Return the request of the service `sample_ik`, with the chosen configuration as `near`."""
        request: dict[str, object] = {}
        if self.pose is not None:
            request["poses"] = [_pose_fields(self.pose)]
        request["n_samples"] = 50
        if self.q is not None:
            request["near"] = {"name": list(robot.joint_names), "position": _rounded(self.q)}
        constraints: dict[str, object] = {"tip_link": robot.tip_link}
        if self.position_only:
            constraints["position_only"] = True
        if self.self_collision:
            constraints["avoid_self_collision"] = True
        if self.obstacles:
            constraints["scene"] = {
                "primitives": [
                    {"type": 1, "dimensions": _rounded(shape.size)}
                    if isinstance(shape, Box)
                    else {"type": 2, "dimensions": _rounded([shape.radius])}
                    for shape in self.obstacles
                ],
                "primitive_poses": [_pose_fields(shape.pose) for shape in self.obstacles],
            }
        request["constraints"] = constraints
        text = yaml.safe_dump(request, sort_keys=False, default_flow_style=None, width=100)
        return f"# request of eim_ros/srv/SampleIK for {robot.name}\n{text}"


def _word(words: dict[str, list[str]], name: str) -> str:
    return words.get(name, [""])[-1]


def _lists(words: dict[str, list[str]], name: str, lengths: tuple[int, ...] | None) -> list[list[float]]:
    found = []
    for text in words.get(name, []):
        try:
            values = [float(word) for word in text.split(",")]
        except ValueError:
            raise ConfigurationError(
                f"{name} in the link must be numbers with commas in between, got {text!r}", text
            ) from None
        if not np.isfinite(values).all() or (lengths is not None and len(values) not in lengths):
            expected = "finite" if lengths is None else " or ".join(map(str, lengths))
            raise ConfigurationError(f"{name} in the link must have {expected} numbers, got {text!r}", text)
        found.append(values)
    return found


def _numbers(words: dict[str, list[str]], name: str, lengths: tuple[int, ...] | None) -> list[float] | None:
    found = _lists(words, name, lengths)
    return found[-1] if found else None


def _rounded(values: npt.ArrayLike) -> list[float]:
    return [round(float(value), DIGITS) + 0.0 for value in np.asarray(values, dtype=np.float64).ravel()]


def _seven(pose: npt.ArrayLike) -> list[float]:
    """Return a pose (4, 4) as seven numbers: x, y, z and a quaternion x, y, z, w."""
    matrix = np.asarray(pose, dtype=np.float64)
    return [*_rounded(matrix[:3, 3]), *_rounded(quaternion_from_matrix(matrix))]


def _joined(values: npt.ArrayLike) -> str:
    return ",".join(f"{value:g}" if value == round(value, 5) else f"{value}" for value in _rounded(values))


def _list(values: Sequence[float]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _called(shape: Box | Sphere) -> str:
    if isinstance(shape, Sphere):
        return f"Sphere({_list(_rounded(shape.pose[:3, 3]))}, {_rounded([shape.radius])[0]})"
    return f"Box({_list(_rounded(shape.size))}, at={_list(_seven(shape.pose))})"


def _pose_fields(pose: npt.ArrayLike) -> dict[str, dict[str, float]]:
    values = _seven(pose)
    return {
        "position": dict(zip("xyz", values[:3], strict=True)),
        "orientation": dict(zip("xyzw", values[3:], strict=True)),
    }
