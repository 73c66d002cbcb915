"""The collision shapes of a robot, and which of them are checked against each other and against obstacles.

Shapes are those of `link_shapes.py`, in the forms of `solids.py`. Two bodies of the robot are checked against each
other unless they are neighbours (no body with a shape lies between them in the chain), or collide in at least ALWAYS of
N_TRIALS random configurations: then their shapes overlap by design. Where the robot has an SRDF, that tells which links
are not checked instead. Obstacles are checked against all bodies but the base, which does not move.

A clearance is kept from obstacles, and between bodies but those that are closer than it in ALWAYS of the trials: these
are checked for touching.

Checks configurations for collisions: a fast pass over all, and a close look at those that it leaves in doubt.

The fast pass takes the hull of each mesh. What collides there is looked at again with the surfaces of the meshes, and
where no surfaces touch, for what is inside of a mesh altogether.
"""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import checked_flag, expect, number_from_zero
from eim_ros.core.deadlines import NEVER, OutOfTime, check_time, is_past
from eim_ros.core.errors import ConstraintError, EimError, MeshError, RobotError
from eim_ros.kinematics.collision_options import SceneSize, check_balls, disabled_pairs
from eim_ros.kinematics.crowd import Crowd, OwnShape
from eim_ros.kinematics.links import MeshReference, body_shapes, link_shapes
from eim_ros.kinematics.meshes import MeshLimits, find_mesh, read_mesh, seconds_to_read
from eim_ros.kinematics.obstacles import Mesh, Obstacle, checked_obstacles
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solids import Checker, Pair, Solid, SolidSet, forms_of
from eim_ros.kinematics.urdf import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

AT_ONCE, AT_ONCE_LATE = 64, 8  # configurations between two looks at the clock; and when there is no time left


class CollisionScene:
    """Checks configurations; not to be shared by threads.

    Parameters
    ----------
    robot : Robot
    shapes : SolidSet
        Of the robot, and obstacles.
    margins : mapping of (int, int) to float
        Pairs of shapes that are checked, and how close they may not come [m].
    crowd : Crowd, optional
        Further obstacles, whose numbers are those of shapes that are in no pair.

    Attributes
    ----------
    n_colliding : int
        Configurations that were found to collide so far.
    n_unchecked : int
        Configurations for which there was no time so far.
    """

    def __init__(
        self, robot: Robot, shapes: SolidSet, margins: Mapping[Pair, float], crowd: Crowd | None = None
    ) -> None:
        self.n_colliding = self.n_unchecked = 0
        self._robot, self._shapes, self._margins, self._crowd = robot, shapes, margins, crowd

    def again(self) -> CollisionScene:
        """The same, from the begin; what was prepared is shared."""
        self.prepare()
        again = copy.copy(self)
        again.n_colliding = again.n_unchecked = 0
        return again

    def prepare(self, deadline: float = NEVER) -> None:
        """Make now what the first check would have to wait for; `OutOfTime` if the deadline is over before."""
        check_time(deadline, "prepare the collision check")
        _ = self._outer
        if self._shapes.has_surfaces:
            check_time(deadline, "prepare the collision check of meshes")
            _ = self._exact

    def colliding(self, q: FloatArray, deadline: float = NEVER) -> BoolArray:
        """Whether each configuration (n, dof) collides; touching counts.

        What there is no time to check until the deadline, a time of `perf_counter` [s], counts as colliding, so that
        nothing is taken for free that was not checked. A few configurations are checked in any case.
        """
        values, found = self._values(q), np.ones(len(q), dtype=np.bool_)
        first, step = 0, AT_ONCE_LATE if is_past(deadline) else AT_ONCE
        while first < len(q) and not (first and is_past(deadline)):
            rows = slice(first, first + step)
            found[rows], n_unchecked = self._colliding(q[rows], values[rows], deadline)
            first += step
            self.n_unchecked += n_unchecked
            self.n_colliding += int(found[rows].sum()) - n_unchecked
        self.n_unchecked += max(len(q) - first, 0)
        return found

    def _colliding(self, q: FloatArray, values: FloatArray, deadline: float) -> tuple[BoolArray, int]:
        """Whether each of a few collides, and how many of these there was no time to look at closely."""
        found = self._outer.colliding(values) if self._margins else np.zeros(len(q), dtype=np.bool_)
        n_unchecked = 0
        if self._shapes.has_surfaces and found.any():
            doubtful = np.flatnonzero(found)
            found[doubtful] = self._exact.colliding(values[doubtful])
            for n_looked_at, row in enumerate(doubtful := doubtful[~found[doubtful]]):
                if n_looked_at and is_past(deadline):
                    n_unchecked = len(doubtful) - n_looked_at
                    found[doubtful[n_looked_at:]] = True
                    break
                found[row] = bool(self._enclosed(values[row], first=True))
        if self._crowd is not None and not found.all():
            free = np.flatnonzero(~found)
            found[free], n_late = self._crowd.colliding(q[free], deadline)
            n_unchecked += n_late
        return found, n_unchecked

    def pairs(self, q: FloatArray) -> list[Pair]:
        """All pairs of shapes that collide in one configuration (dof,)."""
        row = self._values(q[None])[0]
        among = [] if self._crowd is None else self._crowd.pairs(q)
        if not self._shapes.has_surfaces:
            return self._outer.pairs(row) + among
        return sorted({*self._exact.pairs(row), *self._enclosed(row, first=False), *among})

    def names_of_pairs(self, q: FloatArray) -> list[tuple[str, str]]:
        """The same by the names of links and obstacles."""
        names = self._shapes.names
        return list(dict.fromkeys((names[a], names[b]) for a, b in self.pairs(q)))

    @functools.cached_property
    def _outer(self) -> Checker:
        return self._shapes.checker(self._margins, exact=False)

    @functools.cached_property
    def _exact(self) -> Checker:
        return self._shapes.checker(self._margins, exact=True)

    def _enclosed(self, row: FloatArray, first: bool) -> list[Pair]:
        """Pairs of which one shape is inside of the other's surface and touches nothing; at most one where `first`."""
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
        """Values (n, m) of all moving joints, followers included."""
        rows = self._robot.links[:-1]
        return np.ascontiguousarray(q[:, rows[:, SOURCE].astype(np.int64)] * rows[:, MULTIPLIER] + rows[:, OFFSET])


