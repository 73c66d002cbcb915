"""Solutions drawn at random from a distribution on the exact set of solutions, where that is curves or points.

"uniform" has the same density everywhere: on curves by their length [rad, m], of points each as often. "model" has the
density of the model, p(q | y), restricted to the set and normalised there,

    p(q) / int p(q(s)) ds  along the curves,    p(q) / sum_i p(q_i)  of points,

so that what was learned, such as which way the elbow points, is kept in its proportions by solutions that are exact;
samples of the model that are moved onto the pose are not distributed so. Drawn is by the inverse of the distribution
function, piecewise constant on pieces that divide the traced curves evenly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from eim_ros.errors import ConfigurationError
from eim_ros.ik.all_solutions import AllSolutions
from eim_ros.ik.pool import Pool
from eim_ros.ik.proposal import ConditionalMixture

__all__ = ["draw_on_set", "n_pieces", "points_of"]

FloatArray = npt.NDArray[np.float64]

FEWEST_PIECES, MOST_PIECES = 4000, 200_000
PIECES_EACH = 20  # for each solution wanted: two that are drawn from one piece are the same


def n_pieces(n: int) -> int:
    """Into how many pieces curves are divided for n solutions."""
    return min(max(FEWEST_PIECES, PIECES_EACH * n), MOST_PIECES)


def draw_on_set(
    pool: Pool, piece: float, distribution: str, conditional: ConditionalMixture, n: int, random_seed: int | None
) -> tuple[Pool, FloatArray]:
    """n solutions, and the log density of each on the set [nat, per rad or m of curves].

    Parameters
    ----------
    pool : Pool
        The middles of pieces of curves of equal length, or points; those that satisfy the goal.
    piece : float
        Length of each [rad, m], 1 of points.
    distribution : str
        "uniform" or "model".
    conditional : ConditionalMixture
        The model, given the pose.
    n : int
    random_seed : int, optional

    Returns
    -------
    Pool
        n rows of the pool, drawn independently: one may come more than once.
    (n,) array
    """
    log_density = conditional.log_prob(pool.positions) if distribution == "model" else np.zeros(len(pool))
    log_density = log_density - logsumexp(log_density)
    rng = np.random.default_rng(random_seed)
    rows = rng.choice(len(pool), size=n, p=np.exp(log_density))
    return pool.pick(rows), log_density[rows] - np.log(piece)


def points_of(known: AllSolutions | None) -> Pool:
    """Solutions in closed form; `ConfigurationError` where there is none, or not all could be told."""
    if known is None or known.is_singular or not known.is_whole or len(known.pool) < known.n_all:
        raise ConfigurationError(
            "a distribution is for solutions that are curves, of an arm with one joint more than the pose takes and "
            "without tolerances, or points in closed form: leave it out",
            None,
        )
    return known.pool
