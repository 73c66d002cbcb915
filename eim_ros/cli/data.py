"""Verbs about data sets: `eim collect`, `import`, `export`, `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from eim_ros.cli.flags import count, flag, json_flag, positive, quiet_flag, report, seed_flag, switch, whole
from eim_ros.cli.options import Arm
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs

if TYPE_CHECKING:
    from eim_ros.bags.selection import BagReport, Selection
    from eim_ros.core.data_set import DataSet

CONTEXTS = Literal["position", "pose"]


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Sample configurations of a robot, and compute the position or pose of the tip for each configuration."""

    arm: Arm
    output: str = flag(text="Data set to write (.npz).", metavar="FILE", short="-o")
    samples: int = count(10000, "Number of pairs.", short="-n")
    context: CONTEXTS = flag("position", "Input of the model to be trained: position of the tip, or its full pose.")
    solutions_per_pose: int = flag(
        0,
        "Number of configurations to draw for each pose, uniformly from all its solutions. 0: draw configurations "
        "uniformly within the joint limits.",
        read=whole(0),
    )
    seed: int = seed_flag()
    quiet: bool = quiet_flag()
    json: bool = json_flag()

    def run(self) -> int:
        from eim_ros.cli.progress import ProgressBar
        from eim_ros.core.data_set import save_data_set
        from eim_ros.ik import collect

        check_outputs({"--output": self.output}, {"--robot": self.arm.file})
        robot = self.arm.load()
        with ProgressBar(0, "collecting", enabled=bool(self.solutions_per_pose) and not self.quiet):
            data_set = collect(robot, self.samples, self.context, self.seed, self.solutions_per_pose)
        save_data_set(self.output, data_set)
        figures = {"output": self.output, "n_samples": len(data_set), "context": self.context}
        chain = f"{robot.base_link} to {robot.tip_link}, {robot.dof} joints"
        told = f"wrote {len(data_set)} pairs of {robot.name} ({chain}) to {self.output}"
        return report(self.json, {**figures, "joint_names": list(robot.joint_names)}, [told])


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Topics, joints and segments to read from bags."""

    joints: str | None = flag(
        None,
        "Joints to import, in this order (default: the joints of the robot, or all). They may come from several "
        "publishers.",
        metavar="A,B,...",
    )
    joint_topic: tuple[str, ...] = flag(
        (),
        "Topic of joint states or trajectories (default: all topics of joint states). Repeat it to merge topics.",
        repeated=True,
        metavar="TOPIC",
    )
    label_topic: str | None = flag(
        None,
        "Topic of labels (default: the topic named .../segment, if there is only one).",
        metavar="TOPIC",
        is_expert=True,
    )
    pose_topic: str | None = flag(
        None,
        "Topic of tip poses, for --task ik (default: compute the poses by forward kinematics).",
        metavar="TOPIC",
        is_expert=True,
    )
    hold: tuple[str, ...] = flag(
        (),
        "Joint, such as a gripper, that keeps its position until its next message and is not interpolated.",
        repeated=True,
        metavar="JOINT",
    )
    label: tuple[str, ...] = flag((), "Use only segments with this label.", repeated=True)
    skip_label: tuple[str, ...] = flag((), "Skip segments with this label.", repeated=True)
    time: Literal["header", "arrival"] = flag(
        "header",
        "Source of the time stamps: the headers of the messages, or their arrival at the recorder.",
        is_expert=True,
    )


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Options for cutting recordings into motions and resampling them."""

    points: int = count(50, "Number of points of each motion.")
    method: Literal["linear", "cubic"] = flag("linear", "Method of interpolation.", is_expert=True)
    rate: float | None = flag(
        None,
        "Configurations per second, for --task lerobot (default: 30) or --task ik (default: one for each joint state).",
        read=positive,
        metavar="HZ",
    )
    max_gap: float = flag(0.2, "Longest time without a message within a segment [s].", read=positive, is_expert=True)
    max_speed: float = flag(
        20.0, "Joint velocity above which a change counts as a jump [rad/s or m/s].", read=positive, is_expert=True
    )
    min_jump: float = flag(
        0.1, "Joint displacement below which no change counts as a jump [rad or m].", read=positive, is_expert=True
    )
    min_displacement: float = flag(
        0.005,
        "Joint displacement below which the robot counts as standing still [rad or m].",
        read=positive,
        is_expert=True,
    )
    trim: bool = switch("Leave out the time before and after each motion in which the robot is at rest.")
    min_duration: float = flag(0.1, "Minimum duration of a motion [s].", read=positive, is_expert=True)


