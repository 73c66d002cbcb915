"""Collision checks of a robot with itself and with obstacles.

The shapes are read from the URDF (`links.py`) and converted to coal geometries (`solids.py`). All pairs of bodies of
the robot are checked, with two exceptions. Neighbours in the chain are skipped; bodies without a shape between them are
ignored. Bodies that collide in at least the fraction ALWAYS of N_TRIALS random configurations are also skipped, because
their shapes overlap by design. An SRDF that disables pairs replaces these exceptions. Obstacles are checked against all
bodies except the base, which does not move. A scene can name further pairs that may collide.

The clearance applies to obstacles and to pairs of bodies. Bodies that are closer than the clearance in the fraction
ALWAYS of the trials are only checked for contact. A first pass uses the convex hull of each mesh. If hulls collide, the
surfaces of the meshes are checked. Finally, shapes that lie completely inside a mesh are detected.
"""

from __future__ import annotations

import copy
import functools
import math
import threading
import weakref
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.checks import checked_flag, expect, number_from_zero
from eim_ros.core.deadlines import NEVER, OutOfTime, check_time, is_past
from eim_ros.core.errors import ConstraintError, EimError, MeshError, RobotError, did_you_mean
from eim_ros.kinematics.collision_options import SceneSize, check_balls, disabled_pairs
from eim_ros.kinematics.crowd import Crowd, OwnShape
from eim_ros.kinematics.links import MeshReference, body_shapes, link_shapes
from eim_ros.kinematics.meshes import MeshLimits, find_mesh, read_mesh, seconds_to_read
from eim_ros.kinematics.obstacles import Mesh, Obstacle, checked_obstacles
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solids import Checker, Pair, Solid, SolidSet, forms_of
from eim_ros.kinematics.urdf import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION, listed

TURN, SAME = 2.0 * math.pi, 1e-9  # [rad]; configurations with smaller differences are equal
AT_ONCE, AT_ONCE_LATE = 64, 8  # number of configurations between two checks of the clock, before and after the deadline
ALWAYS = 0.95  # bodies that collide in at least this fraction of trials collide by design
N_TRIALS = 400
FEW = 100  # maximum number of obstacles for pinocchio; with more, a `Crowd` is faster
MOST_CLEARANCES = 16  # maximum number of clearances for which the trials are cached


