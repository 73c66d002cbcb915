"""Inverse kinematics of robot arms from samples: mixtures of linear experts by EM and EIM (thesis 6.4, figure 6.6).

The data are uniformly drawn configurations q and the positions y that they reach. The model predicts q given y. An arm
with seven joints reaches a position in infinitely many ways. EM averages over these ways, but the average reaches a
different position. The experiment measures the position error of the tip for raw samples, and two entropies of the
gating. H(E q(z|y)) should be high, because all experts should be used. E H(q(z|y)) should be low, because each expert
should be responsible for few positions.

The data lie exactly on the manifold FK(q) = y, so p has no density, and the ratio of a better classifier is less
meaningful. Therefore, the contexts of both classes are blurred: y + sigma n, with decreasing sigma. In addition to the
classifier of the thesis and the plug-in density, there is an estimator "known". This estimator uses the kinematics in
the ratio (`KinematicInputs`), and no network.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from eim_ros.core.data_set import DataSet
from eim_ros.core.settings import Settings, option
from eim_ros.ik import IKModel, KinematicInputs, SmoothingConfig, collect, evaluate
from eim_ros.kinematics import Robot
from eim_ros.learning import EIMConfig, EMConfig, RunOptions
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.ratio import FeatureInputs
from eim_ros.learning.run import completed, timed
from eim_ros.view.style import FAINT, INK, new_figure, write_figure
from experiments.bounds import BoundsConfig
from experiments.harness import GIVEN_START, Cell, Experiment, Outcome
from experiments.pictures import METHOD_COLOURS, OURS, RATIO_LINES, THESIS, method_label
from experiments.report import Claim, Finding, Pairs, Setup, judged, listed, n_seeds, paired_means
from experiments.table import ResultTable, Row, Value, mean_and_error

KNOWN = "known"  # the estimator that uses the known kinematics
THESIS_ROBOT = "iiwa14"  # the arm of the thesis; only this arm is fitted with the settings of the thesis
CURVES = {
    "rmse_position": "curve_rmse",
    "entropy_conditional": "curve_conditional",
    "entropy_marginal": "curve_marginal",
}  # results of `evaluate`, and the columns with their curves over the iterations
N_POINTS = 20  # maximum number of points of a curve after the start
N_CURVE = 1000  # number of test samples for each point of a curve


@dataclass(frozen=True)
class FitConfig(BoundsConfig):
    """Settings of EIM. Settings in thesis table B.1 have the defaults of this table."""

    entropy_loss_bound: float = option(0.01, "maximum loss of entropy per update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(
        0.1, "maximum loss of entropy per update of the gating", unit="nat", minimum=0.0
    )
    n_iterations: int = option(500, "number of EIM iterations", minimum=1)
    hidden_layers: tuple[int, ...] = option((400, 400, 400), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    batch_size: int = option(200, "pairs of each class in a batch", minimum=1)
    n_epochs: int = option(1, "maximum passes over the data per iteration", minimum=1)
    smoothing: float = option(
        0.0, "initial noise on the classifier's positions, in standard deviations; 0 adds none", minimum=0.0
    )
    smoothing_decay: float = option(0.97, "factor on the noise per iteration", minimum=0.0, maximum=1.0)
    smoothing_floor: float = option(0.2, "minimum noise, as a share of the initial noise", minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class KinematicsConfig(Settings):
    """Settings of the experiment. The sizes are from thesis table B.1."""

    robots: tuple[str, ...] = option(("iiwa14", "panda"), "robots by name")
    n_components: tuple[int, ...] = option((10, 25, 50, 100), "numbers of experts", minimum=1)
    n_samples: int = option(10000, "samples for training", minimum=100)
    n_validation: int = option(5000, "number of samples that validate EIM's estimators", minimum=10)
    n_test: int = option(5000, "samples for testing", minimum=10)
    em_iterations: int = option(100, "maximum number of EM iterations", minimum=1)
    start_iterations: int = option(10, "maximum number of EM iterations for EIM's start", minimum=1)
    learners: tuple[str, ...] = option(
        (THESIS, "EIM", OURS),
        "rows of EIM: as in the thesis, with only the bounds of the thesis, and with our bounds",
        choices=(THESIS, "EIM", OURS),
    )
    ratios: tuple[str, ...] = option(
        ("network", "plug-in", KNOWN), "density ratio estimators of EIM, ours", choices=(*RATIO_ESTIMATORS, KNOWN)
    )
    thesis: FitConfig = FitConfig()
    ours: FitConfig = FitConfig(
        n_iterations=100,
        kl_bound=0.15,
        gating_kl_bound=0.015,
        entropy_loss_bound=0.15,
        hidden_layers=(150, 150, 150),
        n_epochs=3,
        smoothing=0.3,
    )


def _cells(config: KinematicsConfig) -> list[Cell]:
    cells: list[Cell] = []
    for robot, count in itertools.product(config.robots, config.n_components):
        methods = [("EM", "none"), (GIVEN_START, "none")]
        if robot == THESIS_ROBOT:
            methods += [(learner, "network") for learner in (THESIS, "EIM") if learner in config.learners]
        if OURS in config.learners:
            methods += [(OURS, ratio) for ratio in config.ratios]
        cells += [
            {"robot": robot, "method": method, "estimator": ratio, "n_components": count} for method, ratio in methods
        ]
    return cells


def _measure(config: KinematicsConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, str(cell["robot"]), seed)
    method, ratio, count = str(cell["method"]), str(cell["estimator"]), int(cell["n_components"])
    generator = torch.Generator().manual_seed(1_000_003 * seed + count)
    models: list[MixtureOfExperts] = []
    fit = config.ours if cell["method"] == OURS else config.thesis
    model, seconds = timed(lambda: _fitted(config, fit, method, ratio, count, data, generator, models))
    chosen = [models[index] for index in _evenly(len(models))]
    points = [_figures(data, one, data.test, seed, N_CURVE) for one in chosen]
    curves = {column: [round(point[name], 4) for point in points] for name, column in CURVES.items()}
    return Outcome(seconds, {**_figures(data, model, data.test, seed), **curves})


EXPERIMENT = Experiment(
    "kinematics",
    "inverse kinematics of arms by EM and EIM from samples (thesis 6.4, figure 6.6)",
    KinematicsConfig,
    _cells,
    _measure,
    figures={"rmse_position": "RMSE of raw samples [m]"},
    by=("robot", "n_components"),
)


@dataclass(frozen=True)
class _Data:
    """Samples of a robot for training (`train`), for training and validation (`both`), and for testing (`test`)."""

    robot: Robot
    both: tuple[Tensor, Tensor]
    train: tuple[Tensor, Tensor]
    test: DataSet


@lru_cache(maxsize=1)  # all methods with the same robot and seed share the data
def _data(config: KinematicsConfig, name: str, seed: int) -> _Data:
    robot = Robot(name)
    drawn = collect(robot, config.n_samples + config.n_validation, "position", 2 * seed)
    both = torch.from_numpy(drawn.context), torch.from_numpy(drawn.sample)
    train = both[0][: config.n_samples], both[1][: config.n_samples]
    return _Data(robot, both, train, collect(robot, config.n_test, "position", 2 * seed + 1))


def _fitted(
    config: KinematicsConfig,
    fit: FitConfig,
    method: str,
    ratio: str,
    n_components: int,
    data: _Data,
    generator: torch.Generator,
    models: list[MixtureOfExperts],
) -> MixtureOfExperts:
    """Fit the model of a method.

    The start of EIM and the model after each iteration are appended to `models`.
    """

    def keep(state: Any, record: dict[str, float]) -> None:
        models.append(state.model)

    n_iterations = config.em_iterations if method == "EM" else config.start_iterations
    em = EM(EMConfig(n_components=n_components, n_iterations=n_iterations))
    if method == "EM":
        return _mixture(completed(em.fit(data.train, generator=generator, run=RunOptions(callbacks=[keep]))))
    start = _mixture(completed(em.fit(data.train, generator=generator)))
    models.append(start)
    if method == GIVEN_START:
        return start
    learner = _learner(config, fit, method, ratio, n_components, data)
    return _mixture(completed(learner.fit(data.both, start, generator=generator, run=RunOptions(callbacks=[keep]))))


def _learner(config: KinematicsConfig, fit: FitConfig, method: str, ratio: str, n_components: int, data: _Data) -> EIM:
    """Return EIM with a density ratio estimator.

    This learner returns its last model, because a blurred ratio cannot identify the best model.
    """
    n_held_out = config.n_validation / (config.n_samples + config.n_validation)
    shared: dict[str, Any] = {
        "n_components": n_components,
        "n_iterations": fit.n_iterations,
        "plateau_window": 0,
        **fit.m_step,
        "m_step.gating.n_contexts": 200,
        "m_step.n_samples": 100,
        "n_selection_samples": 0,
        "ratio.validation_share": n_held_out,
    }
    context, sample = data.both
    if ratio == KNOWN:
        kinematic = EIMConfig.kinematic(**shared, **{"ratio.estimator": "plug-in", "m_step.gating.n_experts": 0})
        return EIM(kinematic, KinematicInputs.from_data(data.robot, "position", context, SmoothingConfig()))
    inputs = None
    if fit.smoothing > 0.0 and ratio == "network":
        inputs = FeatureInputs.from_data(
            context,
            sample,
            _no_features,
            smoothing=fit.smoothing,
            decay=fit.smoothing_decay,
            floor=fit.smoothing_floor,
        )
    network: dict[str, Any] = {
        "ratio.hidden_layers": fit.hidden_layers,
        "ratio.dropout": fit.dropout,
        "ratio.batch_size": fit.batch_size,
        "ratio.n_epochs": fit.n_epochs,
    }
    if method == THESIS:
        return EIM(EIMConfig.thesis(**{**shared, **network, "m_step.n_samples": N_VALUES}))
    return EIM(EIMConfig.from_mapping({"ratio.estimator": ratio, **shared, **network}), inputs)


def _no_features(context: Tensor, sample: Tensor) -> Tensor:
    """Return no features. The inputs of the classifier are then only configurations and positions."""
    return sample[:, :0]


def _mixture(model: Any) -> MixtureOfExperts:
    assert isinstance(model, MixtureOfExperts)
    return model


def _evenly(n: int) -> list[int]:
    """Return evenly spaced indices of n models, including the first and the last, for the points of a curve."""
    last = min(n - 1, N_POINTS)
    return [round(index * (n - 1) / max(last, 1)) for index in range(last + 1)]


def _figures(data: _Data, model: MixtureOfExperts, test: DataSet, seed: int, n: int | None = None) -> dict[str, float]:
    """Return the results of `evaluate` on the first n test samples."""
    some = DataSet(test.context[:n], test.sample[:n], test.description)
    return evaluate(IKModel(model, data.robot, "position"), some, seed)


N_VALUES = 400  # samples per expert; the quadratic surrogate of the ratio has 66 coefficients
HIGH = 0.9  # smallest share of the maximum entropy that counts as using all experts
FALLS = 0.9  # largest share of EM's final E H(q(z|y)) that counts as lower
SETUPS = (Setup("network", THESIS), Setup("network"), *(Setup(ratio, OURS) for ratio in ("network", "plug-in", KNOWN)))
BY = ("robot", "n_components")


def _ends(robot: Value, pairs: Pairs) -> list[tuple[Value, ...]]:
    """Return the keys of a robot with the fewest and the most experts."""
    keys = [key for key in pairs if key[0] == robot]
    return [keys[0], keys[-1]]


def _below_em(table: ResultTable, setup: Setup) -> Finding | None:
    pairs = paired_means(table, "rmse_position", BY, setup.key, {"method": "EM"})
    if not pairs:
        return None
    failing = [key for key, (first, second) in pairs.items() if first >= second]
    ends = dict.fromkeys(end for robot, _ in pairs for end in _ends(robot, pairs))
    shown = "; ".join(
        f"{pairs[robot, count][0]:.3f} m for {robot}, K = {count} (EM {pairs[robot, count][1]:.3f})"
        for robot, count in ends
    )
    why = ""
    if failing:
        worst = max(failing, key=lambda key: pairs[key][0] / pairs[key][1])
        rows = table.where(robot=worst[0], n_components=worst[1], **setup.key)
        curves = [row[CURVES["rmse_position"]] for row in rows if CURVES["rmse_position"] in row]
        why = f"at {listed(f'{robot}, K = {count}' for robot, count in failing)}, the error is above EM's"
        if curves and all(curve[-1] < max(curve) for curve in curves):
            why += ", but it is below its highest value when the run ends"
    return judged(
        f"EIM's error is smaller in {len(pairs) - len(failing)} of {len(pairs)} cases: {shown}", not failing, why
    )


def _all_are_used(table: ResultTable, setup: Setup) -> Finding | None:
    rows, rows_of_em = table.where(**setup.key), table.where(method="EM")
    if not rows or not rows_of_em:
        return None
    least, of_em = (min(some, key=lambda row: float(row["entropy_marginal"])) for some in (rows, rows_of_em))
    values = {"EIM": float(least["entropy_marginal"]), "EM": float(of_em["entropy_marginal"])}
    low = [name for name, value in values.items() if value < HIGH]
    row = least if "EIM" in low else of_em
    return judged(
        f"H(z) is at least {values['EIM']:.3f} of its maximum (EM {values['EM']:.3f})",
        not low,
        f"H(z) of {listed(low)} falls below {HIGH:g} of the maximum at K = {row['n_components']}",
    )


def _only_eim_parts_the_positions(table: ResultTable, setup: Setup) -> Finding | None:
    pairs = paired_means(table, "entropy_conditional", BY, setup.key, {"method": "EM"})
    if not pairs:
        return None
    curves = table.values(CURVES["entropy_conditional"], **setup.key)
    n_falling = sum(curve[-1] < curve[0] for curve in curves)
    close = [key for key, (first, second) in pairs.items() if first >= FALLS * second]
    worst = max(pairs, key=lambda key: pairs[key][0] / pairs[key][1])
    first, second = pairs[worst]
    if n_falling < len(curves):
        why = f"the entropy rises in {len(curves) - n_falling} of {len(curves)} runs"
    else:
        where = listed(f"{robot} with K = {count}" for robot, count in close)
        why = f"the entropy falls, but so little for {where} that EIM's experts overlap almost as much as EM's"
    return judged(
        f"the entropy falls in {n_falling} of {len(curves)} runs and ends clearly below EM's in "
        f"{len(pairs) - len(close)} of {len(pairs)} cases. It is closest to EM's for {worst[0]} with K = {worst[1]}: "
        f"{first:.2f} (EM {second:.2f})",
        n_falling == len(curves) and not close,
        why,
    )


CLAIMS = (
    Claim("6.4, figure 6.6a", "EIM's RMSE of the end-effector's position is below EM's.", _below_em),
    Claim("6.4, figure 6.6c", "EM and EIM keep H(z) high, because they use all components.", _all_are_used),
    Claim("6.4, figure 6.6b", "Only EIM lowers E H(q(z | y)).", _only_eim_parts_the_positions),
)


LABELS = {
    "rmse_position": "RMSE of raw samples [m]",
    "entropy_conditional": "E H(q(z|y)), share of its maximum",
    "entropy_marginal": "H(E q(z|y)), share of its maximum",
}
MARKERS = {"none": "o", "network": "s", "plug-in": "^", "residual": "D", "known": "v"}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG for each robot.

    The upper row shows means over seeds against the number of components. The lower row shows the changes during the
    runs with the most components.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment kinematics.
    folder : Path

    Returns
    -------
    list of Path
    """
    return [_draw_robot(table, robot, folder / f"kinematics_{robot}.png") for robot in table.distinct("robot")]


