"""`eim place`: where the base of an arm must stand, so that it reaches given poses."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eim_ros.cli.flags import count, device_flag, flag, json_flag, positive, quiet_flag, seed_flag, whole
from eim_ros.cli.options import ConstraintFlags, SettingFlags, Source, check_pose_length, setting_names
from eim_ros.cli.sample import read_rows
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import to_json


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rate positions of the base on a grid by the poses that the arm reaches, and refine the best bases.

    Poses and obstacles are given in the world. The exit code is 1 if no base reaches all poses.
    """

    source: Source
    constraints: ConstraintFlags
    settings: SettingFlags
    pose: tuple[tuple[float, ...], ...] = flag(
        (),
        "Position [m] and quaternion of the tip in the world.",
        repeated=True,
        metavar="X Y Z QX QY QZ QW",
    )
    poses: str | None = flag(
        None,
        "Text file with one pose per line, in the form of --pose, with spaces or commas between numbers.",
        metavar="FILE",
    )
    x: tuple[float, float] | None = flag(
        None,
        "Range of the base link's x in the world [m] (default: every x from which a pose may be in reach).",
        metavar="LOWER UPPER",
    )
    y: tuple[float, float] | None = flag(
        None, "Range of the base link's y in the world [m] (default: as for --x).", metavar="LOWER UPPER"
    )
    z: float = flag(0.0, "Height of the base link in the world [m].", is_expert=True)
    spacing: float = flag(0.1, "Distance between neighbouring positions of the base [m].", read=positive)
    yaws: int = count(
        1,
        "Number of directions of the base. One direction is enough if the first joint can make a complete revolution.",
        is_expert=True,
    )
    criterion: Literal["manipulability", "components", "length"] = flag(
        "manipulability",
        "Quantity that ranks bases which reach the same number of poses: its value at the worst pose.",
    )
    refine: int = flag(3, "Number of bases to refine.", read=whole(0), is_expert=True)
    top: int = count(5, "Number of bases to print.", is_expert=True)
    seed: int = seed_flag(is_expert=True)
    device: str | None = device_flag(is_expert=True)
    quiet: bool = quiet_flag(is_expert=True)
    json: bool = json_flag()

    @classmethod
    def setting_names(cls, words: Sequence[str]) -> list[str]:
        """Return the names of the settings, which may also be given as flags."""
        return setting_names()

    def run(self) -> int:
        from eim_ros.cli.progress import Bar
        from eim_ros.ik.placement import base_grid, place_base
        from eim_ros.kinematics import pose_from

        rows = [*self.pose, *(read_rows(self.poses) if self.poses else ())]
        if not rows:
            raise ConfigurationError(
                "there are no poses to reach: give a pose by --pose, or a file with poses by --poses"
            )
        for row in rows:
            check_pose_length(row)
        settings = self.settings.read()
        constraints = self.constraints.build(settings.constraints, has_orientation=len(rows[0]) == 7)
        sampler = self.source.sampler(settings.tool()).with_constraints(dataclasses.replace(constraints, obstacles=()))
        poses = [pose_from(row[:3], row[3:] or None) for row in rows]
        reach = sampler.robot.reach
        x, y = (
            (min(row[axis] for row in rows) - reach, max(row[axis] for row in rows) + reach) if given is None else given
            for axis, given in enumerate((self.x, self.y))
        )
        bases = base_grid(x, y, self.spacing, n_yaws=self.yaws, z=self.z)
        with Bar("place", enabled=not self.quiet, unit="bases") as bar:
            found = place_base(
                sampler,
                poses,
                bases,
                obstacles=constraints.obstacles,
                criterion=self.criterion,
                n_refined=self.refine,
                seed=self.seed,
                progress=bar.show,
                device=self.device,
            )
        best = found.rows(range(min(self.top, len(found))))
        if self.json:
            print(to_json(_figures(best, len(found))))
        else:
            _show(best, len(poses))
        return int(best.n_reached[0] < len(poses))


def _figures(best: Any, n_bases: int) -> dict[str, Any]:
    """Return the best bases as a mapping for JSON. Poses out of reach have no configuration."""
    return {
        "bases": n_bases,
        "best": [
            {
                "base": best.bases[i].tolist(),
                "reached": int(best.n_reached[i]),
                "solutions": best.n_solutions[i].tolist(),
                "components": best.n_components[i].tolist(),
                "length": best.length[i].tolist(),
                "manipulability": best.manipulability[i].tolist(),
                "positions": [
                    q.tolist() if reached else None for q, reached in zip(best.q[i], best.reached[i], strict=True)
                ],
            }
            for i in range(len(best))
        ],
    }


def _show(best: Any, n_poses: int) -> None:
    """Print a table of the best bases. Columns after the fifth refer to the worst pose within reach."""
    print("   x [m]   y [m]   z [m]  yaw [rad]  reached  components  length  manipulability")
    worst = [best.worst(name) for name in ("components", "length", "manipulability")]
    for (x, y, z, yaw), reached, *values in zip(best.bases, best.n_reached, *worst, strict=True):
        components, length, manipulability = values
        share = f"{reached}/{n_poses}"
        print(f"{x:8.3f}{y:8.3f}{z:8.3f}{yaw:11.3f}{share:>9}{components:12.0f}{length:8.2f}{manipulability:16.4f}")