class CollisionScene:
    """Collision check of configurations in one scene; not thread-safe.

    `margins` maps each pair to check to its minimum distance [m]. Obstacles of the crowds also have numbers in the set
    of shapes, but occur in none of the pairs.

    Attributes
    ----------
    n_colliding : int
        Number of configurations found to collide so far.
    n_unchecked : int
        Number of configurations left unchecked so far because time ran out.
    """

    def __init__(
        self, robot: Robot, shapes: SolidSet, margins: Mapping[Pair, float], crowds: Sequence[Crowd] = ()
    ) -> None:
        self.n_colliding = self.n_unchecked = 0
        self._robot, self._shapes, self._margins, self._crowds = robot, shapes, margins, crowds
        sources, multipliers, offsets = robot.links[:-1, [SOURCE, MULTIPLIER, OFFSET]].T
        self._sources, self._multipliers, self._offsets = sources.astype(np.int64), multipliers, offsets
        has_own = np.array_equal(sources, np.arange(robot.dof)) and (multipliers == 1.0).all() and not offsets.any()
        self._has_followers = not has_own

    def again(self) -> CollisionScene:
        """Return a copy with counters at zero that shares the prepared geometry."""
        self.prepare()
        again = copy.copy(self)
        again.n_colliding = again.n_unchecked = 0
        return again

    def prepare(self, deadline: float = NEVER) -> None:
        """Prepare the geometry that the first check needs; raise `OutOfTime` if the deadline passes first."""
        check_time(deadline, "prepare the collision check")
        _ = self._outer
        if self._shapes.has_surfaces:
            check_time(deadline, "prepare the collision check of meshes")
            _ = self._exact

    def colliding(self, q: FloatArray, deadline: float = NEVER) -> BoolArray:
        """Return whether each configuration (n, dof) collides; contact counts as a collision.

        The deadline is a time of `perf_counter` [s]. Configurations that cannot be checked before the deadline count as
        colliding, so that no unchecked configuration counts as free. A few configurations are always checked. If
        configurations differ by full revolutions, their links have equal poses, and only the first one is checked.
        """
        rows, copies = self._distinct(q)
        found, unchecked = (each[copies] for each in self._checked(q[rows], deadline))
        self.n_unchecked += int(np.count_nonzero(unchecked))
        self.n_colliding += int(np.count_nonzero(found & ~unchecked))
        return found

    def _distinct(self, q: FloatArray) -> tuple[IntArray | slice, IntArray | slice]:
        """Return the indices of configurations with distinct poses of the links, and the index of each among these.

        Configurations are sorted by a fixed projection, so that copies are neighbours. If another configuration is
        between two copies, both copies are checked.
        """
        if len(q) < 2 or not len(self._wide_joints):
            return slice(None), slice(None)
        turned = q.copy()
        turned[:, self._wide_joints] %= TURN
        order = np.argsort(turned @ np.cos(np.arange(q.shape[1])), kind="stable")
        differs = (np.abs(np.diff(turned[order], axis=0)) > SAME).any(axis=1)
        group = np.concatenate([[0], np.cumsum(differs)])
        firsts = np.minimum.reduceat(order, np.concatenate([[0], np.flatnonzero(differs) + 1]))
        rows = np.sort(firsts)  # keeps the given order, because the deadline may end the checks early
        copies = np.empty(len(q), dtype=np.int64)
        copies[order] = np.searchsorted(rows, firsts)[group]
        return rows, copies

    @functools.cached_property
    def _wide_joints(self) -> IntArray:
        """Indices of the joints with limits of more than one revolution."""
        robot = self._robot
        return np.flatnonzero(robot.revolves & ~robot.continuous & (robot.upper - robot.lower > TURN + SAME))

    def _checked(self, q: FloatArray, deadline: float) -> tuple[BoolArray, BoolArray]:
        """Return which configurations (n, dof) count as colliding, and which of them were not checked in time."""
        values, found, unchecked = self._values(q), np.ones(len(q), dtype=np.bool_), np.ones(len(q), dtype=np.bool_)
        first, step = 0, AT_ONCE_LATE if is_past(deadline) else AT_ONCE
        while first < len(q) and not (first and is_past(deadline)):
            rows = slice(first, first + step)
            found[rows], unchecked[rows] = self._colliding(q[rows], values[rows], deadline)
            first += step
        return found, unchecked

    def _colliding(self, q: FloatArray, values: FloatArray, deadline: float) -> tuple[BoolArray, BoolArray]:
        """Return the result of `_checked` for a few configurations."""
        found = self._outer.colliding(values) if self._margins else np.zeros(len(q), dtype=np.bool_)
        unchecked = np.zeros(len(q), dtype=np.bool_)
        if self._shapes.has_surfaces and found.any():
            doubtful = np.flatnonzero(found)
            found[doubtful] = self._exact.colliding(values[doubtful])
            for n_looked_at, row in enumerate(doubtful := doubtful[~found[doubtful]]):
                if n_looked_at and is_past(deadline):
                    found[doubtful[n_looked_at:]] = unchecked[doubtful[n_looked_at:]] = True
                    break
                found[row] = bool(self._enclosed(values[row], first=True))
        for crowd in self._crowds:
            free = np.flatnonzero(~found)
            if not len(free):
                break
            found[free], n_late = crowd.colliding(q[free], deadline)
            unchecked[free[len(free) - n_late :]] = True
        return found, unchecked

    def pairs(self, q: FloatArray) -> list[Pair]:
        """Return all pairs of shapes that collide in one configuration (dof,)."""
        row = self._values(q[None])[0]
        among = [pair for crowd in self._crowds for pair in crowd.pairs(q)]
        if not self._shapes.has_surfaces:
            return self._outer.pairs(row) + among
        return sorted({*self._exact.pairs(row), *self._enclosed(row, first=False), *among})

    def collides_at_tip(self, q: FloatArray) -> bool:
        """Return whether links fixed to the tip collide with obstacles or the base in a configuration (dof,).

        If these links collide, they collide in all configurations with the same pose of the tip.
        """
        base, tip = 0, len(self._robot.links) - 1
        bodies = [*self._shapes.bodies, *([base] * len(self._shapes.names))]  # obstacles of crowds have no body
        return any({bodies[a], bodies[b]} == {base, tip} for a, b in self.pairs(q))

    def names_of_pairs(self, q: FloatArray) -> list[tuple[str, str]]:
        """Return the names of the links and obstacles that collide in one configuration (dof,)."""
        names = self._shapes.names
        return list(dict.fromkeys((names[a], names[b]) for a, b in self.pairs(q)))

    @functools.cached_property
    def _outer(self) -> Checker:
        return self._shapes.checker(self._margins, exact=False)

    @functools.cached_property
    def _exact(self) -> Checker:
        return self._shapes.checker(self._margins, exact=True)

    def _enclosed(self, row: FloatArray, first: bool) -> list[Pair]:
        """Return the pairs in which one shape lies inside the surface of the other.

        Shapes that touch the surface are not included, because the exact check detects them. If `first` is true, at
        most one pair is returned.
        """
        found = []
        for pair in self._outer.pairs(row):
            for outer, inner in (pair, pair[::-1]):
                surface = self._shapes.solids[outer].surface
                if surface is None:
                    continue
                between = np.linalg.inv(self._outer.placement(outer)) @ self._outer.placement(inner)
                witnesses = self._shapes.solids[inner].witnesses @ between[:3, :3].T + between[:3, 3]
                if surface.encloses(witnesses):
                    found.append(pair)
                    if first:
                        return found
        return found

    def _values(self, q: FloatArray) -> FloatArray:
        """Return the values (n, m) of all moving joints, including mimic joints."""
        if not self._has_followers:
            return q
        return np.ascontiguousarray(q[:, self._sources] * self._multipliers + self._offsets)