def _draw_robot(table: ResultTable, robot: str, path: Path) -> Path:
    rows = [row for row in table.where(robot=robot) if row["method"] != GIVEN_START]
    methods = list(dict.fromkeys((row["method"], row["estimator"]) for row in rows))
    most = max(row["n_components"] for row in rows)
    figure = new_figure(12.0, 7.4)
    above, below = figure.subplots(2, len(LABELS))
    for column, (name, label) in enumerate(LABELS.items()):
        for method, ratio in methods:
            some = table.where(robot=robot, method=method, estimator=ratio)
            _draw_components(above[column], some, method, ratio, name)
            _draw_iterations(below[column], [row for row in some if row["n_components"] == most], method, ratio, name)
        for axes in (above[column], below[column]):
            axes.set_ylabel(label, fontsize=9)
            axes.grid(color=FAINT, linewidth=0.5)
            axes.set_ylim(bottom=0.0, top=None if name == "rmse_position" else 1.02)
        above[column].set_xlabel("experts", fontsize=9)
        below[column].set_xlabel(f"share of the iterations; {most} experts", fontsize=9)
    above[0].legend(frameon=False, fontsize=8)
    parts = [table.with_rows(table.where(robot=robot, method=method, estimator=ratio)) for method, ratio in methods]
    number = n_seeds(parts)
    seeds = "1 seed" if number == "1" else f"mean of {number} seeds, bars: standard error"
    figure.suptitle(f"Inverse kinematics of {robot} from samples, {seeds}", fontsize=10, color=INK)
    return write_figure(figure, path)


def _draw_components(axes: Axes, rows: list[Row], method: str, ratio: str, name: str) -> None:
    counts = sorted({row["n_components"] for row in rows})
    values = [mean_and_error([row for row in rows if row["n_components"] == count], name) for count in counts]
    mean, error = np.array(values).T
    axes.errorbar(
        counts,
        mean,
        np.nan_to_num(error),
        color=METHOD_COLOURS[method],
        linestyle=RATIO_LINES[ratio],
        marker=MARKERS[ratio],
        markersize=4,
        capsize=2,
        label=f"{method} (kinematics known)" if ratio == KNOWN else method_label(method, ratio),
    )
    axes.set_xticks(counts)


def _draw_iterations(axes: Axes, rows: list[Row], method: str, ratio: str, name: str) -> None:
    """Draw one curve per seed. A run that converged early has fewer points."""
    for row in rows:
        curve = row[CURVES[name]]
        share = np.linspace(0.0, 1.0, len(curve))
        axes.plot(share, curve, color=METHOD_COLOURS[method], linestyle=RATIO_LINES[ratio], linewidth=1.2)
