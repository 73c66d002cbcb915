"""Export to a LeRobot data set. LeRobot's library writes the data set, which is then read back for verification.

Each motion or recording is an episode at a fixed rate. `observation.state` is the configuration with the names of the
joints, including grippers. `action` is the next configuration. `observation.environment_state` is the context, if
motions have a context. The time of frame i is exactly i / fps.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import checked_whole
from eim_ros.core.data_set import DataSet, interpolated
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.motion.demonstrations import Demonstrations

REPOSITORY = "local/motions"  # LeRobot requires a name, even for unpublished data sets
STATE, ACTION, ENVIRONMENT = "observation.state", "action", "observation.environment_state"
Columns = dict[str, npt.NDArray[np.float32]]
"""Columns (n_frames, n_dims) of an episode, by name."""
ROUNDING = 1e-6  # relative tolerance; LeRobot stores numbers in single precision


def export_to_lerobot(data_set: DataSet, folder: Path, fps: int, task: str = "") -> tuple[int, int]:
    """Write motions with known durations to a new folder, and return the numbers of episodes and of frames.

    Parameters
    ----------
    data_set : DataSet
    folder : Path
        Folder to create; it must not exist.
    fps : int
        Frames per second.
    task : str
        Task of motions that have no label; "motion" if empty.

    Raises
    ------
    ConfigurationError
        If LeRobot is not installed, or the folder exists.
    DataError
        If the data set does not contain motions with durations, or if the data that are read back differ from it.
    """
    fps = checked_whole(fps, 1, "fps")
    motions = Demonstrations.from_data_set(data_set)
    if not np.isfinite(motions.durations).all():
        raise DataError(
            "the data set does not contain the durations of its motions: create it again by eim import",
            motions.durations,
        )
    labels = data_set.description.get("labels") or [""] * len(motions)
    episodes = [_frames(motions, row, fps) for row in range(len(motions))]
    return _written(folder, fps, _features(motions), episodes, [label or task or "motion" for label in labels])


def export_episodes(
    joint_names: Sequence[str],
    episodes: Sequence[tuple[str, npt.ArrayLike]],
    folder: Path,
    fps: int,
    task: str = "motion",
) -> tuple[int, int]:
    """Write recordings to a new folder, and return the numbers of episodes and of frames.

    Parameters
    ----------
    joint_names : sequence of str
    episodes : sequence of (str, (n_frames, n_joints))
        Label and configurations [rad] or [m] of each episode, at `fps` configurations per second.
    folder, fps, task
        See `export_to_lerobot`.

    Raises
    ------
    ConfigurationError
        If LeRobot is not installed, or the folder exists.
    DataError
        If the data that are read back differ.
    """
    fps = checked_whole(fps, 1, "fps")
    features = {name: _feature(joint_names) for name in (STATE, ACTION)}
    columns = [_with_actions(np.asarray(positions, dtype=np.float32)) for _, positions in episodes]
    return _written(folder, fps, features, columns, [label or task for label, _ in episodes])


def _written(
    folder: Path, fps: int, features: dict[str, dict[str, Any]], episodes: list[Columns], tasks: Sequence[str]
) -> tuple[int, int]:
    """Write the columns of the episodes, and read them back."""
    library = lerobot_for(folder)
    written = library.create(REPOSITORY, fps, features, root=folder, use_videos=False)
    try:
        for frames, task in zip(episodes, tasks, strict=True):
            for frame in zip(*frames.values(), strict=True):
                written.add_frame({**dict(zip(frames, frame, strict=True)), "task": task})
            written.save_episode()
        if hasattr(written, "finalize"):  # LeRobot 0.4 and later versions write the footers of files here
            written.finalize()
        _check(library(REPOSITORY, root=folder), episodes, fps)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # do not leave an incomplete data set
        raise
    return len(episodes), sum(len(frames[STATE]) for frames in episodes)


def lerobot_for(folder: Path) -> Any:
    """Return LeRobot's class of data sets; raise `ConfigurationError` if it is not installed or the folder exists."""
    if folder.exists():
        raise ConfigurationError(
            f"{folder} exists, and data sets are never overwritten: give another folder", str(folder)
        )
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    except ImportError as error:
        raise ConfigurationError(
            f"LeRobot is not installed ({error}): pip install lerobot, in a separate environment if it needs another "
            "version of torch",
            "lerobot",
        ) from error
    return LeRobotDataset


def _features(motions: Demonstrations) -> dict[str, dict[str, Any]]:
    columns = {STATE: motions.joint_names, ACTION: motions.joint_names, ENVIRONMENT: motions.context_names}
    return {name: _feature(names) for name, names in columns.items() if names}


def _feature(names: Sequence[str]) -> dict[str, Any]:
    return {"dtype": "float32", "shape": (len(names),), "names": list(names)}


def _with_actions(state: npt.NDArray[np.float32]) -> Columns:
    """Return states (n, n_joints) and actions; each action is the next state."""
    return {STATE: state, ACTION: np.concatenate([state[1:], state[-1:]])}


def _frames(motions: Demonstrations, row: int, fps: int) -> Columns:
    """Return the columns of one episode. Each has the shape (n_frames, n_columns)."""
    duration, positions = float(motions.durations[row]), motions.positions[row]
    moments = np.arange(int(np.floor(duration * fps * (1.0 + 1e-9))) + 1) / fps
    times = np.linspace(0.0, duration, len(positions))
    state = interpolated(times, positions, np.minimum(moments, duration), "linear").astype(np.float32)
    context = np.tile(motions.context[row].astype(np.float32), (len(state), 1))
    return _with_actions(state) | ({ENVIRONMENT: context} if context.shape[1] else {})


def _check(found: Any, episodes: list[Columns], fps: int) -> None:
    """Read the data set back, and compare values, episodes and times."""
    table = found.hf_dataset.with_format("numpy")
    lengths = [len(frames[STATE]) for frames in episodes]
    expected = {name: np.concatenate([frames[name] for frames in episodes]) for name in episodes[0]}
    expected["episode_index"] = np.repeat(np.arange(len(lengths)), lengths)
    expected["timestamp"] = np.concatenate([np.arange(length) / fps for length in lengths])
    if found.fps != fps:
        raise DataError(
            f"LeRobot wrote {found.fps} frames per second instead of {fps}; try another version of LeRobot", found.fps
        )
    for name, values in expected.items():
        read = np.asarray(table[name], dtype=np.float64).reshape(values.shape)
        if not np.allclose(read, values, rtol=ROUNDING, atol=1e-9):
            raise DataError(f"LeRobot changed the values of {name}; try another version of LeRobot", name)