class CollisionModel:
    """Collision shapes of a robot, and the pairs of its bodies to check.

    `Robot.collision` determines how meshes are read. `known` is a cache of meshes, to which new meshes are added. The
    deadline is a time of `perf_counter` [s].

    Raises
    ------
    OutOfTime
        If the deadline passes before all meshes are read.
    RobotError
        If a shape is malformed or the SRDF is invalid.
    MeshError
        If a mesh does not exist or cannot be read.
    """

    def __init__(self, robot: Robot, deadline: float = NEVER, known: dict[Any, Mesh] | None = None) -> None:
        self.robot = robot
        self._model = _chain(robot)
        self._shapes = SolidSet(self._model)
        self._lock = threading.Lock()
        meshes: dict[Any, Mesh] = {} if known is None else known
        shapes = link_shapes(robot.urdf)
        self._links = frozenset(shapes)
        for placed in body_shapes(robot, shapes):
            shape: Obstacle | MeshReference = placed.shape
            if isinstance(shape, MeshReference):
                if robot.collision.meshes == "none":
                    continue
                shape = _mesh(robot, placed.link, shape, meshes, deadline)
            (solid,) = forms_of(shape, deadline).finished(deadline)
            self._shapes.add(placed.body, placed.pose, solid, placed.link)
        self._trials: dict[float, _Trials] = {}
        self._kept = threading.local()
        self._checked: list[Pair] | None = None
        self._is_disabled = disabled_pairs(str(robot.collision.srdf))

    def prepare(self, deadline: float = NEVER) -> None:
        """Determine which bodies are checked against each other. If time runs out, finished trials are kept."""
        _ = self._checked_pairs(deadline)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of bodies with at least one pair of shapes that is checked."""
        bodies = self._shapes.bodies
        return sorted({(bodies[a], bodies[b]) for a, b in self._checked_pairs(NEVER)})

    @property
    def n_shapes(self) -> int:
        return len(self._shapes.bodies)

    def scene(
        self,
        self_collision: bool,
        obstacles: Sequence[Obstacle] = (),
        clearance: float = 0.0,
        deadline: float = NEVER,
        allowed_collisions: Sequence[tuple[str, str]] = (),
    ) -> CollisionScene:
        """Return a scene that checks configurations for collisions.

        Each thread caches its last scene and reuses it for the same obstacles.

        Parameters
        ----------
        self_collision : bool
            Whether to check the bodies of the robot against each other.
        obstacles : sequence of Obstacle
            Obstacles in the base frame.
        clearance : float
            Minimum distance [m]; closer shapes count as colliding.
        deadline : float
            Time of `perf_counter` [s].
        allowed_collisions : sequence of (str, str)
            Pairs of names that may collide: two links, or a link and an obstacle. Obstacles without a name are called
            "obstacle 0", "obstacle 1" and so on.

        Raises
        ------
        ConstraintError
            If the robot has no collision shapes, if the scene exceeds the limits of `CollisionOptions`, or if neither
            name of an allowed pair is a link of the robot.
        OutOfTime
            If the shapes cannot be prepared before the deadline. Finished shapes are kept for the next call.
        """
        if not self._shapes.bodies:
            unread = ", and its meshes are ignored (meshes is 'none')" if self.robot.collision.meshes == "none" else ""
            raise ConstraintError(
                f"robot {self.robot.name!r} cannot be checked for collisions, because no link of its description has a "
                f"<collision> with a box, cylinder, sphere, capsule or mesh{unread}",
                self.robot.name,
            )
        kind = "among" if obstacles else "alone"
        known: _KeptScene | None = getattr(self._kept, kind, None)
        allowed = frozenset(map(frozenset[str], allowed_collisions))
        asked = self_collision, clearance, allowed
        scene = None if known is None else known.scene_of(asked, obstacles)
        if scene is None:
            self._check_names(allowed_collisions)
            SceneSize.of(obstacles).check(self.robot.collision)
            scene = self._scene(self_collision, obstacles, clearance, deadline, allowed)
            scene.prepare(deadline)
            setattr(self._kept, kind, _KeptScene(asked, obstacles, scene))
        return scene.again()

    def _check_names(self, allowed_collisions: Sequence[tuple[str, str]]) -> None:
        """Raise `ConstraintError` if neither name of a pair is a link. One name may belong to a later obstacle."""
        for pair in allowed_collisions:
            if not self._links.intersection(pair):
                raise ConstraintError(
                    f"allowed_collisions: neither {pair[0]!r} nor {pair[1]!r} is a link; robot {self.robot.name!r} "
                    f"has the links {listed(sorted(self._links))}{did_you_mean(pair[0], self._links)}",
                    pair,
                )

    def _scene(
        self,
        self_collision: bool,
        obstacles: Sequence[Obstacle],
        clearance: float,
        deadline: float,
        allowed: frozenset[frozenset[str]],
    ) -> CollisionScene:
        shapes, bodies, links = self._shapes.copy(), self._shapes.bodies, self._shapes.names
        margins = self._own_margins(clearance, deadline) if self_collision else {}
        margins = {(a, b): margin for (a, b), margin in margins.items() if {links[a], links[b]} not in allowed}
        plain: list[tuple[str, FloatArray, Solid]] = []
        others: list[tuple[str, FloatArray, Solid]] = []
        forms = []
        for obstacle in obstacles:
            check_time(deadline, "prepare the obstacles")
            forms.append(forms_of(obstacle, deadline))
        most = self.robot.collision.most_points
        check_balls(self.robot.collision, sum(form.n_balls(most, deadline) for form in forms))
        for number, (obstacle, form) in enumerate(zip(obstacles, forms, strict=True)):
            name, pose = obstacle.name or f"obstacle {number}", np.asarray(obstacle.pose, dtype=np.float64)
            for solid in form.finished(deadline):
                (plain if solid.surface is None else others).append((name, pose, solid))
        if len(plain) <= FEW:
            others, plain = others + plain, []

        @functools.cache
        def checked(name: str) -> tuple[int, ...]:
            """Return the moving shapes of the robot that an obstacle must not touch."""
            return tuple(i for i, body in enumerate(bodies) if body and {links[i], name} not in allowed)

        for name, pose, solid in others:
            check_time(deadline, "prepare the obstacles")
            index = shapes.add(0, pose, solid, name)
            margins.update({(own, index): clearance for own in checked(name)})
        crowds: dict[tuple[int, ...], list[tuple[int, FloatArray, Solid]]] = {}
        for name, pose, solid in plain:
            crowds.setdefault(checked(name), []).append((shapes.named(name), pose, solid))
        placements, solids = self._shapes.placements, self._shapes.solids
        made = [
            Crowd(
                self.robot, [OwnShape(i, bodies[i], placements[i], solids[i]) for i in own], crowd, clearance, deadline
            )
            for own, crowd in crowds.items()
            if own
        ]
        return CollisionScene(self.robot, shapes, margins, made)

    def _own_margins(self, clearance: float, deadline: float) -> dict[Pair, float]:
        checked = self._checked_pairs(deadline)
        margins = dict.fromkeys(checked, clearance)
        if clearance:
            margins.update(dict.fromkeys(self._often(checked, clearance, deadline), 0.0))
        return margins

    def _checked_pairs(self, deadline: float) -> list[Pair]:
        """Return the pairs of the robot's shapes to check, selected as the module docstring describes."""
        if self._checked is None:
            bodies, names = self._shapes.bodies, self._shapes.names
            if (is_disabled := self._is_disabled) is not None:
                every = [(a, b) for a in range(len(bodies)) for b in range(len(bodies)) if bodies[a] < bodies[b]]
                self._checked = [(a, b) for a, b in every if not is_disabled(names[a], names[b])]
                return self._checked
            present = sorted(set(bodies))
            apart = {(a, b) for i, a in enumerate(present) for b in present[i + 2 :]}
            pairs = [(a, b) for a in range(len(bodies)) for b in range(len(bodies)) if (bodies[a], bodies[b]) in apart]
            overlapping = self._often(pairs, 0.0, deadline)
            self._checked = [pair for pair in pairs if pair not in overlapping]
        return self._checked

    def _often(self, pairs: Sequence[Pair], clearance: float, deadline: float) -> set[Pair]:
        """Return the pairs of shapes whose bodies collide in at least the fraction ALWAYS of the trials."""
        with self._lock:
            trials = self._trials.get(clearance)
            if trials is None or trials.pairs != list(pairs):
                trials = self._trials[clearance] = _Trials(self.robot, self._shapes, list(pairs), clearance)
                while len(self._trials) > MOST_CLEARANCES:
                    self._trials.pop(next(iter(self._trials)))
            return trials.often(deadline)


