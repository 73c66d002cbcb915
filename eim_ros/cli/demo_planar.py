"""`eim demo --planar`: a planar robot that reaches lines, from demonstrations to the execution of samples."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.cli.flags import count, flag, json_flag, seed_flag, threads_flag
from eim_ros.cli.options import use_threads
from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm, in_own_domain
from eim_ros.cli.progress import Bar
from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError, ServiceError
from eim_ros.core.files import check_outputs, to_json

if TYPE_CHECKING:
    from eim_ros.core.data_set import DataSet
    from eim_ros.planar import PlanarArm, PlanarTask, Trajectory
    from eim_ros.planar.line_experts import LineExperts

Table = dict[str, dict[str, float]]

SPEED = 20.0  # simulated seconds per second
RATE = 25  # [Hz] of simulated time
SPEED_SHARE = 0.9  # largest velocity of a joint, as a share of its limit
LABEL = "demonstration"
GOAL = "planar_simulator/goal"  # topic with the ends of the line
FIRST_X, LAST_X, HEIGHT = 4.0, 7.0, 5.0  # [m]; vertical lines with x from FIRST_X to LAST_X, y from -HEIGHT to HEIGHT
N_POINTS = 30  # number of points of an imported motion
N_NEW_LINES = 3
N_OWN_MOTIONS = 200  # number of motions drawn from each prior for each new line
REACHED = 0.05  # [m] tolerance of the goal; the tip must end on the line
EVERY = 5  # every fifth motion is held out of the training of the priors
PRIOR_EXPERTS, PRIOR_LATENT = 5, 30  # numbers of experts and latent coordinates of a motion prior


@dataclass(frozen=True, kw_only=True)
class DemoPlanar:
    """Demonstrate, record, train, sample and execute with a planar robot.

    The nodes planar_simulator, demonstrator and demo_recorder run as processes. The robot performs motions to
    vertical lines at several places. These demonstrations are recorded and imported. EM and EIM learn which
    configurations reach a line at a given place. The simulator executes samples of both for lines that were not
    demonstrated. A motion prior learns from the same recording.
    """

    motions: int = count(360, "Number of motions to demonstrate.")
    places: int = count(9, "Number of positions of the line, at least 2.")
    components: int = count(20, "Number of components of each mixture.")
    executed: int = count(12, "Number of samples of each mixture to execute for each new line.")
    seed: int = seed_flag()
    output: str = flag("demo-planar", "Folder for all files.", metavar="FOLDER")
    json: bool = json_flag()
    threads: int | None = threads_flag()

    def run(self) -> int:
        folder = Path(self.output)
        if self.places < 2:
            raise ConfigurationError(f"--places must be at least 2, got {self.places}", self.places)
        check_outputs({"--output": folder / "motions.npz"})
        from eim_ros.nodes.demonstrator.client import PlanarClient
        from eim_ros.planar import PlanarArm

        use_threads(self.threads)
        arm, lines = PlanarArm(), _new_lines(self.places)
        with ended_by_sigterm(), contextlib.ExitStack() as stack:
            nodes = _nodes(self, stack.enter_context(in_own_domain()), folder)
            for node in nodes:
                stack.enter_context(node)
            try:
                client = stack.enter_context(PlanarClient())
                with Waiting("planar_simulator, demo_recorder and demonstrator", nodes) as waiting:
                    client.wait_for_nodes(waiting)
                print(
                    f"1. The robot performs {self.motions} motions to lines at {self.places} places, and a bag "
                    "records them"
                )
                bag = folder / "demonstrations"
                _demonstrate(client, bag, self.motions, nodes)

                print("2. The recorded bag is converted to a data set")
                motions, left_out = _import(bag, folder / "motions.npz")
                shown = _pairs(motions, folder / "pairs.npz")
                print(
                    f"   {len(motions)} motions of {N_POINTS} points and {len(shown)} pairs of line and configuration"
                )
                for reason in left_out:
                    print(f"   one demonstration was left out: {reason}")

                print(f"3. Two mixtures of {self.components} experts learn these pairs")
                models = _fit(arm, shown, self.components, self.seed)

                print(
                    f"4. The simulator executes {self.executed} samples per mixture and line for {len(lines)} new lines"
                )
                table, samples = _execute(client, arm, models, lines, self)
            except ServiceError:
                for node in nodes:
                    node.check()
                raise
        _print(table)
        print(f"5. A motion prior of {PRIOR_EXPERTS} experts learns from the same recording")
        prior = _prior(arm, motions, lines, folder / "prior.safetensors", self.seed)
        print(f"   log density of held-out motions: {prior['log_density']:.2f} nat")
        free = f"{prior['free_distance']:.2f} m if the tip has no goal"
        print(f"   median distance from the ends of its motions to the new lines: {prior['distance']:.2f} m; {free}")

        from eim_ros.planar.picture import draw_planar_demo  # imported here: matplotlib takes a second

        picture = folder / "planar.png"
        draw_planar_demo(arm, _line(lines[len(lines) // 2]), shown.sample, samples, table, picture)
        print(f"6. Samples of EM and EIM for one of the new lines: {picture}")
        if self.json:
            figures = {"executed": table, "n_motions": len(motions), "left_out": left_out, "prior": prior}
            figures["picture"] = str(picture)
            print(to_json(figures))
        return 0


def _new_lines(n_places: int) -> list[float]:
    """Return the x coordinates of some lines halfway between neighbouring places [m]."""
    places = np.linspace(FIRST_X, LAST_X, n_places)
    between = 0.5 * (places[1:] + places[:-1])
    rows = np.unique(np.linspace(0, len(between) - 1, N_NEW_LINES).round().astype(int))
    return [float(x) for x in between[rows]]


def _line(x: float) -> PlanarTask:
    from eim_ros.planar import line_task

    return line_task((x, -HEIGHT), (x, HEIGHT))


def _nodes(flags: DemoPlanar, domain_id: int, folder: Path) -> list[ServerProcess]:
    line = {"goal_start": f"[{FIRST_X}, {-HEIGHT}]", "goal_end": f"[{FIRST_X}, {HEIGHT}]"}
    robot = {"obstacles": "[0.0, 0.0, 0.0]", **line}
    clock = {"publish_clock": "true", "speed": str(SPEED), "rate": str(RATE), "marker_rate": "1.0"}
    shown = {"n_motions": str(flags.motions), "n_places": str(flags.places), "seed": str(flags.seed)}
    way = {"last_shift": f"[{LAST_X - FIRST_X}, 0.0]", "speed_share": str(SPEED_SHARE), "pause": "0.05"}
    expert = {"show_at_start": "false", "recorder": "demo_recorder", "label": LABEL, **shown, **way}
    return [
        ServerProcess({**robot, **clock}, domain_id, folder, "planar_simulator"),
        ServerProcess(
            {"use_sim_time": "true", "data_directory": str(folder.resolve())}, domain_id, folder, "demo_recorder"
        ),
        ServerProcess({**robot, **expert, "use_sim_time": "true"}, domain_id, folder, "demonstrator"),
    ]


def _demonstrate(client: Any, bag: Path, n_motions: int, nodes: list[ServerProcess]) -> None:
    def check() -> None:
        for node in nodes:
            node.check()

    if bag.exists():
        shutil.rmtree(bag)  # remove the results of an earlier run
    client.start_recording(str(bag.resolve()), "pause", ("joint_states", GOAL))
    with Bar("   demonstrations", n_motions) as bar:
        client.demonstrate(n_motions, bar.advance, check)
    client.stop_recording()


def _import(bag: Path, output: Path) -> tuple[DataSet, list[str]]:
    """Import the motions, with the x coordinate of the line as their context.

    Also return the reasons for skipped demonstrations. On a busy machine, the recorder may lose joint states.
    """
    from eim_ros.bags.importing import MotionForm, import_motions
    from eim_ros.bags.selection import Selection
    from eim_ros.core.data_set import DataSet, save_data_set
    from eim_ros.kinematics import Robot

    selection = Selection(robot=Robot("planar10"), labels=(LABEL,))
    form = MotionForm(N_POINTS, contexts=(f"/{GOAL}",), trim=True)
    found, (report,) = import_motions([bag], selection, form)
    left_out = [told.reason for told in report.segments if told.label == LABEL and told.reason]
    # only the x coordinate of the ends of the line varies
    data_set = DataSet(found.context[:, :1], found.sample, {**found.description, "context_names": ["line_x"]})
    save_data_set(output, data_set)
    return data_set, left_out


def _pairs(motions: DataSet, output: Path) -> DataSet:
    """Return the x coordinate of the line and the final configuration of each motion, as pairs."""
    from eim_ros.core.data_set import DataSet, save_data_set

    about = motions.description
    description = {name: about[name] for name in ("joint_names", "context_names")}
    pairs = DataSet(motions.context, motions.sample[:, -len(about["joint_names"]) :], description)
    save_data_set(output, pairs)
    return pairs


def _fit(arm: PlanarArm, pairs: DataSet, n_components: int, seed: int) -> dict[str, LineExperts]:
    import torch

    from eim_ros.planar.line_experts import LEARNERS, fit_line_experts

    line_x, q = torch.from_numpy(pairs.context[:, 0]), torch.from_numpy(pairs.sample)
    return {
        learner: fit_line_experts(learner, arm, line_x, q, n_components, torch.Generator().manual_seed(seed))
        for learner in LEARNERS
    }


def _execute(
    client: Any, arm: PlanarArm, models: dict[str, LineExperts], lines: list[float], flags: DemoPlanar
) -> tuple[Table, dict[str, FloatArray]]:
    """Return the mean distance to the line, and the share of samples that reach it, for each model.

    Also return the samples of each model for the line in the middle.
    """
    import torch

    from eim_ros.planar import folded
    from eim_ros.planar.motions import MotionConfig, reaching_motion

    generator = torch.Generator().manual_seed(flags.seed + 1)
    start, config = torch.from_numpy(folded(arm)), MotionConfig(speed=SPEED_SHARE)
    outcomes: dict[str, list[Any]] = {learner: [] for learner in models}
    samples: dict[str, FloatArray] = {}
    with Bar("   executed", flags.executed * len(lines) * len(models)) as bar:
        for number, x in enumerate(lines):
            client.set_task(_line(x))
            for learner, model in models.items():
                drawn = model.draw(x, flags.executed, generator).clamp(-arm.joint_limit, arm.joint_limit)
                if number == len(lines) // 2:
                    samples[learner] = drawn.numpy()
                for goal in drawn:
                    motion: Trajectory = reaching_motion(arm, start, goal, config)
                    outcomes[learner].append(client.execute(arm.joint_names, motion.times, motion.positions))
                    bar.advance()
    table = {
        learner: {
            "mean_distance": float(np.mean([outcome.distance for outcome in some])),
            "share_reached": float(np.mean([outcome.reached for outcome in some])),
        }
        for learner, some in outcomes.items()
    }
    return table, samples


def _print(table: Table) -> None:
    print(f"   {'':16}{'distance [m]':>14}{'reached the line':>18}")
    for name, figures in table.items():
        print(f"   {name:16}{figures['mean_distance']:14.3f}{100.0 * figures['share_reached']:16.0f} %")


def _prior(arm: PlanarArm, motions: DataSet, lines: list[float], output: Path, seed: int) -> dict[str, float]:
    """Train a motion prior by EM on most motions, write it, and return its results.

    `log_density` is the mean log density of held-out motions [nat]. `distance` is the median distance between a new
    line and the ends of sampled motions [m]. `free_distance` is the same distance without the goal of the prior.
    """
    import torch

    from eim_ros.kinematics import Robot
    from eim_ros.learning import EMConfig
    from eim_ros.learning.run import Status
    from eim_ros.motion import MotionConfig, MotionTraining, TipGoal

    is_new = np.arange(len(motions)) % EVERY == 0
    known, new = _rows(motions, ~is_new), _rows(motions, is_new)
    training = MotionTraining(MotionConfig(n_latent=PRIOR_LATENT), EMConfig(n_components=PRIOR_EXPERTS), seed)
    outcome = training.run(known)
    if outcome.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    # every demonstration ends with the tip on the line x = line_x of length 2 HEIGHT
    prior = outcome.model.with_goals(Robot("planar10"), TipGoal("x", "line_x", REACHED), TipGoal("y", 0.0, HEIGHT))
    prior.save(output)
    scores = prior.score(new.sample.reshape(len(new), N_POINTS, -1), new.context)
    generator = torch.Generator().manual_seed(seed)
    distances: dict[str, list[FloatArray]] = {"distance": [], "free_distance": []}
    for x in lines:
        for name, goals in (("distance", None), ("free_distance", ())):
            ends = prior.condition([x], goals=goals).sample(N_OWN_MOTIONS, generator).positions[:, -1]
            distances[name].append(_line(x).distance(arm.tip(torch.from_numpy(ends))).numpy())
    figures = {name: float(np.median(np.concatenate(some))) for name, some in distances.items()}
    return {"log_density": float(scores.log_prob.mean()), **figures}


def _rows(motions: DataSet, chosen: npt.NDArray[np.bool_]) -> DataSet:
    from eim_ros.core.data_set import DataSet

    about = motions.description
    lists = {
        name: [one for one, is_chosen in zip(about[name], chosen, strict=True) if is_chosen]
        for name in ("durations", "labels")
    }
    return DataSet(motions.context[chosen], motions.sample[chosen], {**about, **lists})
