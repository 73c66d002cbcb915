"""Buffer of transforms with time stamps, and lookup of the pose of one frame in another at a given time.

Each transform is from a child frame to its parent, so frames form trees. The pose of one frame in another is computed
through their nearest common ancestor. Between two stamps, positions are interpolated linearly and orientations at a
constant rate (Shoemake 1985, "Animating rotation with quaternion curves"). There is no extrapolation. Stamps are
integer nanoseconds, because seconds since 1970 in float64 have errors of a quarter of a microsecond.
"""

from __future__ import annotations

import bisect
import math
import threading
from dataclasses import dataclass
from functools import reduce

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import EimError, PoseError
from eim_ros.kinematics.poses import pose_from
from eim_ros.kinematics.urdf import listed

HISTORY = 10.0  # default age of the oldest transforms that are kept [s]
MOST_TRANSFORMS = 20_000  # maximum number of transforms kept per frame: 10 s at 2 kHz
MOST_FRAMES = 10_000
SECOND = 1_000_000_000  # [ns]


class FrameError(EimError):
    """Error for a frame that is unknown, not connected to another frame, or not known at the requested time.

    `may_come` says whether the missing transform may still arrive.
    """

    def __init__(self, message: str, value: object = None, may_come: bool = False) -> None:
        super().__init__(message, value)
        self.may_come = may_come


@dataclass(frozen=True)
class StampedTransform:
    """Pose of a frame in its parent frame at a given time."""

    parent: str
    stamp: int  # time [ns]
    position: tuple[float, ...]  # [m]
    quaternion: tuple[float, ...]  # orientation xyzw, of unit length within 1e-3

    @property
    def pose(self) -> FloatArray:
        """Homogeneous transform (4, 4) from the frame to its parent."""
        return pose_from(self.position, self.quaternion)


class FrameBuffer:
    """Thread-safe buffer of recent transforms, stored by the name of the child frame.

    Transforms that are more than `history` [s] older than the newest transform of the same frame are deleted.
    """

    def __init__(self, history: float = HISTORY) -> None:
        self._history = round(history * SECOND)
        self._tracks: dict[str, _Track] = {}
        self._lock = threading.Lock()

    def put(self, child: str, transform: StampedTransform, is_static: bool = False) -> None:
        """Store a transform. A static transform is valid at all times and replaces all others of its frame.

        Raises
        ------
        FrameError
            If a name is empty, both names are equal, the transform is not rigid, it is older than the history, or there
            are too many frames.
        """
        if not child or not transform.parent or child == transform.parent:
            raise FrameError(
                f"a transform needs two different frames, got child {child!r} and parent {transform.parent!r}", child
            )
        if not _is_rigid(transform):
            try:
                _ = transform.pose  # raises an error that states the cause
            except PoseError as error:
                raise FrameError(f"the transform of frame {child!r} is invalid: {error}", error.value) from error
        with self._lock:
            track = self._tracks.get(child)
            if track is None or track.is_static != is_static:
                if len(self._tracks) >= MOST_FRAMES and track is None:
                    raise FrameError(
                        f"frame {child!r} is ignored, because the buffer already has {MOST_FRAMES} frames", child
                    )
                track = self._tracks[child] = _Track(child, is_static)
            track.add(transform, self._history)

    def lookup(self, target: str, source: str, stamp: int | None = None) -> FloatArray:
        """Return the pose (4, 4) of the frame `source` in the frame `target` at a time [ns].

        By default, the time is the latest one at which all transforms are known.

        Raises
        ------
        FrameError
            If a frame is unknown, the frames are not connected, or a transform is not known at this time.
        """
        with self._lock:
            up, down = self._ways(target, source, stamp)
            if stamp is None:
                moving = [self._tracks[name] for name in (*up, *down) if not self._tracks[name].is_static]
                stamp = min((track.stamps[-1] for track in moving), default=0)
            from_source, from_target = ([self._tracks[name].at(stamp) for name in way] for way in (up, down))
        poses = [reduce(lambda pose, each: each.pose @ pose, way, np.eye(4)) for way in (from_source, from_target)]
        return np.asarray(np.linalg.inv(poses[1]) @ poses[0], dtype=np.float64)

    def clear(self) -> None:
        """Delete all transforms except static ones. Call this when the clock is set back."""
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
        """Return the frames from `source` and from `target` up to their nearest common ancestor, which is excluded."""
        for name in (source, target):
            if name not in self._tracks and name not in (names := self._names()):
                known = f"the frames are {listed(names)}" if names else "no transform has arrived yet"
                raise FrameError(f"frame {name!r} is unknown; {known}", name, may_come=True)
        up, down = self._ancestry(source, stamp), self._ancestry(target, stamp)
        common = next((name for name in up if name in down), None)
        if common is None:
            raise FrameError(
                f"frames {source!r} and {target!r} are not connected: publish a transform between their roots, "
                f"{up[-1]!r} and {down[-1]!r}",
                (source, target),
                may_come=True,
            )
        return up[: up.index(common)], down[: down.index(common)]

    def _ancestry(self, name: str, stamp: int | None) -> list[str]:
        """Return a frame and its ancestors, with the root last."""
        found = [name]
        while (track := self._tracks.get(found[-1])) is not None:
            parent = track.parent(stamp)
            if parent in found:
                loop = " in ".join(map(repr, found))
                raise FrameError(f"transforms form a loop: frame {parent!r} is its own ancestor: {loop}", parent)
            found.append(parent)
        return found