class _KeptScene:
    """Cache of one scene, which is kept until its first obstacle is deleted."""

    def __init__(self, asked: object, obstacles: Sequence[Obstacle], scene: CollisionScene) -> None:
        kept = [scene]
        self._asked, self._scene = asked, kept
        self._obstacles = [weakref.ref(obstacle) for obstacle in obstacles]
        if obstacles:
            self._first = weakref.ref(obstacles[0], lambda _: kept.clear())

    def scene_of(self, asked: object, obstacles: Sequence[Obstacle]) -> CollisionScene | None:
        """Return the scene if it was built for the same obstacle objects, otherwise None."""
        is_same = self._asked == asked and len(self._obstacles) == len(obstacles)
        if is_same and all(known() is given for known, given in zip(self._obstacles, obstacles, strict=True)):
            return self._scene[0] if self._scene else None
        return None


class _Trials:
    """Count of collisions in random configurations. If time runs out, the count can be continued later."""

    def __init__(self, robot: Robot, shapes: SolidSet, pairs: list[Pair], clearance: float) -> None:
        self.pairs = pairs
        self._bodies, self._counts = shapes.bodies, dict[Pair, int]()
        self._scene = CollisionScene(robot, shapes.copy(), dict.fromkeys(pairs, clearance))
        self._left = robot.random(N_TRIALS, np.random.default_rng(0)) if pairs else np.empty((0, 0))

    def often(self, deadline: float) -> set[Pair]:
        while len(self._left):
            check_time(deadline, "determine which links may collide with each other")
            for owners in {(self._bodies[a], self._bodies[b]) for a, b in self._scene.pairs(self._left[0])}:
                self._counts[owners] = self._counts.get(owners, 0) + 1
            self._left = self._left[1:]
        often = {owners for owners, count in self._counts.items() if count >= ALWAYS * N_TRIALS}
        return {(a, b) for a, b in self.pairs if (self._bodies[a], self._bodies[b]) in often}


