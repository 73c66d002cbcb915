"""Parameters of the node `demo_recorder`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class DemoRecorderSettings(DataDirectorySettings):
    """Parameters of `demo_recorder`."""

    topics: tuple[str, ...] = option(("joint_states",), "Topics to record if a request names none.", read_only=False)
    folder: str = option(
        "demos", "Folder for bags if a request gives no path. A relative path starts in data_directory."
    )
    record_at_start: bool = option(False, "Record the topics to a bag in folder as soon as the node is active.")
    min_free_space: int = option(
        1_000_000_000,
        "Minimum free disk space. With less space no recording starts, and a running one ends.",
        unit="byte",
        minimum=0,
        read_only=False,
    )
    queue_depth: int = option(
        5000,
        "Number of messages of a topic that can wait in the queue; further ones are lost.",
        minimum=1000,
        maximum=100_000,
    )
    flush_period: float = option(
        0.25, "Maximum time until a message is in the file.", unit="s", minimum=0.02, maximum=0.9
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)
