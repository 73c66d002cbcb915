"""Parameters of the node `trainer`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class TrainerSettings(DataDirectorySettings):
    """Parameters of `trainer`."""

    folder: str = option(
        "models", "Folder for models if a goal gives no output. A relative path starts in data_directory."
    )
    feedback_period: float = option(
        0.5, "Time between two feedback messages.", unit="s", minimum=0.01, maximum=1.0, read_only=False
    )
    threads: int = option(
        1, "Number of threads of linear algebra per training.", minimum=1, maximum=256, read_only=False
    )
    device: str = option("cpu", "Device for EIM: cpu or cuda.", read_only=False)