class _Maker:
    """Lazy construction of a robot's collision model. If time runs out, meshes that were read are kept."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._lock = threading.Lock()
        self._meshes: dict[Any, Mesh] = {}
        self._model: CollisionModel | None = None

    def model(self, deadline: float) -> CollisionModel:
        if self._model is None:
            if not self._lock.acquire(timeout=-1 if deadline == NEVER else max(0.0, deadline - perf_counter())):
                raise OutOfTime("another call is still preparing the collision shapes of the robot: try again later")
            try:
                if self._model is None:
                    self._model = CollisionModel(self._robot, deadline, self._meshes)
            finally:
                self._lock.release()
        return self._model


_maker = functools.lru_cache(maxsize=8)(_Maker)


def collision_model(robot: Robot, deadline: float = NEVER) -> CollisionModel:
    """Return the collision model of a robot, which is built on the first call and cached.

    Building takes tens of milliseconds, or up to several seconds with meshes.

    Raises
    ------
    OutOfTime
        If the deadline, a time of `perf_counter` [s], passes first. Meshes read so far are kept.
    """
    return _maker(robot).model(deadline)


def collisions(
    robot: Robot,
    q: npt.ArrayLike,
    obstacles: Sequence[Obstacle] = (),
    *,
    self_collision: bool = True,
    clearance: float = 0.0,
    allowed_collisions: Sequence[tuple[str, str]] = (),
) -> list[tuple[str, str]]:
    """Return the pairs that collide in one configuration (dof,) [rad] or [m]; see `CollisionModel.scene`.

    A pair consists of the name of a link, and the name of another link or an obstacle. Obstacles without a name are
    called "obstacle 0", "obstacle 1" and so on.
    """
    expect(robot, Robot, "robot", RobotError)
    rows = robot._finite_rows(q, "configurations")
    if len(rows) != 1:
        raise RobotError(f"collisions are computed for one configuration (dof,), got {len(rows)} configurations", q)
    self_collision = checked_flag(self_collision, "self_collision", ConstraintError)
    checked = checked_obstacles(obstacles), number_from_zero(clearance, "the clearance")
    allowed = checked_pairs(allowed_collisions)
    scene = collision_model(robot).scene(self_collision, *checked, allowed_collisions=allowed)
    return scene.names_of_pairs(rows[0])


def checked_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return pairs of names as tuples; raise `ConstraintError` for other values."""
    is_list = isinstance(pairs, Sequence) and not isinstance(pairs, str)
    for pair in pairs if is_list else [pairs]:
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not is_list or not is_pair or not all(isinstance(name, str) for name in pair):
            raise ConstraintError(f"allowed_collisions must be a list of pairs of names, got {pair!r}", pair)
    return tuple((first, second) for first, second in pairs)