@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert recorded joint states to a data set, and list skipped data with the reasons.

    A bag is a folder or a file of rosbag2 (MCAP or sqlite3). It may be truncated, compressed by zstd, or without
    metadata.yaml. Tables are CSV or NPZ files.

    If several nodes publish joint states, such as an arm and a gripper, --joints or --robot merges them. They may use
    one topic or several. A merged joint state has the time of a message of the publisher with the most joints. If the
    numbers of joints are equal, the publisher with more messages is used. The positions of the other joints are
    interpolated linearly between the messages before and after this time. If one of these messages is missing, or they
    are more than --max-gap apart, the joint state is dropped. A joint of --hold keeps its latest position instead, and
    may jump. If two publishers send the same joint, the one with more joints is used. If two topics have the same
    joints, choose one by --joint-topic. Clocks that differ by more than 0.1 s are aligned.

    If only a few time stamps are wrong or missing, only their messages are dropped. If all time stamps are zero or
    equal, the times of arrival are used. If the clock of a publisher was set during the recording, the step is removed.
    If more time stamps are wrong, the report suggests --time arrival. Arrival times are less exact, because the delay
    of messages varies.

    A message is dropped as a spike if a joint leaves a smooth motion in this message only. The deviation must be larger
    than an acceleration of 10 rad/s^2 causes, and several times as large as the deviations of neighbouring messages.
    Below 30 Hz, small spikes look like quick motions and are kept.
    """

    bags: tuple[str, ...] = flag(
        text="Folders of bags, bag files (.mcap, .db3) or tables (.csv, .npz).",
        metavar="BAG",
        positional=True,
    )
    arm: Arm
    topics: Topics
    segments: Segments
    output: str | None = flag(
        None,
        "Data set to write (.npz), or folder to create with --task lerobot. Required, except with --repair.",
        metavar="FILE",
        short="-o",
    )
    repair: bool = switch(
        "Repair truncated bags in place instead of importing them: write the footer, summary and metadata.yaml that "
        "other programs need. `eim import` can read truncated bags without a repair."
    )
    task: Literal["motion", "ik", "lerobot"] = flag(
        "motion",
        "Convert each segment to one motion, to pairs of tip pose and configuration, or to an episode of a LeRobot "
        "data set. LeRobot must be installed for the latter.",
    )
    context: tuple[str, ...] = flag(
        (),
        "Quantity that each sample depends on. For motions: start, or a topic of points, poses or numbers (default: "
        "none). For ik: position (default) or pose.",
        repeated=True,
    )
    json: bool = json_flag()

    def run(self) -> int:
        if self.repair:
            return self._repair()
        if self.output is None:
            raise ConfigurationError("the following arguments are required: --output (see eim import --help)")
        return self._imported(self.output)

    def _repair(self) -> int:
        from eim_ros.bags.reader import recover_bag

        if self.output is not None:
            raise ConfigurationError(
                "--repair changes the bags in place and writes no data set: leave out --output", self.output
            )
        done = {bag: recover_bag(bag) for bag in self.bags}
        figures = {"bags": [{"path": bag, "done": steps} for bag, steps in done.items()]}
        told = (f"{bag}: {'; '.join(steps) or 'is complete'}" for bag, steps in done.items())
        return report(self.json, figures, told)

    def _imported(self, output: str) -> int:
        from eim_ros.bags.selection import lines
        from eim_ros.core.data_set import save_data_set

        if self.task != "lerobot" or not Path(output).exists():  # the export refuses an existing folder
            given = {"--robot": self.arm.file, **{f"BAG {bag}": bag for bag in self.bags}}
            check_outputs({"--output": output}, given)
        selection = self._selection()
        if self.task == "lerobot":
            return self._episodes(selection, output)
        data_set, reports = self._pairs(selection) if self.task == "ik" else self._motions(selection)
        save_data_set(output, data_set)
        what = "pairs" if self.task == "ik" else "motions"
        about = data_set.description if self.task == "motion" else data_set.description["robot"]
        answer = {"output": output, "task": self.task, "n_samples": len(data_set)}
        answer |= {"limits_source": about["limits_source"]} if self.task == "motion" else {}
        answer |= {"joint_names": about["joint_names"], "bags": [bag.to_json() for bag in reports]}
        told = [line for bag in reports for line in lines(bag, what)]
        told.append(f"wrote {len(data_set)} {what} to {output}")
        if data_set.description.get("limits_source") == "recording":
            told.append(
                "the recording has no robot_description with all joints, so its range defines the joint limits; give "
                "--robot to use the limits of the robot"
            )
        return report(self.json, answer, told)

    def _selection(self) -> Selection:
        from eim_ros.bags.selection import Selection
        from eim_ros.bags.series import Cuts

        robot, text = self.arm.find(), self.topics.joints
        joints = tuple(name.strip() for name in text.split(",")) if text else None
        if joints and (not all(joints) or len(set(joints)) < len(joints)):
            raise ConfigurationError(f"--joints {text}: expected different names, separated by commas", joints)
        if joints and robot and joints != robot.joint_names:
            raise ConfigurationError(
                f"--joints {text} differs from the joints of robot '{robot.name}' ({','.join(robot.joint_names)}): "
                "leave out --joints or --robot",
                joints,
            )
        cuts = self.segments
        return Selection(
            joint_names=joints,
            robot=robot,
            joint_topics=self.topics.joint_topic,
            label_topic=self.topics.label_topic,
            labels=self.topics.label,
            skipped_labels=self.topics.skip_label,
            cuts=Cuts(
                cuts.max_gap,
                cuts.max_speed,
                cuts.min_jump,
                use_arrival=self.topics.time == "arrival",
                held=self.topics.hold,
            ),
        )

    def _motions(self, selection: Selection) -> tuple[DataSet, list[BagReport]]:
        from eim_ros.bags.importing import MotionForm, import_motions
        from eim_ros.core.data_set import DataSet
        from eim_ros.ik.prior import describe_robot

        form = self.segments
        if self.topics.pose_topic or form.rate:
            raise ConfigurationError(
                "--pose-topic works only with --task ik, and --rate only with --task ik or lerobot", self.task
            )
        if form.points < 2:
            raise ConfigurationError(f"--points must be at least 2, got {form.points}", form.points)
        data_set, reports = import_motions(
            self.bags,
            selection,
            MotionForm(form.points, form.method, self.context, form.min_duration, form.min_displacement, form.trim),
        )
        if selection.robot is None:
            return data_set, reports
        description = {**data_set.description, "robot": describe_robot(selection.robot)}
        return DataSet(data_set.context, data_set.sample, description), reports

    def _episodes(self, selection: Selection, output: str) -> int:
        from eim_ros.bags.importing import EpisodeForm, import_episodes
        from eim_ros.bags.selection import lines
        from eim_ros.motion.lerobot import export_episodes, lerobot_for

        form, rate = self.segments, self.segments.rate or 30.0
        if self.topics.pose_topic or self.context:
            raise ConfigurationError(
                "--context and --pose-topic do not work with --task lerobot: leave them out", self.task
            )
        if rate != int(rate):
            raise ConfigurationError(f"--rate: LeRobot needs a whole number of frames per second, got {rate}", rate)
        lerobot_for(Path(output))  # reports a missing library or an existing folder before the bags are read
        names, episodes, reports = import_episodes(
            self.bags,
            selection,
            EpisodeForm(rate, form.method, form.min_duration, form.min_displacement, form.trim),
        )
        found = [(episode.label, episode.positions) for episode in episodes]
        n_episodes, n_frames = export_episodes(names, found, Path(output), int(rate))
        answer = {"output": output, "task": self.task, "n_episodes": n_episodes, "n_frames": n_frames}
        answer |= {"fps": int(rate), "joint_names": list(names), "bags": [bag.to_json() for bag in reports]}
        told = [line for bag in reports for line in lines(bag, "episodes")]
        told.append(f"wrote {n_episodes} episodes with {n_frames} frames at {rate:g} Hz to {output}")
        return report(self.json, answer, told)

    def _pairs(self, selection: Selection) -> tuple[DataSet, list[BagReport]]:
        from eim_ros.bags.importing import PairForm, import_pairs
        from eim_ros.ik.data import pair_data_set
        from eim_ros.kinematics import CONTEXT_KINDS

        robot, topic = selection.robot, self.topics.pose_topic
        if robot is None:
            raise ConfigurationError("--task ik needs a robot: give --robot", self.arm.robot)
        kinds = self.context or ("position",)
        if len(kinds) > 1 or kinds[0] not in CONTEXT_KINDS:
            told = f"--context of --task ik must be one of {', '.join(CONTEXT_KINDS)}, got {', '.join(kinds)}"
            raise ConfigurationError(told, kinds)
        form = PairForm(topic, self.segments.rate, self.segments.method)
        poses, configurations, reports = import_pairs(self.bags, selection, form)
        source = f"bags, poses of {topic}" if topic else "bags, poses by forward kinematics"
        return pair_data_set(robot, configurations, poses, kinds[0], {"source": source}), reports


@dataclass(frozen=True, kw_only=True)
class Export:
    """Export motions to a LeRobot data set."""

    data: str = flag(
        text="Data set of motions (.npz) from eim import or eim motion sample.",
        metavar="DATA",
        positional=True,
    )
    lerobot: str = flag(
        text="Folder to create for the data set. The LeRobot library must be installed.", metavar="FOLDER"
    )
    fps: int = count(30, "Frames per second.")
    task: str = flag("", "Name of the task of motions without a label (default: motion).")
    json: bool = json_flag()

    def run(self) -> int:
        from eim_ros.core.data_set import load_data_set
        from eim_ros.motion.lerobot import export_to_lerobot

        folder = Path(self.lerobot)
        if not folder.exists():  # the export refuses an existing folder
            check_outputs({"--lerobot": folder}, {"DATA": self.data})
        n_episodes, n_frames = export_to_lerobot(load_data_set(self.data), folder, self.fps, self.task)
        figures = {"lerobot": self.lerobot, "n_episodes": n_episodes, "n_frames": n_frames, "fps": self.fps}
        told = f"wrote {n_episodes} episodes with {n_frames} frames at {self.fps} Hz to {folder}"
        return report(self.json, figures, [told])


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate the raw samples of a model on test data: errors, limits, entropies and likelihood."""

    first_words: ClassVar[tuple[str, ...]] = ("model", "data")

    model: str = flag(text="Model from eim train, or the name of an included model.", metavar="FILE|NAME")
    data: str = flag(text="Test data from eim collect.", metavar="FILE")
    seed: int = seed_flag()
    json: bool = json_flag()

    def run(self) -> int:
        from eim_ros.core.data_set import load_data_set
        from eim_ros.ik import IKModel, evaluate

        figures = evaluate(IKModel.load(self.model), load_data_set(self.data), self.seed)
        units = {"position": " m", "orientation": " rad", "prob": " nat"}
        rows = (f"{name:<24} {x:10.4f}{units.get(name.rpartition('_')[2], '')}" for name, x in figures.items())
        return report(self.json, figures, rows)
