"""Parameters of the node `demo_recorder`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class DemoRecorderSettings(DataDirectorySettings):
    """Parameters of `demo_recorder`."""

    topics: tuple[str, ...] = option(("joint_states",), "Topics to record where a request names none.", read_only=False)
    folder: str = option(
        "demos", "Folder of the bags whose request gives no path; a relative one lies in data_directory."
    )
    record_at_start: bool = option(
        False, "Record the topics into a bag below folder as soon as the node is active, without a request."
    )
    min_free_space: int = option(
        1_000_000_000,
        "Free space that is left on the disk: no recording starts with less, and one that runs ends.",
        unit="byte",
        minimum=0,
        read_only=False,
    )
    queue_depth: int = option(
        5000,
        "Messages of a topic that may wait to be taken; more come in between are lost.",
        minimum=1000,
        maximum=100_000,
    )
    flush_period: float = option(
        0.25, "Longest time until a message is in the file.", unit="s", minimum=0.02, maximum=0.9
    )
    status_period: float = option(0.5, "Time between two messages of ~/status.", unit="s", minimum=0.05, maximum=10.0)
