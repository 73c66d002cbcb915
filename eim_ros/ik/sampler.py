"""Sampled, verified inverse kinematics: propose from the mixture, refine, verify, select.

Every configuration returned as valid was checked by forward kinematics against the requested pose and against the
limits. The mixture proposes first; where its proposals fail, uniform seeds are blended in, so that no pose is lost
that uniform restarts would solve.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, JointStateError, RobotError
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.goal import Goal, Pool
from eim_ros.ik.model import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, IKModel
from eim_ros.ik.posture import Posture
from eim_ros.ik.proposal import Proposal
from eim_ros.ik.ranking import Order, Ranking
from eim_ros.ik.samples import Samples
from eim_ros.ik.search import DISTINCT_TOLERANCE, Search
from eim_ros.ik.selection import distinct_rows
from eim_ros.kinematics import Robot, context_from_pose
from eim_ros.kinematics.arguments import as_numbers
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.pose import check_pose
from eim_ros.numerics.random import seed_fraction

__all__ = ["Sampler", "check_numbers"]

FloatArray = npt.NDArray[np.float64]

EXPLORE, FEWEST_TO_EXPLORE = 0.85, 16  # where so many are asked of a model that prefers none
POSE_DIMENSIONS = 6
MOST_SAMPLES = 1_000_000  # a search is not interrupted within a round, and its answer has to fit into memory
UNCONSTRAINED = Constraints()
FREE_ORIENTATIONS = 8  # poses over which a model is averaged where the task leaves some of it free


class Sampler:
    """Draws configurations that reach a pose.

    Parameters
    ----------
    model : IKModel
    """

    def __init__(self, model: IKModel) -> None:
        self.robot: Robot = model.robot
        self.context_kind: str = model.context_kind
        self.training = model.training
        self._proposal = Proposal(model.content)

    @classmethod
    def load(cls, model: str | Path, robot: Robot | None = None, device: str = "cpu") -> Sampler:
        """Read a model file; `ModelFileError` if it is damaged, of another schema, or for another robot.

        Requests are served on the CPU, where one takes a fraction of a transfer to a GPU: any other device is refused.
        """
        if device != "cpu":
            raise ConfigurationError(f"requests are served on the CPU; device must be 'cpu', got {device!r}", device)
        return cls(IKModel.load(model, robot))

    @property
    def n_experts(self) -> int:
        return int(self._proposal.n_experts)

    def prepare(self) -> None:
        """Do now what the first request would have to wait for: shapes for collisions are read."""
        with contextlib.suppress(RobotError):  # of a shape that cannot be read: told to those who ask for collisions
            collision_model(self.robot)

    def sample(
        self,
        pose: npt.ArrayLike,
        n: int = 100,
        seed: int | None = None,
        *,
        near: npt.ArrayLike | None = None,
        order: Order | None = None,
        position_only: bool | None = None,
        refine: bool = True,
        distinct: bool = False,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        timeout: float = 1.0,
        explore: float | None = None,
        constraints: Constraints | None = None,
        posture: Posture | Mapping[str, float] | None = None,
    ) -> Samples:
        """Sample configurations for one pose.

        Parameters
        ----------
        pose : (4, 4) array_like
            Wanted pose of the tip in the base frame.
        n : int
            Number of configurations, 1 to 1000000.
        seed : int, optional
            Random seed >= 0; the same seed gives the same answer unless the timeout cuts it short. Fresh if missing.
        near : (dof,) array_like, optional
            Configuration to which solutions should be near [rad or m].
        order : str or mapping of str to float, optional
            How the answer is ordered, see `Ranking`; default: by `posture` where that is given, else by the distance to
            `near` where that is given, else by density. By "none" is fastest: no density is computed.
        position_only : bool, optional
            Whether any orientation will do; default: as the model's context is a position or a pose; with
            tolerances per axis these decide.
        refine : bool
            Whether samples are moved onto the pose. If not, raw samples are returned and marked valid or not.
        distinct : bool
            Whether near-duplicates (no joint differs by more than 0.01 rad or m) are dropped.
        position_tolerance, orientation_tolerance : float
            Largest errors of a valid configuration [m], [rad].
        timeout : float
            [s].
        explore : float, optional
            How much all solutions matter, and not those alone that the model prefers, 0 to 1: the share of the answer
            that may come from walks along the self-motion, and how much the weights of the experts are levelled, see
            `Search`. Default: 0.85 for 16 and more samples of a model of `collect` for whole poses of at most 7 joints,
            whose solutions are points or curves, else 0.
        constraints : Constraints, optional
            Tolerances per axis, narrower limits, fixed joints, no collision.
        posture : Posture, or mapping of str to float, optional
            Preferred values of joints by name [rad] or [m], with equal weights where it is a mapping. With `refine`
            each solution is moved along the self-motion of the arm to the nearest local minimum of the posture's cost,
            as far as limits allow and nothing collides there; never to a higher cost.

        Returns
        -------
        Samples
            With `refine`: up to n valid configurations; if there is none, the best attempt, marked not valid.

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. Not finding a solution is no exception, see `Samples.error_code`.
        """
        started = time.perf_counter()
        wanted, asked = check_pose(pose), constraints or UNCONSTRAINED
        if position_only is None:
            position_only = self.context_kind == "position" and asked.tolerances is None
        check_numbers(n, seed, position_tolerance, orientation_tolerance, timeout, explore)
        n = int(n)  # of numpy's integers some are too narrow to reckon with
        reference = None if near is None else self.checked_configuration(near)
        liked = posture if posture is None or isinstance(posture, Posture) else Posture(posture)
        if liked is not None:
            liked.of(self.robot)
        natural = "density" if reference is None else "distance"
        order = order or (natural if liked is None else "posture")
        ranking = Ranking(order, reference, position_only, liked)
        seed = None if seed is None else int(seed)
        conditional = self._proposal.condition(self._contexts(wanted, position_only, asked, seed))
        goal = Goal(self.robot, wanted, position_only, position_tolerance, orientation_tolerance, asked)
        if refine:
            share = self._explore(explore, n, position_only)
            search = Search(goal, conditional, seed_fraction(seed), distinct, reference, share)
            pool, out_of_time = search.run(n, started + timeout)
        else:
            positions, expert = conditional.sample(n, np.random.default_rng(seed))
            pool, out_of_time = goal.verified(positions, expert), False
        n_colliding, is_cut_short = goal.n_colliding, False
        if liked is not None and refine:
            pool, is_cut_short = goal.settled(pool, liked, started + timeout)
        if distinct and (liked is not None or not refine):
            pool = pool.pick(distinct_rows(self.robot, pool.positions, DISTINCT_TOLERANCE))
        code, message = _outcome(pool, n, refine, out_of_time or is_cut_short, n_colliding)
        message += "; not all were moved towards the posture" if is_cut_short else ""
        picked = ranking.ranked(self.robot, pool, n, conditional.log_prob)
        return Samples(
            self.robot.joint_names,
            picked.positions,
            picked.position_error,
            picked.orientation_error,
            picked.valid,
            picked.expert,
            code,
            message,
            time.perf_counter() - started,
            conditional,
        )

    def _explore(self, explore: float | None, n: int, position_only: bool) -> float:
        if explore is not None:
            return float(explore)
        prefers_none = self.training.get("data_source") in (UNIFORM_CONFIGURATIONS, EVEN_SOLUTIONS)
        curves = not position_only and self.robot.dof <= POSE_DIMENSIONS + 1
        return EXPLORE if prefers_none and curves and n >= FEWEST_TO_EXPLORE else 0.0

    def _contexts(
        self, pose: FloatArray, position_only: bool, constraints: Constraints, seed: int | None
    ) -> FloatArray:
        """Contexts (n_contexts, n_context) of the model over which the proposal is averaged."""
        poses, is_turned = pose[None], self.context_kind == "pose" and position_only
        if constraints.tolerances is None and not is_turned:
            return context_from_pose(poses, self.context_kind)
        rng = np.random.default_rng(None if seed is None else (seed, FREE_ORIENTATIONS))
        if constraints.tolerances is not None:
            poses = constraints.wanted(pose, self.robot, FREE_ORIENTATIONS, rng)
        if is_turned:
            poses = np.repeat(poses, FREE_ORIENTATIONS // len(poses), axis=0)
            poses[:, :3, :3] = _random_rotations(FREE_ORIENTATIONS, rng)
        return context_from_pose(poses, self.context_kind)

    def checked_configuration(self, near: npt.ArrayLike) -> FloatArray:
        """One configuration (dof,); `JointStateError` where it has another shape or is not finite."""
        names = ", ".join(self.robot.joint_names)
        wrong = JointStateError(f"a seed configuration needs {self.robot.dof} finite values, of {names}", near)
        try:
            reference = as_numbers(near)
        except (TypeError, ValueError) as error:
            raise wrong from error
        if reference.shape != (self.robot.dof,) or not np.isfinite(reference).all():
            raise wrong
        return reference


def check_numbers(
    n: int,
    seed: int | None,
    position_tolerance: float = 1.0,
    orientation_tolerance: float = 1.0,
    timeout: float = 1.0,
    explore: float | None = None,
) -> None:
    """Refuse what is no number or out of its bounds; the comparisons are also false for NaN."""
    wholes: dict[str, object] = {"n": n, "the random seed": 0 if seed is None else seed}
    for name, whole in wholes.items():
        if type(whole) is not int and not isinstance(whole, Integral):
            raise ConfigurationError(f"{name} must be a whole number, got {whole!r}", whole)
    numbers: dict[str, object] = {
        "the position tolerance": position_tolerance,
        "the orientation tolerance": orientation_tolerance,
        "the timeout": timeout,
        "explore": 0.0 if explore is None else explore,
    }
    for name, number in numbers.items():
        if type(number) is not float and not isinstance(number, Real):
            raise ConfigurationError(f"{name} must be a number, got {number!r}", number)
    if not n >= 1:
        raise ConfigurationError(f"n must be at least 1, got {n}", n)
    if not n <= MOST_SAMPLES:
        raise ConfigurationError(f"n must be at most {MOST_SAMPLES}, got {n}", n)
    if seed is not None and not seed >= 0:
        raise ConfigurationError(f"the random seed must be at least 0, got {seed}", seed)
    for name, tolerance in (("position", position_tolerance), ("orientation", orientation_tolerance)):
        if not tolerance > 0.0:
            raise ConfigurationError(f"the {name} tolerance must be positive, got {tolerance}", tolerance)
    if not timeout >= 0.0:
        raise ConfigurationError(f"the timeout must not be negative, got {timeout}", timeout)
    if explore is not None and not 0.0 <= explore <= 1.0:
        raise ConfigurationError(f"explore must be from 0 to 1, got {explore}", explore)


def _outcome(pool: Pool, n: int, refine: bool, out_of_time: bool, n_colliding: int) -> tuple[ErrorCode, str]:
    n_valid = min(int(np.count_nonzero(pool.valid)), n)
    if out_of_time:
        code, reason = ErrorCode.TIMED_OUT, "timed out: "
    else:
        code, reason = (ErrorCode.SUCCESS if n_valid else ErrorCode.NO_IK_SOLUTION), ""
    if n_valid:
        if not refine:
            return code, f"{n_valid} of {n} raw configurations are valid"
        rest = "" if n_valid == n or out_of_time else "; the search ended without more"
        rest += f"; {n_colliding} more collide" if n_colliding and n_valid < n else ""
        return code, f"{reason}{n_valid} of {n} configurations are valid{rest}"
    if n_colliding:
        code = code if out_of_time else ErrorCode.GOAL_IN_COLLISION
        return code, f"{reason}all of the {n_colliding} configurations found that reach the pose collide"
    best = pool.best()
    error = f"{best.position_error[0]:.3g} m and {best.orientation_error[0]:.3g} rad"
    return code, f"{reason}no valid configuration found; the best is off by {error}"


def _random_rotations(n: int, rng: np.random.Generator) -> FloatArray:
    """Rotations (n, 3, 3), uniform: QR of Gaussian matrices (Stewart 1980)."""
    orthogonal, triangular = np.linalg.qr(rng.standard_normal((n, 3, 3)))
    orthogonal = orthogonal * np.sign(np.diagonal(triangular, axis1=1, axis2=2))[:, None, :]
    flip = np.linalg.det(orthogonal) < 0.0
    orthogonal[flip, :, 0] *= -1.0
    return np.asarray(orthogonal)
