"""Which joints are held where, for solutions of more than one dimension to become curves that can be traced.

As many joints are held as there are dimensions beyond one. A way H to hold joints is drawn in proportion to the mean
of |du_H on the set|^2 over known solutions, see `measure.py`: joints that solutions leave little room are seldom held.
Where they are held is uniform, or where a distribution is wanted that prefers some solutions mostly near known ones
of these. Whatever is proposed, its density is known and divided by, so that nothing depends on it but the time taken.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eim_ros.ik.measure import ScaledMeasure

__all__ = ["MOST_FREE", "SliceProposals"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_FREE = 6  # dimensions: with more, too few of the ways to hold joints lead to any solution
MOST_DETERMINANTS = 100_000  # of known solutions, for all ways to hold joints
EVEN_WAYS = 0.1  # share of ways that are all as likely
NEAR_SHARE = 0.7  # of what is held near known solutions, where some are preferred
BANDWIDTH = 0.2  # of these distributions, as a share of the rule for a single normal one: there are several modes
LEAST_WIDTH = 0.02  # of the distribution around one of them, as a share of a joint's range


@dataclass(frozen=True, eq=False)
class SliceProposals:
    """A distribution of held joints.

    Attributes
    ----------
    lower, widths : (dof,)
        Limits of what may be held, and how far they are apart [rad, m].
    ranges : (dof,)
        Of the robot's joints [rad, m].
    ways : (n_ways, n_held) of int
        Joints that are held.
    probabilities : (n_ways,)
    near : (n_near, dof)
        Solutions near which joints are held; of none they are held anywhere.
    deviations : (dof,)
        Of normal distributions around these [rad, m].
    """

    lower: FloatArray
    widths: FloatArray
    ranges: FloatArray
    ways: IntArray
    probabilities: FloatArray
    near: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, measure: ScaledMeasure, known: FloatArray, near: FloatArray) -> SliceProposals:
        """From known solutions (n, dof), and the preferred ones among them (n_near, dof)."""
        goal, joints = measure.goal, np.flatnonzero(measure.moving)
        ways = np.array(list(itertools.combinations(range(len(joints)), max(measure.n_free - 1, 0))), dtype=np.int64)
        probabilities = np.ones(len(ways))
        if ways.size and len(known):
            probabilities = _mean_squares(measure, known[: MOST_DETERMINANTS // len(ways) + 1], ways)
        probabilities = (1.0 - EVEN_WAYS) * probabilities / probabilities.sum() + EVEN_WAYS / len(ways)
        widths, deviations = goal.upper - goal.lower, np.zeros_like(measure.ranges)
        anywhere = cls(goal.lower, widths, measure.ranges, joints[ways], probabilities, near[:0], deviations)
        return anywhere.close_to(near) if len(near) else anywhere

    def close_to(self, near: FloatArray) -> SliceProposals:
        """The same with joints held mostly near other solutions (n_near, dof) (Silverman 1986, 4.3.2)."""
        n_held = self.ways.shape[1]
        factor = BANDWIDTH * (4.0 / ((n_held + 2.0) * len(near))) ** (1.0 / (n_held + 4.0))
        deviations = np.maximum(factor * near.std(axis=0), LEAST_WIDTH * self.ranges)
        return replace(self, near=near, deviations=deviations)

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, FloatArray, float]:
        """Joints (n_held,) to hold, where [rad, m], and the log of the probability of these joints times the density of
        where, in shares of their ranges.
        """
        way = int(rng.choice(len(self.ways), p=self.probabilities))
        joints = self.ways[way]
        widths, deviations = self.widths[joints], self.deviations[joints]
        is_near = bool(len(self.near)) and rng.random() < NEAR_SHARE
        if is_near:
            values = self.near[rng.integers(len(self.near)), joints] + deviations * rng.standard_normal(len(joints))
        else:
            values = self.lower[joints] + widths * rng.random(len(joints))
        inside = (values >= self.lower[joints]) & (values <= self.lower[joints] + widths)
        density = float(np.prod(self.ranges[joints] / widths)) * bool(inside.all())
        if len(self.near):
            away = (values - self.near[:, joints]) / deviations
            peak = np.prod(self.ranges[joints] / (np.sqrt(2.0 * np.pi) * deviations))
            around = float(peak * np.exp(-0.5 * (away**2).sum(axis=1)).mean())
            density = (1.0 - NEAR_SHARE) * density + NEAR_SHARE * around
        return joints, values, float(np.log(density * self.probabilities[way]))


def _mean_squares(measure: ScaledMeasure, known: FloatArray, ways: IntArray) -> FloatArray:
    """Mean over solutions of |du_H on the set|^2 (n_ways,): minors of the projection onto the null space of J_u."""
    jacobians = measure.jacobians(known)
    projections = np.eye(jacobians.shape[2]) - np.linalg.pinv(jacobians) @ jacobians
    minors = projections[:, ways[:, :, None], ways[:, None, :]]
    return np.asarray(np.maximum(np.linalg.det(minors), 0.0).mean(axis=0))
