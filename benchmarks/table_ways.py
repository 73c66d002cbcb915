"""Share of colliding raw draws of EM and EIM for a Panda that reaches around a post on either side.

    python -m benchmarks.table_ways [--seeds 5] [--output benchmarks/results/table_ways.txt]
    python -m benchmarks.table_ways --picture docs/pictures/table_ways.png

The data are config/demonstrations/panda_table.npz. The last 50 of 250 motions are held out. Both learners have their
default settings. The row "start" is the start of EIM, without any iteration. In the row "EIM net", EIM has only the
classifier of the thesis, so it starts from the fit by EM. The row "EIM+kin" is EIM with forward kinematics as inputs,
the default of `eim train`. The seed is the seed of the learner. Each row is computed from 20 raw draws of
`Sampler.propose` at each of 100 held-out poses.

The column "collide" is the share of draws that touch the post, the table or the arm itself. The column "solved" is the
same share after `Sampler.sample` has moved draws to up to 20 solutions per pose, without knowledge of the obstacles. A
draw counts as "left" or "right" if all joints are within 0.5 rad of a demonstration on that side. The column "distance"
is the median distance of the flange from its pose [m]. The column "log-lik" is the mean log density of held-out
demonstrations [nat]. Times are CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from scipy.spatial import ConvexHull, KDTree
from scipy.spatial.transform import Rotation

from benchmarks._machine import processor
from eim_ros import Sampler
from eim_ros.core.data_set import DataSet, load_data_set
from eim_ros.ik import IKModel, SmoothingConfig, Training
from eim_ros.kinematics import pose_from, share_path
from eim_ros.kinematics.collision import CollisionModel
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.view.picture import (
    ARMS,
    GROUND,
    LINES,
    TARGET,
    Camera,
    draw_arm_lines,
    draw_base,
    draw_solid_arms,
    draw_target,
    fit_view,
)
from eim_ros.view.style import GROUP_COLOURS, INK, MUTED, new_figure, write_figure
from experiments.table_demonstrations import N_POINTS, OBSTACLES, POST, ROBOT, demonstrator, reach, swivel

FloatArray = npt.NDArray[np.float64]

N_HELD_OUT = 50 * N_POINTS  # number of held-out rows, which are at the end
EVERY = N_POINTS // 2  # two poses of each motion are judged
N_DRAWS = 20  # number of draws at each pose
NEAR = 0.5  # [rad]
LEARNERS = ("EM", "start", "EIM", "EIM net", "EIM+kin")
ROWS = (*((name, 1) for name in LEARNERS), *((name, 2) for name in LEARNERS), ("EM", 4), ("EM", 8))

POSE = pose_from([0.56, 0.0, 0.22], [1.0, 0.0, 0.0, 0.0])  # pose of the picture
TURN = Rotation.from_euler("ZX", [115.0, 58.0], degrees=True)  # view from the front, from above and from the left
CAMERA = Camera(TURN.as_matrix().T, np.array([0.3, 0.0, 0.3]), distance=3.5)
SHOWN_TABLE = np.array([[0.2, -0.4], [0.75, -0.4], [0.75, 0.35], [0.2, 0.35]])  # visible part of the table, x and y [m]
N_LINES = 60  # number of arms per panel
FREE, COLLIDES = GROUP_COLOURS[0], "#D55E00"


def all_data() -> DataSet:
    """Return the included demonstrations."""
    return load_data_set(share_path("config/demonstrations/panda_table.npz"))


def data_sets() -> tuple[DataSet, DataSet]:
    """Return the demonstrations for training and the held-out demonstrations."""
    data = all_data()
    parts = slice(-N_HELD_OUT), slice(-N_HELD_OUT, None, EVERY)
    training, held_out = (DataSet(data.context[part], data.sample[part], data.description) for part in parts)
    return training, held_out


def fitted(learner: str, n_experts: int, seed: int, data: DataSet) -> IKModel:
    """Fit the model of a row."""
    if learner == "EIM+kin":
        training = Training(EIMConfig.kinematic(n_components=n_experts), seed=seed, smoothing=SmoothingConfig())
    else:
        eim = EIMConfig(n_components=n_experts)
        configs = {
            "EM": EMConfig(n_components=n_experts),
            "start": eim.replace(n_iterations=0),
            "EIM": eim,
            "EIM net": eim.replace(**{"n_iterations": 300, "ratio.estimator": "network"}),
        }
        training = Training(configs[learner], seed=seed)
    return training.run(data, ROBOT).model


def colliding(q: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which configurations (n, 7) touch the post, the table or the arm itself."""
    return CollisionModel(ROBOT).scene(True, OBSTACLES, 0.0).colliding(q)


