"""Frames that move against each other: where one is in another at a time, from stamped transforms of child to parent.

Between two stamps positions are interpolated linearly and orientations at a constant rate (Shoemake 1985, "Animating
rotation with quaternion curves"); outside nothing is guessed. Frames form trees; two are held against each other over
their nearest common ancestor. Stamps are whole nanoseconds: seconds since 1970 in float64 would lose a quarter of a
microsecond.
"""

from __future__ import annotations

import bisect
import math
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import EimError, PoseError
from eim_ros.kinematics.poses import pose_from
from eim_ros.kinematics.urdf import listed

FloatArray = npt.NDArray[np.float64]

HISTORY = 10.0  # [s]
MOST_TRANSFORMS = 20_000  # of one frame that are kept: 10 s at 2 kHz
MOST_FRAMES = 10_000
SECOND = 1_000_000_000  # [ns]


class FrameError(EimError):
    """A frame is unknown, not connected with another, or not known at a time.

    Attributes
    ----------
    may_come : bool
        Whether it may be known a little later.
    """

    def __init__(self, message: str, value: object = None, may_come: bool = False) -> None:
        super().__init__(message, value)
        self.may_come = may_come


@dataclass(frozen=True)
class StampedTransform:
    """Where a frame is in its parent at a time.

    Attributes
    ----------
    parent : str
    stamp : int
        [ns].
    position : tuple of 3 float
        [m].
    quaternion : tuple of 4 float
        xyzw, of unit length within 1e-3.
    """

    parent: str
    stamp: int
    position: tuple[float, ...]
    quaternion: tuple[float, ...]

    @property
    def pose(self) -> FloatArray:
        """(4, 4)."""
        return pose_from(self.position, self.quaternion)