ALWAYS = 0.95
N_TRIALS = 400
FEW = 100  # obstacles that pinocchio checks together with the links; beyond it a `Crowd` is faster
MOST_CLEARANCES = 16  # of which is known what is close by design


class CollisionModel:
    """The shapes of a robot, and which of its bodies are checked against each other.

    Parameters
    ----------
    robot : Robot
        Of which `collision` tells how meshes are read.
    deadline : float
        A time of `perf_counter` [s].
    known : dict, optional
        Meshes that were read already; others that are read are added.

    Raises
    ------
    OutOfTime
        If the deadline is over before all meshes are read.
    RobotError
        If a shape is malformed, or the SRDF is none; `MeshError` if a mesh is not there or cannot be read.
    """

    def __init__(self, robot: Robot, deadline: float = NEVER, known: dict[Any, Mesh] | None = None) -> None:
        self.robot = robot
        self._model = _chain(robot)
        self._shapes = SolidSet(self._model)
        self._lock = threading.Lock()
        meshes: dict[Any, Mesh] = {} if known is None else known
        for placed in body_shapes(robot, link_shapes(robot.urdf)):
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
        self._is_disabled = disabled_pairs(robot.collision.srdf)

    def prepare(self, deadline: float = NEVER) -> None:
        """Find out which bodies are checked against each other; what is found until the deadline is kept."""
        _ = self._checked_pairs(deadline)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Bodies that are checked against each other, with some of their shapes at least."""
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
    ) -> CollisionScene:
        """What configurations are checked for. The last scene of each thread is kept for the same obstacles.

        Parameters
        ----------
        self_collision : bool
            Whether pairs of the robot's own bodies are checked.
        obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
            In the base frame.
        clearance : float
            What comes closer than this [m], collides.
        deadline : float
            A time of `perf_counter` [s].

        Raises
        ------
        ConstraintError
            If the robot has no shapes: nothing would ever collide. Or if the scene is larger than
            `CollisionOptions` allow.
        OutOfTime
            If shapes cannot be prepared until the deadline; those that are, are kept for the next call.
        """
        if not self._shapes.bodies:
            unread = ", and its meshes are not to be read" if self.robot.collision.meshes == "none" else ""
            raise ConstraintError(
                f"robot {self.robot.name!r} cannot be checked for collisions: its description has no collision shape "
                f"that is a box, cylinder, sphere, capsule or mesh{unread}",
                self.robot.name,
            )
        kind = "among" if obstacles else "alone"
        known: _KeptScene | None = getattr(self._kept, kind, None)
        scene = None if known is None else known.scene_of((self_collision, clearance), obstacles)
        if scene is None:
            SceneSize.of(obstacles).check(self.robot.collision)
            scene = self._scene(self_collision, obstacles, clearance, deadline)
            scene.prepare(deadline)
            setattr(self._kept, kind, _KeptScene((self_collision, clearance), obstacles, scene))
        return scene.again()

    def _scene(
        self, self_collision: bool, obstacles: Sequence[Obstacle], clearance: float, deadline: float
    ) -> CollisionScene:
        shapes, bodies = self._shapes.copy(), self._shapes.bodies
        margins = self._own_margins(clearance, deadline) if self_collision else {}
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
        moving = [own for own, body in enumerate(bodies) if body]
        for name, pose, solid in others:
            check_time(deadline, "prepare the obstacles")
            index = shapes.add(0, pose, solid, name)
            margins.update({(own, index): clearance for own in moving})
        crowd = None
        if plain:
            numbered = [(shapes.named(name), pose, solid) for name, pose, solid in plain]
            own = [OwnShape(i, bodies[i], self._shapes.placements[i], self._shapes.solids[i]) for i in moving]
            crowd = Crowd(self.robot, own, numbered, clearance, deadline)
        return CollisionScene(self.robot, shapes, margins, crowd)

    def _own_margins(self, clearance: float, deadline: float) -> dict[Pair, float]:
        checked = self._checked_pairs(deadline)
        margins = dict.fromkeys(checked, clearance)
        if clearance:
            margins.update(dict.fromkeys(self._often(checked, clearance, deadline), 0.0))
        return margins

    def _checked_pairs(self, deadline: float) -> list[Pair]:
        """Pairs of shapes by the rule above."""
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
        """Pairs of whose bodies some shapes collide in ALWAYS of the trials."""
        with self._lock:
            trials = self._trials.get(clearance)
            if trials is None or trials.pairs != list(pairs):
                trials = self._trials[clearance] = _Trials(self.robot, self._shapes, list(pairs), clearance)
                while len(self._trials) > MOST_CLEARANCES:
                    self._trials.pop(next(iter(self._trials)))
            return trials.often(deadline)


class _KeptScene:
    """A scene that is kept as long as the first of its obstacles."""

    def __init__(self, asked: object, obstacles: Sequence[Obstacle], scene: CollisionScene) -> None:
        kept = [scene]
        self._asked, self._scene = asked, kept
        self._obstacles = [weakref.ref(obstacle) for obstacle in obstacles]
        if obstacles:
            self._first = weakref.ref(obstacles[0], lambda _: kept.clear())

    def scene_of(self, asked: object, obstacles: Sequence[Obstacle]) -> CollisionScene | None:
        """The scene if it is of these very obstacles."""
        is_same = self._asked == asked and len(self._obstacles) == len(obstacles)
        if is_same and all(known() is given for known, given in zip(self._obstacles, obstacles, strict=True)):
            return self._scene[0] if self._scene else None
        return None


class _Trials:
    """Which pairs of bodies collide in random configurations; goes on where it was when time was up."""

    def __init__(self, robot: Robot, shapes: SolidSet, pairs: list[Pair], clearance: float) -> None:
        self.pairs = pairs
        self._bodies, self._counts = shapes.bodies, dict[Pair, int]()
        self._scene = CollisionScene(robot, shapes.copy(), dict.fromkeys(pairs, clearance))
        self._left = robot.sample_configurations(N_TRIALS, np.random.default_rng(0)) if pairs else np.empty((0, 0))

    def often(self, deadline: float) -> set[Pair]:
        while len(self._left):
            check_time(deadline, "find out which links may collide with each other")
            for owners in {(self._bodies[a], self._bodies[b]) for a, b in self._scene.pairs(self._left[0])}:
                self._counts[owners] = self._counts.get(owners, 0) + 1
            self._left = self._left[1:]
        often = {owners for owners, count in self._counts.items() if count >= ALWAYS * N_TRIALS}
        return {(a, b) for a, b in self.pairs if (self._bodies[a], self._bodies[b]) in often}


class _Maker:
    """Makes the collision model of a robot once; meshes that were read when time was up are kept."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._lock = threading.Lock()
        self._meshes: dict[Any, Mesh] = {}
        self._model: CollisionModel | None = None

    def model(self, deadline: float) -> CollisionModel:
        if self._model is None:
            if not self._lock.acquire(timeout=-1 if deadline == NEVER else max(0.0, deadline - perf_counter())):
                raise OutOfTime("another call is still preparing the collision shapes of the robot; ask again")
            try:
                if self._model is None:
                    self._model = CollisionModel(self._robot, deadline, self._meshes)
            finally:
                self._lock.release()
        return self._model