def judged(model: IKModel, held_out: DataSet, demonstrated: FloatArray) -> dict[str, float]:
    """Return the columns of the table for a model.

    Parameters
    ----------
    model : IKModel
    held_out : DataSet
    demonstrated : (n, 7)
        Configurations that define both ways around the post.
    """
    sampler, poses = Sampler(model=model), ROBOT.fk(held_out.sample)
    answers = [sampler.propose(pose, N_DRAWS, seed=seed) for seed, pose in enumerate(poses)]
    q = np.concatenate([answer.q for answer in answers])
    settings = {"order": "none", "diversity": 0.0, "timeout": 10.0}
    solved = [sampler.sample(pose, N_DRAWS, seed=seed, **settings).q for seed, pose in enumerate(poses)]
    is_right = swivel(demonstrated) > 0.0
    far = [KDTree(demonstrated[side]).query(q, p=np.inf)[0] for side in (~is_right, is_right)]
    density = model.mixture.log_prob(torch.from_numpy(held_out.context), torch.from_numpy(held_out.sample))
    return {
        "collide": float(colliding(q).mean()),
        "solved": float(colliding(np.concatenate(solved)).mean()),
        "left": float((far[0] < NEAR).mean()),
        "right": float((far[1] < NEAR).mean()),
        "distance": float(np.median(np.concatenate([answer.position_error for answer in answers]))),
        "log-lik": float(density.mean()),
    }