class FrameBuffer:
    """Transforms of the last seconds, by the name of the child frame; for several threads.

    Parameters
    ----------
    history : float
        How long before the newest transform of a frame its others are kept [s].
    """

    def __init__(self, history: float = HISTORY) -> None:
        self._history = round(history * SECOND)
        self._tracks: dict[str, _Track] = {}
        self._lock = threading.Lock()

    def put(self, child: str, transform: StampedTransform, is_static: bool = False) -> None:
        """Keep a transform; a static one holds at all times, and replaces all others of its frame.

        Raises
        ------
        FrameError
            If a name is empty, both are one, the numbers are none of a rigid transform, it is older than all that is
            kept, or there are too many frames.
        """
        if not child or not transform.parent or child == transform.parent:
            raise FrameError(
                f"a transform needs two different frames, got child {child!r} and parent {transform.parent!r}", child
            )
        if not _is_rigid(transform):
            try:
                _ = transform.pose  # says why
            except PoseError as error:
                raise FrameError(f"the transform of frame {child!r}: {error}", error.value) from error
        with self._lock:
            track = self._tracks.get(child)
            if track is None or track.is_static != is_static:
                if len(self._tracks) >= MOST_FRAMES and track is None:
                    raise FrameError(f"more than {MOST_FRAMES} frames; frame {child!r} is left out", child)
                track = self._tracks[child] = _Track(child, is_static)
            track.add(transform, self._history)

    def lookup(self, target: str, source: str, stamp: int | None = None) -> FloatArray:
        """Pose (4, 4) of a frame in another.

        Parameters
        ----------
        target : str
            Frame in which the pose is told.
        source : str
            Frame whose pose it is.
        stamp : int, optional
            Time [ns]; the latest at which all frames in between are known if missing.

        Raises
        ------
        FrameError
            Naming what is not known.
        """
        with self._lock:
            up, down = self._ways(target, source, stamp)
            if stamp is None:
                moving = [self._tracks[name] for name in (*up, *down) if not self._tracks[name].is_static]
                stamp = min((track.stamps[-1] for track in moving), default=0)
            from_source, from_target = ([self._tracks[name].at(stamp) for name in way] for way in (up, down))
        poses = [np.eye(4), np.eye(4)]
        for place, way in enumerate((from_source, from_target)):
            for transform in way:
                poses[place] = transform.pose @ poses[place]
        return np.asarray(np.linalg.inv(poses[1]) @ poses[0], dtype=np.float64)

    def clear(self) -> None:
        """Forget all but static transforms, for the time was set back."""
        with self._lock:
            self._tracks = {name: track for name, track in self._tracks.items() if track.is_static}

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of all frames, sorted."""
        with self._lock:
            return self._names()

    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(self._tracks.keys() | {track.transforms[-1].parent for track in self._tracks.values()}))

    def _ways(self, target: str, source: str, stamp: int | None) -> tuple[list[str], list[str]]:
        """Frames on the ways up from source and target to below their nearest common ancestor."""
        for name in (source, target):
            if name not in self._tracks and name not in (names := self._names()):
                known = f"known are {listed(names)}" if names else "none is known"
                raise FrameError(f"frame {name!r} is unknown; {known}", name, may_come=True)
        up, down = self._ancestry(source, stamp), self._ancestry(target, stamp)
        common = next((name for name in up if name in down), None)
        if common is None:
            raise FrameError(
                f"frames {source!r} and {target!r} are not connected: one is in the tree of {up[-1]!r}, the other in "
                f"that of {down[-1]!r}",
                (source, target),
                may_come=True,
            )
        return up[: up.index(common)], down[: down.index(common)]

    def _ancestry(self, name: str, stamp: int | None) -> list[str]:
        """A frame and its ancestors, the root last."""
        found = [name]
        while (track := self._tracks.get(found[-1])) is not None:
            parent = track.parent(stamp)
            if parent in found:
                raise FrameError(f"frame {parent!r} is its own ancestor: {' in '.join(map(repr, found))}", parent)
            found.append(parent)
        return found


class _Track:
    """The transforms of one frame in the order of their stamps."""

    def __init__(self, name: str, is_static: bool) -> None:
        self.name = name
        self.is_static = is_static
        self.stamps: list[int] = []
        self.transforms: list[StampedTransform] = []

    def add(self, transform: StampedTransform, history: int) -> None:
        if self.is_static:
            self.stamps, self.transforms = [transform.stamp], [transform]
            return
        stamp = transform.stamp
        if self.stamps and stamp < self.stamps[-1] - history:
            raise FrameError(
                f"a transform of frame {self.name!r} is of {_told(stamp)}, {_seconds(self.stamps[-1] - stamp)} older "
                "than the newest",
                stamp,
            )
        place = bisect.bisect_left(self.stamps, stamp)
        if place < len(self.stamps) and self.stamps[place] == stamp:
            self.transforms[place] = transform
            return
        self.stamps.insert(place, stamp)
        self.transforms.insert(place, transform)
        surplus = bisect.bisect_left(self.stamps, self.stamps[-1] - history)
        surplus = max(surplus, len(self.stamps) - MOST_TRANSFORMS)
        if surplus:
            del self.stamps[:surplus], self.transforms[:surplus]

    def parent(self, stamp: int | None) -> str:
        """At a time, or the newest; before and after all stamps that of the first and the last."""
        place = len(self.stamps) if stamp is None or self.is_static else bisect.bisect_right(self.stamps, stamp)
        return self.transforms[max(0, place - 1)].parent

    def at(self, stamp: int) -> StampedTransform:
        """At a time, interpolated; where the parent changes in between, the one before holds."""
        if self.is_static:
            return self.transforms[0]
        place = bisect.bisect_left(self.stamps, stamp)
        if place < len(self.stamps) and self.stamps[place] == stamp:
            return self.transforms[place]
        if place in (0, len(self.stamps)):
            edge, side = (self.stamps[-1], "after") if place else (self.stamps[0], "before")
            raise FrameError(
                f"frame {self.name!r} is not known at {_told(stamp)}: that is {_seconds(abs(stamp - edge))} {side} the "
                f"{'latest' if place else 'earliest'} known, {_told(edge)}",
                stamp,
                may_come=place > 0,
            )
        before, after = self.transforms[place - 1 : place + 1]
        if before.parent != after.parent:
            return before
        share = (stamp - before.stamp) / (after.stamp - before.stamp)
        position = tuple(a + share * (b - a) for a, b in zip(before.position, after.position, strict=True))
        return StampedTransform(before.parent, stamp, position, _slerp(before.quaternion, after.quaternion, share))


def _slerp(first: tuple[float, ...], second: tuple[float, ...], share: float) -> tuple[float, ...]:
    """A share of the way from one unit quaternion to another, the shorter way round."""
    a, b = np.asarray(first) / math.hypot(*first), np.asarray(second) / math.hypot(*second)
    b = -b if a @ b < 0.0 else b
    angle = 2.0 * math.atan2(float(np.linalg.norm(b - a)), float(np.linalg.norm(b + a)))  # in the space of quaternions
    if angle < 1e-6:  # where sin x = x to the last bit but a few
        return tuple(((1.0 - share) * a + share * b).tolist())
    turned = math.sin((1.0 - share) * angle) * a + math.sin(share * angle) * b
    return tuple((turned / math.sin(angle)).tolist())


def _is_rigid(transform: StampedTransform) -> bool:
    """Whether the numbers are finite and the quaternion is of unit length, surely; faster than `pose`."""
    return abs(math.hypot(*transform.quaternion) - 1.0) < 1e-6 and math.isfinite(sum(map(abs, transform.position)))


def _told(stamp: int) -> str:
    return f"{stamp // SECOND}.{stamp % SECOND:09d} s"


def _seconds(duration: int) -> str:
    return f"{duration / SECOND:.6g} s"
