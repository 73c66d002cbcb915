"""Parameters of the node `training_coordinator`."""

from __future__ import annotations

import dataclasses

from eim_ros.core.settings import option
from eim_ros.nodes.common.settings import DataDirectorySettings


@dataclasses.dataclass(frozen=True)
class TrainingCoordinatorSettings(DataDirectorySettings):
    """Parameters of `training_coordinator`."""

    collector: str = option("fk_collector", "Name of the collector node; not used if bag is set.")
    trainer: str = option("trainer", "Name of the trainer node.")
    server: str = option("ik_server", "Name of the server node that loads the model.")
    folder: str = option("learn_ik", "Folder of the data set, train.npz. It must lie in data_directory.")
    settings: tuple[str, ...] = option(
        ("n_components=50", "n_iterations=80"),
        "Settings of the learner EIM as NAME=VALUE, as for eim train --set.",
    )
    seed: int = option(0, "Seed of the training.", minimum=0)
    bag: str = option(
        "",
        "Recording that is imported instead of collecting, as eim import does. A relative path starts in "
        "data_directory. Empty: none.",
    )
    robot: str = option("", "Robot of the recording: name of an included robot, or path of a URDF file.")
    base_link: str = option("", "Base link of the recorded chain. Empty: the root.")
    tip_link: str = option("", "Tip link of the recorded chain. Empty: as in `Robot`.")
    context: str = option(
        "position", "Context of the model that is trained on the recording.", choices=("position", "pose")
    )
    report_period: float = option(5.0, "Time between two reports of progress.", unit="s", minimum=0.1, maximum=600.0)