def report(n_seeds: int, output: Path | None) -> None:
    """Print the table, and write it to a file."""
    training, held_out = data_sets()
    lines = [
        f"Panda around a post, {len(training)} pairs, {len(held_out)} held-out poses, {N_DRAWS} draws each",
        f"torch {torch.__version__}, {processor()}",
        f"{'learner':8} {'experts':>7} {'seed':>4} {'collide':>8} {'solved':>8} {'left':>8} {'right':>8} "
        f"{'distance':>9} {'log-lik':>9} {'CPU [s]':>8}",
    ]
    print("\n".join(lines), flush=True)
    with_one = {}
    for learner, n_experts in ROWS:
        rows: list[dict[str, float]] = []
        for seed in [*range(n_seeds), "mean"]:
            if seed == "mean":
                row = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
            else:
                began = time.process_time()
                model = fitted(learner, n_experts, int(seed), training)
                seconds = time.process_time() - began
                row = {**judged(model, held_out, training.sample), "seconds": seconds}
                rows.append(row)
            lines.append(
                f"{learner:8} {n_experts:7} {seed:>4} {row['collide']:8.1%} {row['solved']:8.1%} {row['left']:8.1%} "
                f"{row['right']:8.1%} {row['distance']:9.3f} {row['log-lik']:9.4g} {row['seconds']:8.2f}"
            )
            print(lines[-1], flush=True)
        if n_experts == 1:
            with_one[learner] = np.array([row["collide"] for row in rows])
    ratio = with_one["EIM"] / with_one["EM"]
    lines.append(f"one expert: draws of EIM collide {ratio.mean():.2f} times as often, at most {ratio.max():.2f} times")
    print(lines[-1], flush=True)
    if output:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw(path: Path) -> None:
    """Draw demonstrations, and raw draws of both learners with one expert, for one pose."""
    rng, sampler = np.random.default_rng(0), demonstrator()
    chosen: list[FloatArray] = []
    while len(chosen) < N_LINES:
        q = reach(sampler, POSE, rng)
        chosen += [q] if q is not None else []
    shown = np.array(chosen)
    models = fitted("EM", 1, 0, all_data()), IKModel.load("panda_table")
    em, eim = (Sampler(model=model).propose(POSE, 1000, seed=0).q for model in models)
    one_of_each = shown[[np.argmin(np.abs(swivel(shown) - angle)) for angle in (-1.0, 1.0)]]
    panels = {
        "Demonstrations": (shown, one_of_each, "two ways"),
        "EM": (em, em.mean(axis=0)[None], "the average"),
        "EIM": (eim, eim.mean(axis=0)[None], "one way"),
    }
    figure = new_figure(14.0, 6.2)
    for axes, (name, (q, thick, text)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        _draw_panel(axes, q[:N_LINES], thick)
        title = f"{name}: {text}\n{colliding(q).mean():.0%} collide"
        style = {"ha": "center", "va": "top", "fontsize": 18, "weight": "bold", "color": INK, "zorder": TARGET}
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 2.0}
        axes.text(0.5, 1.0, title, transform=axes.transAxes, bbox=box, **style)
    figure.supxlabel(
        "blue: free, orange: collides; thin: draws of one linear expert, thick: their mean (left: one of each way); "
        "star: pose to reach",
        fontsize=13,
        color=MUTED,
    )
    write_figure(figure, path)


def _draw_panel(axes: Axes, q: FloatArray, thick: FloatArray) -> None:
    """Draw configurations q (n, 7) as lines and `thick` as thick arms, with the table and the post."""
    corners = CAMERA.project(np.c_[SHOWN_TABLE, np.zeros(4)])[0]
    axes.fill(*corners.T, facecolor="#F0E8DA", edgecolor="#C9B48A", zorder=GROUND)
    draw_base(axes, CAMERA, 0.09)
    draw_arm_lines(axes, CAMERA, ROBOT.skeleton(q), _colours(q), ground=True)
    draw_solid_arms(axes, CAMERA, ROBOT.skeleton(thick), _colours(thick), ground=True)
    draw_target(axes, CAMERA, POSE, 0.1, oriented=False)
    rims = [CAMERA.project(_rim(height))[0] for height in (0.0, POST.length)]
    both = np.concatenate(rims)
    for zorder, opacity in ((LINES + 0.5, 0.55), (ARMS + 1.0, 0.35)):  # translucent, so that arms behind it are visible
        axes.fill(*both[ConvexHull(both).vertices].T, facecolor=MUTED, edgecolor=INK, alpha=opacity, zorder=zorder)
        axes.fill(*rims[1].T, facecolor="white", edgecolor=INK, alpha=0.6 * opacity, zorder=zorder)
    room = CAMERA.project(np.array([[-0.1, 0.0, 0.0], [0.27, 0.0, 1.08]]))[0]  # space for the base and the title
    fit_view(axes, np.concatenate([corners, both, room]), 0.8, margin=0.01)
    axes.set_axis_off()


def _rim(height: float) -> FloatArray:
    """Return points (n, 3) around the post at a height [m]."""
    angle = np.linspace(0.0, 2.0 * np.pi, 61)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.column_stack([np.asarray(POST.pose)[:2, 3] + POST.radius * circle, np.full(len(angle), height)])


def _colours(q: FloatArray) -> list[str]:
    return [COLLIDES if hit else FREE for hit in colliding(q)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    if args.picture:
        draw(args.picture)
    else:
        report(args.seeds, args.output)


if __name__ == "__main__":
    main()