def _chain(robot: Robot) -> Any:
    """Return a pinocchio model with the joint frames of `urdf.py`, where mimic joints are independent joints."""
    import pinocchio

    model, parent = pinocchio.Model(), 0
    for i, row in enumerate(robot.links[:-1]):
        joint = pinocchio.JointModelPZ() if row[PRISMATIC] else pinocchio.JointModelRZ()
        placement = pinocchio.SE3(row[:9].reshape(3, 3), row[TRANSLATION])
        parent = model.addJoint(parent, joint, placement, f"joint_{i}")
    return model


def _mesh(robot: Robot, link: str, shape: MeshReference, known: dict[Any, Mesh], deadline: float) -> Mesh:
    """Return a collision mesh of a link, or its convex hull. Each file is read once."""
    scale = tuple(np.asarray(shape.scale, dtype=np.float64).tolist())
    key, options = (shape.filename, scale), robot.collision
    if key in known:
        return known[key]
    n_left = options.most_triangles - sum(len(np.asarray(mesh.faces)) for mesh in known.values())
    try:
        path = find_mesh(shape.filename, robot.folder, options.package_paths, packages_only=options.packages_only)
        check_time(deadline, f"read the mesh of link {link!r}", seconds_to_read(path))
        limits = MeshLimits(options.most_mesh_bytes, n_left)
        convex = options.meshes == "hulls"
        known[key] = Mesh(np.eye(4), *read_mesh(path, scale, limits), convex, name=path.name)
    except OutOfTime:
        raise
    except MeshError as error:
        raise MeshError(f"a collision shape of link {link!r} is invalid: {error}", link) from error
    except EimError as error:
        raise RobotError(f"a collision shape of link {link!r} is invalid: {error}", link) from error
    return known[key]