class _Track:
    """Transforms of one frame, sorted by stamp."""

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
                f"a transform of frame {self.name!r} has the time stamp {_told(stamp)}, which is "
                f"{_seconds(self.stamps[-1] - stamp)} older than its newest transform, so it is ignored",
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
        """Return the parent at a given time, or the newest parent if the time is None.

        Times before the first stamp use the first parent, and times after the last stamp use the last.
        """
        place = len(self.stamps) if stamp is None or self.is_static else bisect.bisect_right(self.stamps, stamp)
        return self.transforms[max(0, place - 1)].parent

    def at(self, stamp: int) -> StampedTransform:
        """Return the interpolated transform at a given time.

        If the parent changes between two stamps, the earlier transform applies until the later stamp.
        """
        if self.is_static:
            return self.transforms[0]
        place = bisect.bisect_left(self.stamps, stamp)
        if place < len(self.stamps) and self.stamps[place] == stamp:
            return self.transforms[place]
        if place in (0, len(self.stamps)):
            edge, side = (self.stamps[-1], "after") if place else (self.stamps[0], "before")
            raise FrameError(
                f"the transform of frame {self.name!r} is not known at {_told(stamp)}, which is "
                f"{_seconds(abs(stamp - edge))} {side} the {'latest' if place else 'earliest'} known transform, "
                f"{_told(edge)}",
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
    """Interpolate between two quaternions along the shorter arc, from `first` at 0 to `second` at 1."""
    a, b = np.asarray(first) / math.hypot(*first), np.asarray(second) / math.hypot(*second)
    b = -b if a @ b < 0.0 else b
    angle = 2.0 * math.atan2(float(np.linalg.norm(b - a)), float(np.linalg.norm(b + a)))  # between a and b
    if angle < 1e-6:  # sin x equals x up to rounding
        return tuple(((1.0 - share) * a + share * b).tolist())
    turned = math.sin((1.0 - share) * angle) * a + math.sin(share * angle) * b
    return tuple((turned / math.sin(angle)).tolist())


def _is_rigid(transform: StampedTransform) -> bool:
    """Return whether all numbers are finite and the quaternion has unit length, without computing `pose`."""
    return abs(math.hypot(*transform.quaternion) - 1.0) < 1e-6 and math.isfinite(sum(map(abs, transform.position)))


def _told(stamp: int) -> str:
    return f"{stamp // SECOND}.{stamp % SECOND:09d} s"


def _seconds(duration: int) -> str:
    return f"{duration / SECOND:.6g} s"