@functools.lru_cache(maxsize=8)
def _maker(robot: Robot) -> _Maker:
    return _Maker(robot)


def collision_model(robot: Robot, deadline: float = NEVER) -> CollisionModel:
    """The collision model of a robot, made once: it takes some ten milliseconds, with meshes up to seconds.

    Raises
    ------
    OutOfTime
        If the deadline, a time of `perf_counter` [s], is over before; meshes that were read are kept.
    """
    return _maker(robot).model(deadline)


def collisions(
    robot: Robot,
    q: npt.ArrayLike,
    obstacles: Sequence[Obstacle] = (),
    *,
    self_collision: bool = True,
    clearance: float = 0.0,
) -> list[tuple[str, str]]:
    """What collides with what in one configuration.

    Parameters
    ----------
    robot : Robot
    q : (dof,) array_like
        [rad] or [m].
    obstacles, self_collision, clearance
        See `CollisionModel.scene`.

    Returns
    -------
    list of (str, str)
        Names of a link, and of another one or an obstacle: its name, or "obstacle 2", counted from 0.
    """
    expect(robot, Robot, "robot", RobotError)
    rows = robot._finite_rows(q, "configurations")
    if len(rows) != 1:
        raise RobotError(f"collisions are of one configuration, got {len(rows)}", q)
    self_collision = checked_flag(self_collision, "self_collision", ConstraintError)
    checked = checked_obstacles(obstacles), number_from_zero(clearance, "the clearance")
    return collision_model(robot).scene(self_collision, *checked).names_of_pairs(rows[0])


