"""Pictures of fitted mixtures in one or two dimensions, and of the histories of their fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from eim_ros.core.checks import numbers_of, with_hints
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.view.style import GROUP_COLOURS, MUTED, new_figure, write_figure

OBJECTIVES = {  # columns of histories and their labels; the first existing column is drawn
    "validation_log_likelihood": "log-likelihood of validation data [nat]",
    "log_likelihood": "log-likelihood [nat]",
    "elbo": "ELBO [nat]",
    "ratio_kl": "estimate of KL(model || data) [nat]",
    "free_energy": "free energy [nat]",
}
WIDTH, HEIGHT = 5.0, 4.0  # size of a panel [inch]
N_LINE, N_GRID = 1000, 200  # number of points per axis
LEAST_WEIGHT = 1e-3  # minimum weight of components that determine the limits
DEVIATIONS = 4.0  # limits of a component, in standard deviations from its mean
DATA, MODEL, SKIPPED = MUTED, GROUP_COLOURS[0], GROUP_COLOURS[1]


@with_hints
def draw_fit(fit: Any, path: str | Path, data: npt.ArrayLike | None = None) -> None:
    """Draw the density of a fitted mixture and the history of its fit, and write the picture as PNG or SVG.

    If the model has one or two dimensions and no contexts, its density is drawn, with crosses at the means of the
    components. The history shows the objective in each iteration, and marks iterations that EIM skipped.

    Parameters
    ----------
    fit : FitResult or FittedModel
        Result of a learner, such as `EM(...).fit(data)`. Models that were read from a file have no history.
    path : str or Path
        File to write. After an error, no incomplete file remains.
    data : (n, n_dims) array_like, optional
        Samples to draw behind the model, as a histogram or as points.

    Raises
    ------
    ConfigurationError
        If there is neither a density nor a history to draw, or the path does not end in .png or .svg.
    DataError
        If the data are not finite numbers, or do not have the dimensions of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros import EM
    >>> from eim_ros.view import draw_fit
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> draw_fit(EM(n_components=2, seed=0).fit(data), "fit.png", data)
    """
    if not (hasattr(fit, "score_samples") and hasattr(fit, "mixture_of_experts")):
        raise ConfigurationError(
            f"expected the result of a fit or a FittedModel, got an object of type {type(fit).__name__}", fit
        )
    records = getattr(getattr(fit, "history", None), "records", ())
    column = next((name for name in OBJECTIVES if any(name in record for record in records)), None)
    has_density = not fit.conditional and fit.n_dims <= 2
    if not has_density and column is None:
        raise ConfigurationError(
            "there is nothing to draw: the density needs a model with one or two dimensions and no contexts, and the "
            "history needs a result of fit",
            fit,
        )
    samples = None if data is None else numbers_of(data, (None, fit.n_dims), "the data", DataError)
    n_panels = int(has_density) + int(column is not None)
    figure = new_figure(WIDTH * n_panels, HEIGHT)
    panels = list(np.atleast_1d(figure.subplots(1, n_panels)))
    if has_density:
        draw = _draw_line if fit.n_dims == 1 else _draw_plane
        draw(panels.pop(0), fit, samples)
    if column is not None:
        _draw_history(panels.pop(0), records, column)
    write_figure(figure, path)


def _draw_line(axes: Axes, fit: Any, data: npt.NDArray[np.float64] | None) -> None:
    ((low, high),) = _limits(fit, data)
    x = np.linspace(low, high, N_LINE)
    if data is not None and len(data):
        axes.hist(data[:, 0], bins="auto", density=True, color=DATA, alpha=0.4)
    axes.plot(x, np.exp(fit.score_samples(x[:, None])), color=MODEL)
    means = np.asarray(fit.means)
    axes.plot(means[:, 0], np.exp(fit.score_samples(means)), "x", color=MODEL)
    axes.set(xlabel="x", ylabel="density", xlim=(low, high), ylim=(0.0, None))


def _draw_plane(axes: Axes, fit: Any, data: npt.NDArray[np.float64] | None) -> None:
    limits = _limits(fit, data)
    x, y = (np.linspace(low, high, N_GRID) for low, high in limits)
    points = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    if data is not None:
        axes.scatter(data[:, 0], data[:, 1], s=4.0, color=DATA, alpha=0.4, linewidths=0.0)
    axes.contour(x, y, np.exp(fit.score_samples(points)).reshape(N_GRID, N_GRID), levels=8, cmap="viridis")
    axes.plot(*np.asarray(fit.means).T, "x", color=MODEL)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", xlim=limits[0], ylim=limits[1])


def _draw_history(axes: Axes, records: Any, column: str) -> None:
    axes.plot(*_of(records, column), color=MODEL)
    skipped = [record for record in records if "skipped" in record]
    if skipped:
        axes.plot(*_of(skipped, column), "o", color=SKIPPED, label=f"{len(skipped)} skipped")
        axes.legend()
    axes.set(xlabel="iteration", ylabel=OBJECTIVES[column])


def _of(records: Any, column: str) -> list[list[float]]:
    """Return the iterations that recorded a number, and the recorded values."""
    chosen = [record for record in records if column in record]
    return [[record[name] for record in chosen] for name in ("iteration", column)]


def _limits(fit: Any, data: npt.NDArray[np.float64] | None) -> list[tuple[float, float]]:
    """Return the lowest and the highest value of each axis."""
    matters = np.asarray(fit.weights) >= LEAST_WEIGHT * float(np.max(np.asarray(fit.weights)))
    means = np.asarray(fit.means)[matters]
    spread = DEVIATIONS * np.sqrt(np.diagonal(np.asarray(fit.covariances)[matters], axis1=-2, axis2=-1))
    points = np.concatenate([means - spread, means + spread, *([] if data is None else [data])])
    return [(float(low), float(high)) for low, high in zip(points.min(0), points.max(0), strict=True)]
