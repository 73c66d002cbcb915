"""Draw exact solutions in the same proportions as in demonstrations, with a model trained on them.

In three of four demonstrations, the elbow of a Panda is up; in the others, it is out to the side. A model is trained on
them in seconds. `Sampler.draw(pose, n, "model")` draws from the model on the exact solution set of new poses. The elbow
is up about as often as in the demonstrations, unlike in uniform draws. Each draw reaches its pose to 1e-6 m. `--output
FILE` writes a picture.
"""

import argparse

import numpy as np
import torch

from eim_ros import EM, Robot, Sampler
from eim_ros.ik import IKModel
from eim_ros.kinematics import context_from_pose, pose_from

UP_SHARE, OUT = 0.75, -1.2  # share with the elbow up; its angle otherwise [rad], about the line from shoulder to wrist
HOME = np.array([0.0, -0.3, 0.0, -2.0, 0.0, 1.8, 0.8])
ROBOT = Robot("panda")


def swivel(q: np.ndarray) -> np.ndarray:
    """Return the elbow's angle (n,) about the line from shoulder to wrist [rad]; 0 is up."""
    shoulder, elbow, wrist = np.moveaxis(ROBOT.skeleton(q)[:, [2, 4, 5]], 1, 0)
    line = (wrist - shoulder) / np.linalg.norm(wrist - shoulder, axis=1, keepdims=True)
    up = np.array([0.0, 0.0, 1.0]) - line[:, 2:] * line
    out = elbow - shoulder
    return np.arctan2((out * np.cross(line, up)).sum(axis=1), (out * up).sum(axis=1))


def lines(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return poses (n, 10, 4, 4) on straight lines in front of the robot, with the hand pointing down."""
    ends = rng.uniform([0.4, -0.15, 0.2], [0.55, 0.15, 0.35], (2, n, 3))
    share = np.linspace(0.0, 1.0, 10)[:, None]
    poses = np.tile(pose_from([0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]), (n, 10, 1, 1))
    poses[:, :, :3, 3] = ends[0][:, None] * (1.0 - share) + ends[1][:, None] * share
    return poses


def demonstrations(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return poses (10 n, 4, 4) and configurations (10 n, 7) of n motions."""
    poses, angles = lines(n, rng), np.where(rng.random(n) < UP_SHARE, 0.0, OUT) + 0.15 * rng.standard_normal(n)
    poses, angles = poses.reshape(-1, 4, 4), np.repeat(angles, 10)
    chosen, answers = [], Sampler(ROBOT).sample_batch(poses, n=100, timeout=60.0, seed=0)
    for samples, angle in zip(answers.by_pose(), angles, strict=True):
        costs = (swivel(samples.q) - angle) ** 2 + 0.02 * ((samples.q - HOME) ** 2).sum(axis=1)
        chosen.append(samples.q[np.argmin(costs)])
    return poses, np.array(chosen)


def draw(parts: dict[str, np.ndarray], path: str) -> None:
    """Draw some arms of each part, and a histogram of the elbow's angle."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    for column, (name, q) in enumerate(parts.items(), 1):
        arms = figure.add_subplot(2, len(parts), column, projection="3d", title=name)
        some = np.random.default_rng(1).choice(q, 60)
        for row, angle in zip(ROBOT.skeleton(some), swivel(some), strict=True):
            arms.plot(*row.T, color="C0" if abs(angle) < 0.6 else "C1", lw=0.8, alpha=0.7)
        arms.set(xlim=(-0.3, 0.7), ylim=(-0.5, 0.5), zlim=(0.0, 1.0), xticks=[], yticks=[], zticks=[])
        arms.view_init(15.0, -30.0)
        arms.set_box_aspect((1.0, 1.0, 1.0), zoom=1.35)
        counts = figure.add_subplot(2, len(parts), len(parts) + column, xlabel="elbow [rad], 0 is up", yticks=[])
        for up, color in ((True, "C0"), (False, "C1")):
            angles = swivel(q)
            counts.hist(angles[(np.abs(angles) < 0.6) == up], np.linspace(-np.pi, np.pi, 63), color=color)
    figure.savefig(path, dpi=100)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--motions", type=int, default=200)
parser.add_argument("--output", help="picture, PNG or SVG")
args = parser.parse_args()
rng = np.random.default_rng(0)
poses, shown = demonstrations(args.motions, rng)
contexts = torch.from_numpy(context_from_pose(poses, "pose"))
recorded = torch.from_numpy(shown + 0.03 * rng.standard_normal(shown.shape))  # with recording noise [rad]
fit = EM(n_components=40, n_iterations=50, seed=0).fit((contexts, recorded))
sampler = Sampler(model=IKModel(fit.mixture_of_experts, ROBOT, "pose", {"data_source": "demonstrations"}))

new = lines(10, rng).reshape(-1, 4, 4)
parts = {"demonstrated": shown}
for name, operation in {
    "drawn exactly from the model": lambda pose, seed: sampler.draw(pose, 30, "model", seed=seed),
    "samples moved onto the pose": lambda pose, seed: sampler.sample(pose, 30, order="none", diversity=0.0, seed=seed),
    "uniform": lambda pose, seed: sampler.draw(pose, 30, "uniform", seed=seed),
}.items():
    parts[name] = np.concatenate([operation(pose, i).q for i, pose in enumerate(new)])
for name, q in parts.items():
    print(f"{name}: elbow up in {100.0 * np.mean(np.abs(swivel(q)) < 0.6):.0f} % of {len(q)}")
if args.output:
    draw(parts, args.output)
