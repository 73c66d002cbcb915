"""Run the examples and draw a picture of each for examples/README.md.

    python scripts/gallery.py [NAME ...]

A picture shows results of the example. Pictures have at most 60 kB.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros import EIM, EM, Box, Robot, Sampler

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PICTURES = EXAMPLES / "pictures"
MOST_BYTES = 60_000
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
Values = dict[str, Any]


def arms(figure: Figure, view: tuple[float, float] = (20.0, -60.0), place: int = 111, title: str = "") -> Any:
    """Return axes in three dimensions without ticks."""
    axes = figure.add_subplot(place, projection="3d", title=title)
    axes.view_init(*view)
    axes.set(xticklabels=[], yticklabels=[], zticklabels=[])
    return axes


def draw_arms(
    axes: Any, robot: Robot, q: np.ndarray, color: str, base: np.ndarray | None = None, width: float = 1.0
) -> None:
    """Draw configurations (n, dof) as lines from joint to joint."""
    frame = np.eye(4) if base is None else base
    for row in robot.skeleton(np.atleast_2d(q)) @ frame[:3, :3].T + frame[:3, 3]:
        axes.plot(*row.T, color=color, lw=width, marker=".", ms=3, alpha=0.8)
    axes.set_aspect("equal")


def draw_boxes(axes: Any, boxes: Iterable[Box]) -> None:
    """Draw the edges of boxes."""
    corners = np.array(np.meshgrid([-0.5, 0.5], [-0.5, 0.5], [-0.5, 0.5], indexing="ij")).reshape(3, -1).T
    pairs = [(i, j) for i in range(8) for j in range(i) if np.abs(corners[i] - corners[j]).sum() == 1.0]
    for box in boxes:
        pose = np.asarray(box.pose)
        points = (corners * box.size) @ pose[:3, :3].T + pose[:3, 3]
        for pair in pairs:
            axes.plot(*points[list(pair)].T, color=GREY, lw=0.7)
    axes.set_aspect("equal")


def all_solutions(figure: Figure, values: Values) -> None:
    """Draw 60 solutions of one pose."""
    draw_arms(arms(figure), values["sampler"].robot, values["samples"].q[:60], BLUE, width=0.6)


def attached_object(figure: Figure, values: Values) -> None:
    """Draw the first and the last configuration in the shelf."""
    axes, robot, path = arms(figure, (15.0, -110.0)), values["loaded"], values["path"].q
    for q in (path[0], path[-1]):
        draw_arms(axes, robot, q, BLUE, width=2.0)
        flange = robot.fk(q)
        rod = (flange @ np.array([[0.0, -0.25, 0.12, 1.0], [0.0, 0.25, 0.12, 1.0]]).T)[:3]
        axes.plot(*rod, color=ORANGE, lw=5.0)
    draw_boxes(axes, values["shelf"])


def base_placement(figure: Figure, values: Values) -> None:
    """Draw the poses reached from each base."""
    axes, found = figure.add_subplot(111, xlabel="x [m]", ylabel="y [m]", aspect="equal"), values["found"]
    drawn = axes.scatter(*found.bases[:, :2].T, c=found.n_reached, marker="s", s=50, cmap="Blues")
    figure.colorbar(drawn, label="poses reached", ticks=range(len(values["poses"]) + 1))
    axes.scatter(*values["poses"][:, :2, 3].T, color=ORANGE, marker="x", label="poses")
    axes.scatter(*found.bases[0, :2], color=GREEN, marker="*", s=120, label="best base")
    axes.legend(loc="lower right", fontsize=7)


def branches(figure: Figure, values: Values) -> None:
    """Draw eight solutions, coloured by their elbow."""
    robot, found = Robot("ur5e"), values["solutions"]
    axes = arms(figure)
    for label, color in (("up", BLUE), ("down", ORANGE)):
        draw_arms(axes, robot, found.q[found.branches["elbow"] == label], color, width=1.5)
    axes.set_title("elbow up and down", fontsize=9)


def continuous_joints(figure: Figure, values: Values) -> None:
    """Draw the first joint while the tip moves along a circle."""
    axes, first = figure.add_subplot(111, xlabel="pose", ylabel="first joint [rad]"), values["path"].q[:, 0]
    axes.plot((first + np.pi) % (2.0 * np.pi) - np.pi, color=ORANGE, lw=1.0, label="between -pi and pi")
    axes.plot(first, color=BLUE, label="follow")
    axes.legend(fontsize=8)


def goal_set(figure: Figure, values: Values) -> None:
    """Draw the ten nearest goals and the start."""
    axes, robot = arms(figure), Robot("panda")
    goals = Sampler(robot).sample([0.3, -0.4, 0.4, 1.0, 0.0, 0.0, 0.0], 10, near=values["READY"], seed=0)
    draw_arms(axes, robot, goals.q, BLUE, width=0.8)
    draw_arms(axes, robot, values["READY"], ORANGE, width=2.5)


def mixture(figure: Figure, values: Values) -> None:
    """Draw both means."""
    axes, samples = figure.add_subplot(111, aspect="equal"), values["samples"].numpy()
    axes.scatter(*samples.T, s=2, color=GREY)
    for learner, color in ((EM, ORANGE), (EIM, BLUE)):
        mean = learner(n_components=1, n_iterations=30, seed=0).fit(values["samples"]).means.numpy()[0]
        axes.scatter(*mean, color=color, marker="x", s=80, label=f"mean by {learner.__name__}")
    axes.legend(fontsize=8)


def mobile_base(figure: Figure, values: Values) -> None:
    """Draw the paths of the hand and the base from above."""
    axes = figure.add_subplot(111, xlabel="x [m]", ylabel="y [m]", aspect="equal")
    axes.plot(*values["poses"][:, :2, 3].T, color=GREY, lw=3.0, label="hand")
    axes.plot(*np.array(values["rows"])[:, :2].T, color=ORANGE, label="base, pose by pose")
    axes.plot(*values["path"].q[:, :2].T, color=BLUE, label="base, follow")
    axes.legend(fontsize=7)


def moveit_client(figure: Figure, values: Values) -> None:
    """Draw the solution and the state before."""
    axes, robot = arms(figure), Robot("panda")
    ready = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
    draw_arms(axes, robot, np.array(ready), GREY, width=2.0)
    draw_arms(
        axes, robot, Sampler(robot).solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], near=ready, seed=0).q, BLUE, width=2.0
    )


def own_experts(figure: Figure, values: Values) -> None:
    """Draw the log-likelihood of the test data."""
    names, scores = zip(*reversed(values["scores"].items()), strict=True)
    axes = figure.add_subplot(111, xlabel="log density of test data [nat]")
    axes.barh(names, scores, color=(BLUE, GREY))


def path_without_jumps(figure: Figure, values: Values) -> None:
    """Draw the path over the table."""
    axes, robot, path = arms(figure), values["sampler"].robot, values["path"].q
    draw_arms(axes, robot, path[::6], BLUE, width=0.7)
    axes.plot(*values["table"][:, :3, 3].T, color=ORANGE, lw=2.5)


def pick_among_obstacles(figure: Figure, values: Values) -> None:
    """Draw some configurations and the best one."""
    axes = arms(figure, (25.0, -40.0))
    draw_boxes(axes, values["obstacles"])
    draw_arms(axes, values["robot"], values["every"][::8], BLUE, width=0.5)
    draw_arms(axes, values["robot"], values["best"], ORANGE, width=2.5)


def replace_ikfast(figure: Figure, values: Values) -> None:
    """Draw the number of poses with each number of solutions."""
    axes = figure.add_subplot(111, xlabel="solutions of a pose", ylabel="poses", xticks=range(1, 9))
    axes.hist(values["counts"], np.arange(0.5, 9.5), color=BLUE)
    axes.set_title("calibrated UR5e", fontsize=9)


def short_arms(figure: Figure, values: Values) -> None:
    """Draw the solutions of both poses."""
    axes = arms(figure)
    for pose, color in zip(values["poses"].values(), (BLUE, ORANGE), strict=True):
        draw_arms(axes, values["robot"], values["turned"].solve_all(pose).q, color, width=2.0)


def tool_calibration(figure: Figure, values: Values) -> None:
    """Draw the measured joint angles, and the joint angles for the calibrated tool."""
    axes = figure.add_subplot(111, xlabel="measured [rad]", ylabel="error [rad]", yscale="log")
    measured, tips = values["measured"].numpy(), values["tips"].numpy()
    for tool, color, label in (([0.0] * 3, ORANGE, "without a tool"), (values["offset"].tolist(), BLUE, "found tool")):
        q = values["sampler"].with_tool(tool).solve_batch(tips, near=values["home"], seed=0).q
        axes.plot(measured.ravel(), np.abs(q - measured).ravel(), ".", color=color, label=label)
    axes.legend(fontsize=8)


def two_arms(figure: Figure, values: Values) -> None:
    """Draw six solutions with the same relative pose."""
    axes, q, pair = arms(figure, (15.0, 20.0)), values["anywhere"].q[:6], values["pair"]
    left = Robot(values["urdf"], base="world", tip=pair.base_link)
    for row, color in zip(q, (BLUE, ORANGE, GREEN) * 2, strict=True):
        draw_arms(axes, pair, row, color, left.fk(row[6::-1]))


DRAWINGS: dict[str, Callable[[Figure, Values], None]] = {
    each.__name__: each
    for each in (
        all_solutions, attached_object, base_placement, branches, continuous_joints, goal_set, mixture, mobile_base,
        moveit_client, own_experts, path_without_jumps, pick_among_obstacles, replace_ikfast, short_arms,
        tool_calibration, two_arms,
    )
}  # fmt: skip


def draw(name: str) -> Path:
    """Run an example and draw its picture. `moveit_client` is not run, because it needs a server."""
    values: Values = {}
    if name != "moveit_client":
        with contextlib.redirect_stdout(io.StringIO()):
            values = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    figure = Figure(figsize=(4.0, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    DRAWINGS[name](figure, values)
    path = PICTURES / f"{name}.png"
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(path, dpi=80, metadata={"Software": ""})
    if (n := path.stat().st_size) > MOST_BYTES:
        raise SystemExit(f"{path} has {n} bytes, but at most {MOST_BYTES} are allowed: draw fewer lines")
    return path


def main() -> None:
    """Draw the pictures of the examples in the arguments, or of all examples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*DRAWINGS, []], help="examples (default: all)")
    for name in parser.parse_args().names or DRAWINGS:
        print(draw(name).relative_to(EXAMPLES))


if __name__ == "__main__":
    main()
