"""Draw the pictures of docs/explanation into docs/pictures.

python scripts/docs_pictures.py [--output docs/pictures] [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from self_motion import POSE, components

from eim_ros import EM, Robot, Sampler

FloatArray = npt.NDArray[np.float64]

BLUE, ORANGE, GREEN, GREY, INK = "#0072b2", "#e69f00", "#009e73", "#b8bcc4", "#20242c"


def self_motions(figure: Figure) -> None:
    """Draw curves without limits, and their components within limits, for pairs of joints."""
    robot = Robot("panda")
    free = Robot(robot.urdf.replace('type="revolute"', 'type="continuous"'), tip=robot.tip_link)
    curves = Sampler(free).solve_all(POSE, max_spacing=0.02, timeout=60.0, max_solutions=100_000).q
    curves = (curves + np.pi) % (2.0 * np.pi) - np.pi
    for axes, (first, second) in zip(figure.subplots(1, 2), ((0, 1), (2, 3)), strict=True):
        axes.plot(curves[:, first], curves[:, second], ".", color=GREY, markersize=2, label="without limits")
        for colour, rows in zip((BLUE, ORANGE, GREEN), components(robot, spacing=0.02), strict=False):
            axes.plot(rows[:, first], rows[:, second], color=colour, linewidth=4, solid_capstyle="round")
        corner = robot.lower[[first, second]]
        size = robot.upper[[first, second]] - corner
        axes.add_patch(Rectangle(corner, *size, facecolor="none", edgecolor=INK, linewidth=0.8))
        axes.set(xlabel=f"joint {first + 1} [rad]", ylabel=f"joint {second + 1} [rad]")
        axes.set(xlim=(-np.pi, np.pi), ylim=(-np.pi, np.pi))
    figure.axes[0].set_title("grey: all curves; frame: joint limits; colours: components", loc="left", fontsize=10)


def completeness(figure: Figure) -> None:
    """Draw the share that may be missed over the number of consecutive restarts without a new component."""
    axes = figure.subplots()
    restarts = np.logspace(1.0, 4.0, 200)
    for confidence, colour in ((0.9, GREEN), (0.99, BLUE), (0.999, ORANGE)):
        axes.loglog(restarts, 1.0 - (1.0 - confidence) ** (1.0 / restarts), color=colour, label=f"{confidence}")
    axes.plot(2301, 0.002, "o", color=INK)
    axes.annotate("2301 restarts:\nat most 0.2 %", (2301, 0.002), (500, 0.0009), arrowprops={"arrowstyle": "-"})
    axes.set(xlabel="restarts in a row that lead to known components", ylabel="share of restarts that may be missed")
    axes.legend(title="confidence", frameon=False)
    axes.grid(alpha=0.3)


def random_draws(figure: Figure) -> None:
    """Draw the positions of converged restarts along the components, and the positions of uniform draws."""
    robot = Robot("panda")
    sampler, parts = Sampler(robot), components(robot, spacing=0.02)
    chain = np.concatenate(parts)
    scaled = chain / (robot.upper - robot.lower)  # uniform draws measure each joint relative to its range
    steps = np.linalg.norm(np.diff(scaled, axis=0), axis=1)
    steps[np.cumsum([len(part) for part in parts])[:-1] - 1] = 0.0  # no step from one component to the next
    along = np.concatenate([[0.0], np.cumsum(steps)])
    restarts = [sampler.sample(POSE, 60, diversity=0.0, order="none", seed=seed).q for seed in range(100)]
    draws = sampler.draw(POSE, 6000, seed=0, timeout=60.0).q
    axes = figure.subplots()
    for rows, colour, label in ((np.concatenate(restarts), GREY, "restarts"), (draws, BLUE, "uniform draws")):
        nearest = np.array([np.argmin(((chain - q) ** 2).sum(axis=1)) for q in rows])
        style = {"histtype": "stepfilled"} if colour == GREY else {"histtype": "step", "linewidth": 2}
        axes.hist(along[nearest], 60, density=True, color=colour, label=label, **style)
    for end in np.cumsum([len(part) for part in parts])[:-1]:
        axes.axvline(along[end], color=INK, linewidth=0.8, linestyle=":")
    axes.set(xlabel="length along the components (dotted: next component)", ylabel="density", xlim=(0, along[-1]))
    axes.legend(frameon=False)


def trust_region(figure: Figure) -> None:
    """Draw steps of at most 0.5 nat from a wide Gaussian to a narrow one."""
    axes = figure.subplots()
    target = np.array([2.0, 1.0]), np.linalg.inv(np.array([[1.0, 0.7], [0.7, 0.8]]) * 0.25)
    mean, precision = np.array([-2.0, -0.5]), np.eye(2) / 1.5
    for axis in range(3, 0, -1):
        _ellipse(axes, *target, axis, facecolor=GREY, alpha=0.35)
    for step in range(40):
        _ellipse(axes, mean, precision, 1, edgecolor=BLUE, facecolor="none", linewidth=1.5)
        axes.plot(*mean, ".", color=BLUE)
        low, high = 1.0, 1e6
        for _ in range(100):  # the divergence of a step decreases in the multiplier a
            a = np.sqrt(low * high)
            new = _step(mean, precision, *target, a)
            low, high = (a, high) if _divergence(*new, mean, precision) > 0.5 else (low, a)
        mean, precision = _step(mean, precision, *target, high)
        if step and high < 1.0 + 1e-6:
            break
    axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal", xlim=(-4.2, 4.2), ylim=(-2.4, 3.0))
    axes.set_title("grey: target; blue: the model after each step", loc="left", fontsize=10)


def density_ratio(figure: Figure) -> None:
    """Draw a target and a model, and two estimates of their log density ratio: a plug-in and a classifier."""
    rng = np.random.default_rng(0)
    data = np.where(rng.random(2000) < 0.5, rng.normal(-2.0, 0.5, 2000), rng.normal(1.5, 0.8, 2000))
    drawn = rng.normal(0.0, 2.0, 2000)
    x = np.linspace(-6.0, 6.0, 400)
    target = 0.5 * _normal(x, -2.0, 0.5) + 0.5 * _normal(x, 1.5, 0.8)
    model = _normal(x, 0.0, 2.0)
    fit = EM(n_components=3, seed=0).fit(data[:, None])
    plug_in = fit.score_samples(x[:, None]) - np.log(model)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.fill_between(x, target, color=GREY, label="target, known by samples")
    upper.plot(x, model, color=BLUE, label="model, known exactly")
    upper.set(ylabel="density", ylim=(0, None))
    lower.plot(x, np.log(target / model), color=GREY, linewidth=5, label="exact")
    lower.plot(x, plug_in, color=BLUE, label="plug-in")
    lower.plot(x, _classifier(data, drawn, x), color=ORANGE, label="classifier")
    lower.set(xlabel="$x$", ylabel="log ratio [nat]", ylim=(-8, 3), xlim=(-6, 6))
    for axes in (upper, lower):
        axes.legend(frameon=False, loc="upper right" if axes is upper else "lower center")


def _step(
    mean: FloatArray, precision: FloatArray, target_mean: FloatArray, target_precision: FloatArray, a: float
) -> tuple[FloatArray, FloatArray]:
    """Return q ∝ exp(((a - 1) log q_old + log p) / a), the update with the multiplier a."""
    new = ((a - 1.0) * precision + target_precision) / a
    return np.linalg.solve(new, ((a - 1.0) * precision @ mean + target_precision @ target_mean) / a), new


def _divergence(mean: FloatArray, precision: FloatArray, old_mean: FloatArray, old_precision: FloatArray) -> float:
    """Return KL(q || q_old) of two Gaussians [nat]."""
    ratio, shift = np.linalg.solve(precision, old_precision), old_mean - mean
    return 0.5 * float(np.trace(ratio) - len(mean) - np.linalg.slogdet(ratio)[1] + shift @ old_precision @ shift)


def _classifier(data: FloatArray, drawn: FloatArray, x: FloatArray) -> FloatArray:
    """Return the logit of a network that is trained to distinguish data from samples of the model."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(1, 30), torch.nn.ReLU(), torch.nn.Linear(30, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1)
    )
    inputs = torch.tensor(np.concatenate([data, drawn]), dtype=torch.float32)[:, None] / 2.0
    labels = torch.cat([torch.ones(len(data)), torch.zeros(len(drawn))])
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(network(inputs)[:, 0], labels).backward()
        optimizer.step()
    with torch.no_grad():
        return np.asarray(network(torch.tensor(x, dtype=torch.float32)[:, None] / 2.0)[:, 0])


def _normal(x: FloatArray, mean: float, deviation: float) -> FloatArray:
    return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))


def _ellipse(axes: Axes, mean: FloatArray, precision: FloatArray, deviations: float, **style: object) -> None:
    values, vectors = np.linalg.eigh(np.linalg.inv(precision))
    width, height = 2.0 * deviations * np.sqrt(values)
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    axes.add_patch(Ellipse(mean, width, height, angle=angle, **style))


PICTURES: dict[str, tuple[Callable[[Figure], None], tuple[float, float]]] = {
    "self_motions": (self_motions, (9.0, 4.2)),
    "completeness": (completeness, (6.5, 4.0)),
    "random_draws": (random_draws, (7.5, 3.6)),
    "trust_region": (trust_region, (7.0, 4.6)),
    "density_ratio": (density_ratio, (7.5, 5.0)),
}


def main() -> None:
    """Draw the pictures in the arguments, or all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(PICTURES)}")
    parser.add_argument("--output", type=Path, default=Path("docs/pictures"))
    args = parser.parse_args()
    for name in args.names or PICTURES:
        draw, size = PICTURES[name]
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.savefig(args.output / f"{name}.png", dpi=110)
        print(args.output / f"{name}.png")


if __name__ == "__main__":
    main()