def _chain(robot: Robot) -> Any:
    """The chain as `chain.py` describes it: all joints about or along their z axes, followers on their own."""
    import pinocchio

    model, parent = pinocchio.Model(), 0
    for i, row in enumerate(robot.links[:-1]):
        joint = pinocchio.JointModelPZ() if row[PRISMATIC] else pinocchio.JointModelRZ()
        placement = pinocchio.SE3(row[:9].reshape(3, 3), row[TRANSLATION])
        parent = model.addJoint(parent, joint, placement, f"joint_{i}")
    return model


def _mesh(robot: Robot, link: str, shape: MeshReference, known: dict[Any, Mesh], deadline: float) -> Mesh:
    """A collision mesh of a link, or its hull; read once."""
    scale = tuple(np.asarray(shape.scale, dtype=np.float64).tolist())
    key, options = (shape.filename, scale), robot.collision
    if key in known:
        return known[key]
    n_left = options.most_triangles - sum(len(np.asarray(mesh.faces)) for mesh in known.values())
    try:
        path = find_mesh(shape.filename, robot.folder, options.package_paths, packages_only=options.packages_only)
        check_time(deadline, f"read the mesh of link {link!r}", seconds_to_read(path))
        limits = MeshLimits(options.most_mesh_bytes, n_left)
        known[key] = Mesh(np.eye(4), *read_mesh(path, scale, limits), convex=options.meshes == "hulls")
    except OutOfTime:
        raise
    except MeshError as error:
        raise MeshError(f"a collision shape of link {link!r}: {error}", link) from error
    except EimError as error:
        raise RobotError(f"a collision shape of link {link!r}: {error}", link) from error
    return known[key]
