"""Sources of the figures in README.md, CONTRIBUTING.md and docs: rows of committed results, or constants.

check_figures.py compares the documents with these rows.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from eim_ros.cli.demo_planar import DemoPlanar
from eim_ros.ik import Completeness, Sampler, problem
from eim_ros.ik.request import N_NEAR
from eim_ros.ik.strategies.restarts import FEWEST_TO_DIVERSIFY, MAX_SEEDS_WITHOUT_GAIN, NEAR_SEEDS
from eim_ros.kinematics.matching import ANGLE_TOLERANCE, LENGTH_TOLERANCE
from scripts import prose

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"

NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
WORD = rf"\b(?:{'|'.join(WORDS)})\b"


class ResultError(ValueError):
    """Disagreement between a passage and the results, or a source that does not match exactly one row."""


class Figure(NamedTuple):
    """A passage of a document with a `{}` for each figure, and the rows of the results that it comes from.

    A source is "FILE: ROW" or "FILE: HEADING >> ROW". ROW is the beginning of a row, with a `{}` for each value, a `~`
    for each other word, and `...` for any words. Only one row of the file may match ROW, or only one row between the
    first HEADING and the next empty line. `derive` computes the figures from the values. A passage without `{}` is a
    statement. In this case, `derive` returns whether the statement is true.
    """

    page: str
    passage: str
    sources: Sequence[str]
    derive: Callable[[list[float]], Sequence[float] | bool] = list


def pattern(template: str, number: str) -> str:
    """Return a template as a regular expression that captures the numbers."""
    codes = {"{}": f"({number})", "~": r"\S+?", "...": ".*?", " ": " +"}
    parts = re.split(r"(\{\}|~|\.\.\.| +)", template)
    return "".join(codes.get(part[:1] if part.isspace() else part, re.escape(part)) for part in parts)


def values(source: str) -> list[float]:
    """Return the values of a row of results."""
    file, _, template = source.partition(": ")
    text = (RESULTS / file).read_text(encoding="utf-8")
    heading, _, row = template.rpartition(" >> ")
    above: list[str] = []
    if heading:
        start = re.search(rf"^ *{pattern(heading, NUMBER)}", text, re.MULTILINE)
        if not start:
            raise ResultError(f"{file} does not have a row that starts with {heading!r}")
        above, text = list(start.groups()), text[start.end() :].partition("\n\n")[0]
    found = list(re.finditer(rf"^ *{pattern(row, NUMBER)}(?![\w.])", text, re.MULTILINE))
    if len(found) != 1:
        raise ResultError(f"{file} must have the row {template!r} once, but has it {len(found)} times")
    return [float(number(shown)) for shown in (*above, *found[0].groups())]


def number(text: str) -> Decimal:
    """Return the value of a number, which may be a word such as "two"."""
    return Decimal(WORDS[text] if text in WORDS else text.replace(",", ""))


def ends(found: list[float]) -> tuple[float, float]:
    """Return the smallest and the largest value."""
    return min(found), max(found)


def same(found: list[float]) -> list[float]:
    """Return the common value of all rows."""
    if len(set(found)) != 1:
        raise ResultError(f"the rows must have the same value, but have {found}")
    return found[:1]


def constants(page: str, *passages: tuple[str, float]) -> list[Figure]:
    """Return figures that are settings in the code."""

    def figure(passage: str, value: float) -> Figure:
        return Figure(page, passage, (), lambda _: passage.count("{}") * [value])

    return [figure(passage, value) for passage, value in passages]


def rows(file: str, row: str) -> list[tuple[str, ...]]:
    """Return the groups of all rows that match a regular expression."""
    found = re.findall(row, (RESULTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    if len(found) < 2:
        raise ResultError(f"{file} has {len(found)} rows {row!r}")
    return found


def shorter_paths(_: list[float]) -> list[float]:
    """Count the problems whose paths are shorter than TORM's paths for each seed."""
    found = rows("path_problems.txt", r"^(\w+) +\d+ +\d +([\d.]+) / \S+ +([\d.]+) / .* valid$")
    longer = {name for name, ours, theirs in found if float(ours) >= float(theirs)}
    return [len({name for name, *_ in found} - longer)]


def largest_gap(_: list[float]) -> list[float]:
    """Return the second largest gap of a target's evidence with the default settings [nat]."""
    text = (RESULTS / "posteriors.txt").read_text(encoding="utf-8").partition("\nbefore components were split")[0]
    found = re.findall(r"^ *(\S+) .* (?:converged|max_iterations) +\S+ +\d+ +(\S+)", text, re.MULTILINE)
    gaps = {name: max(float(gap) for other, gap in found if other == name) for name, _ in found}
    return sorted(gaps.values())[-2:-1]


# time [us], numbers of missing roots in general, on the grid, and in answers that claim to be complete
SSIK = r"^(?!UR5).* (\d+\.\d) +(\d+) +(\d+)/\d+ \((\d+)\) +\d+ +-$"


def times_of_ssik(_: list[float]) -> tuple[float, float]:
    """Return the range of the times of ssik [us]."""
    return ends([float(time) for time, *_ in rows("general_6r.txt", SSIK)])


def only_special_roots_are_lost(_: list[float]) -> bool:
    """Return whether ssik misses roots only at special configurations."""
    found = [(int(lost), int(special), int(claimed)) for _, lost, special, claimed in rows("general_6r.txt", SSIK)]
    return all(not lost and not claimed for lost, _, claimed in found) and any(special for _, special, _ in found)


def many(arm: str, way: str, columns: str) -> str:
    """Return the source of the row of a solver for an arm, in the comparison of solvers."""
    return f"ik_peers.txt: {arm}, ~ joints >> {way} {columns}"


def ratio(target: str, estimator: str, columns: str = "{}") -> str:
    """Return the source of the row of a density ratio estimator."""
    return f"density_ratio.txt: {target} KL mean >> {estimator} {columns}"


def megabytes(model: str) -> float:
    """Return the size of an included model to one digit [MB]."""
    return float(f"{1e-6 * (ROOT / MODELS).with_name(f'{model}.safetensors').stat().st_size:.1g}")


def minutes(seconds: list[float]) -> list[float]:
    """Convert seconds to minutes."""
    return [value / 60.0 for value in seconds]


MODELS = "config/models/README.md"
OF_SEVEN = ("panda", "iiwa14", "fetch")  # arms with seven joints in the comparison of solvers
CLOSED, ELIMINATED = ("panda", "iiwa14", "xarm7", "fetch"), ("gen3", "sawyer", *(f"random, {i}" for i in range(20)))
CALIBRATED = tuple(f"{arm} {off}" for off in ("1e-06", "1e-05", "0.0001", "0.001") for arm in ("panda", "iiwa14"))
TRUE_SETS = [
    *(
        f"completeness.txt: {arm}: {{}} poses >> guarantee 0.99, 0.002: ~ ~ ~ wrongly {{}}%"
        for arm in ("panda", "iiwa14")
    ),
    "completeness.txt: ur5: {} poses, ~ ~ ~ wrongly {}%",
]
FACTS = "experiments/projections/table.csv: ..."
DEFAULT_200, COMPLETE = "eim_ros, default call, 200 solutions", "eim_ros, all, complete"
FIGURES = [
    # README.md
    Figure("README.md", "200 verified solutions of a Panda take [{} ms]", [many("panda", DEFAULT_200, "{}")]),
    Figure(
        "README.md",
        "No claim of completeness was wrong at [{} random poses]",
        TRUE_SETS,
        lambda v: [sum(v[::2]) if not any(v[1::2]) else 0.0],
    ),
    Figure("README.md", "tested on [{} poses]", ["distribution.txt: ...solutions, {} poses"]),
    Figure("README.md", "returns 100 solutions in [{} ms]", ["service_latency.txt: n = 100 {}"]),
    *(
        Figure(
            "README.md",
            f"| {name} | {{}} % | {{}} | {{}} | {{}} % |",
            [f"ik_peers.txt: panda, ~ joints >> {one} {{}} {{}}", many("panda", way, "{} ~ ~ {}")],
        )
        for name, one, way in (
            ("eim_ros", "eim_ros, default call", DEFAULT_200),
            ("ssik", "ssik", "ssik, self-motion charts, 40 each"),
            ("roboticstoolbox", "roboticstoolbox, C++ LM (chan)", "roboticstoolbox, C++ LM (chan), 50 calls"),
            ("optik", "optik", "optik, 50 calls"),
            ("TRAC-IK", "TRAC-IK (pytracik, 100 ms)", "TRAC-IK (pytracik, 100 ms), 50 calls"),
        )
    ),
    Figure(
        "README.md",
        "For one solution of a UR5, EAIK is [faster].",
        [f"ik_peers.txt: ur5, ~ joints >> {name} ~ {{}}" for name in ("eim_ros, default call", "EAIK", "ssik")],
        lambda v: v[1] < v[0] < v[2],
    ),
    # CONTRIBUTING.md
    *constants(
        "CONTRIBUTING.md",
        ("It fails if more than {} % of the sentences", 100.0 * prose.MAX_MATCHING),
        ("or if more than {} % have over", 100.0 * prose.MAX_LONG),
        ("have over {} words", prose.MAX_WORDS),
    ),
    # config/models/README.md, examples/README.md
    Figure(
        MODELS,
        "learns {} linear experts with a softmax gating from {} random configurations",
        ["included_models.txt: iiwa14, pose: {} experts", "included_models.txt: Models by five learners: {} pairs"],
    ),
    Figure(MODELS, "in the same way with {} experts", ["included_models.txt: iiwa14, position: {} experts"]),
    Figure(
        MODELS,
        "The files of these models have {} MB each",
        [],
        lambda _: same([megabytes(f"{robot}_pose") for robot in ("panda", "iiwa14")]),
    ),
    Figure(
        MODELS,
        "The files have {} MB each",
        [],
        lambda _: same([megabytes(f"{robot}_position") for robot in ("panda", "iiwa14")]),
    ),
    Figure(MODELS, "Training takes {} minutes", [f"included_models.txt: iiwa14, pose: >> EIM {7 * '~ '}{{}}"], minutes),
    Figure(
        MODELS,
        "experts, which takes {} minutes",
        [f"included_models.txt: iiwa14, position: >> EIM {7 * '~ '}{{}}"],
        minutes,
    ),
    Figure(MODELS, "Training takes {} s.", [f"table_ways.txt: EIM 1 0 {6 * '~ '}{{}}"]),
    *(
        Figure(
            MODELS,
            f"| {model}_pose | {row} | its start (EM) | {row}",
            [
                f"included_models.txt: {model}, pose: >> {name} {{}} {{}} {{}}% {{}} {{}} {{}}"
                for name in ("EIM", "start")
            ],
        )
        for model in ("iiwa14", "panda")
        for row in ("{} m | {} rad | {} % | {} nat | {} | {} |",)
    ),
    *(
        Figure(
            MODELS,
            f"| {model}_position | {row} | its start (EM) | {row}",
            [
                f"included_models.txt: {model}, position: >> {name} {{}} - {{}}% {{}} {{}} {{}}"
                for name in ("EIM", "start")
            ],
        )
        for model in ("iiwa14", "panda")
        for row in ("{} m | {} % | {} nat | {} | {} |",)
    ),
    Figure(
        MODELS,
        "{} % (iiwa) and {} % (Panda) of the samples converge, compared with {} % and {} % of uniform seeds",
        [
            f"model_seeds.txt: {model}_pose: >> {seeds} {{}}%"
            for seeds in ("model", "uniform")
            for model in ("iiwa14", "panda")
        ],
    ),
    *(
        Figure(
            MODELS,
            f"| {arm} | {{}} | {{}} | {{}} | {{}} |",
            [f"model_gains.txt: {case}: >> 100 ~ {{}} ~ ~ {{}} ~ ~ ~ ~ ~ {{}} ~ ~ {{}}"],
        )
        for arm, case in (
            ("Panda", "Panda"),
            ("iiwa", "iiwa"),
            ("UR5e", "UR5e"),
            ("eight joints, a Panda on a rail", "eight joints (Panda on a rail)"),
            ("ten joints, a Panda on a mobile base", "ten joints (Panda on a mobile base)"),
            ("positions, five joints", "five joints (like SO-101), position"),
            ("Panda, narrow limits", "Panda, a quarter of each joint's range"),
            ("eight joints, narrow limits", "eight joints, a quarter of each joint's range"),
            ("Panda in front of a shelf", "Panda before a shelf"),
        )
    ),
    Figure(
        MODELS,
        "A single preferred solution takes {} times as long as without a model.",
        ["model_gains.txt: panda_table: >> 1 ~ ~ ~ {}"],
    ),
    Figure(
        MODELS,
        "save a tenth of the time",
        [f"model_gains.txt: five joints (like SO-101), position: >> {n} {15 * '~ '}{{}}" for n in (300, 1000)],
        lambda v: max(v) < 0.95,
    ),
    Figure(
        "examples/README.md",
        "also of a calibrated UR5e, in [{} to {} us]",
        [many(arm, DEFAULT_200, "{}") for arm in ("ur5", "ur5_calibrated")],
        lambda v: [1000.0 * v[0], 1000.0 * v[1]],
    ),
    Figure(
        "examples/README.md",
        "shortened paths by {} % (standard error {} %) compared with the given goal. "
        "The ten nearest shortened them by {} % ({} %), and 100 goals did not.",
        [
            f"goal_sets.txt: robot goal set >> panda {goals} {9 * '~ '}{{}} +- {{}}"
            for goals in ("nearest", "ten nearest")
        ],
    ),
    # docs/benchmarks
    Figure("docs/benchmarks/coverage.md", "for {} poses per arm were compared", TRUE_SETS, lambda v: same(v[::2])),
    Figure(
        "docs/benchmarks/coverage.md",
        "All components were found. No claim was wrong.",
        [
            f"completeness.txt: {arm}: >> guarantee 0.99, 0.002: ~ ~ ~ wrongly {{}}%, every component {{}}%"
            for arm in ("panda", "iiwa14")
        ],
        lambda v: v == 2 * [0.0, 100.0],
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "after {} iterations of EIM from {} samples",
        ["density_ratio.txt: density ratio estimators, {} iterations of EIM, {} points"],
    ),
    *(
        Figure(
            "docs/benchmarks/learners.md",
            f"| {row} | {' | '.join(7 * ['{}'])} |",
            [
                *(ratio(target, name) for name in ("EM", "EM of 8")),
                ratio(f"start, {target}", "plug-in"),
                *(ratio(target, name) for name in ("plug-in", "residual")),
                ratio(f"start, {target}", "network"),
                ratio(target, "network"),
            ],
        )
        for row, target in (
            ("mixture of 10 in 10 d, 10", "mixture (10, 10)"),
            ("mixture of 10 in 20 d, 10", "mixture (20, 10)"),
            ("two modes, 1", "two modes, 1 component"),
            ("ring, 5", "ring, 5 components"),
            ("curve in 5 d, 5", "curve in 5 d, 5 components"),
            ("arm of 10 joints, 5", "arm of 10 joints, 5 components"),
            ("tip as a feature, 5", "the same, tip as a feature"),
        )
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "On eight data sets, EM reaches the likelihood of scikit-learn in less time",
        [
            f"em_peers.txt: {data} >> EM ~ {{}} ({{}}) ~ ms {{}}x"
            for data in ("iris", "wine", "breast cancer", "digits", "diabetes", "moons", "swiss roll", "blobs")
        ],
        # 0.001 is the last digit of a difference
        lambda v: all(abs(v[i]) <= 2.0 * v[i + 1] + 0.001 and v[i + 2] < 1.0 for i in range(0, len(v), 3)),
    ),
    Figure("docs/benchmarks/learners.md", "models with {} experts", ["included_models.txt: iiwa14, pose: {} experts"]),
    *(
        Figure(
            "docs/benchmarks/learners.md",
            f"| {learner} | {{}} m | {{}} % | {{}} nat |",
            [f"included_models.txt: iiwa14, pose: >> {row} {{}} ~ {{}}% {{}}"],
        )
        for learner, row in (
            ("EM", "EM, 25 iterations"),
            ("truncated EM", "truncated EM"),
            ("EIM with kinematics", "EIM"),
            ("known density", "known density"),
        )
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "Truncated EM is {} times as fast as EM with 200 components, and {} times as fast with 1000",
        [f"em_steps.txt: K = {n} >> {row}" for n in (200, 1000) for row in ("full {}", "truncated, partial {}")],
        lambda v: [v[0] / v[1], v[2] / v[3]],
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "finds ten of ten modes in {} of {} runs",
        ["posteriors.txt: gmm20: all ten modes in {} of {} runs"],
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "Its estimate of the evidence is within {} nat, except for one target",
        [],
        largest_gap,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "`Sampler.solve` is the fastest call that solves every pose, in {} to {} ms. On the UR5 and the IRB 120, EAIK "
        "is faster, and on the IRB 120 also ssik and rs-opw-kinematics",
        [  # the table marks it in bold
            f"ik_peers.txt: | eim_ros, default call{2 * ' | **~ {} / ~'} | 1~ {{}} / ~ | **~ {{}} / ~ | 1~ {{}} / ~"
            f"{2 * ' | **~ {} / ~'} |",
            "ik_peers.txt: | EAIK | - | - | **{}, ~ / ~ | - | **~ ~ / ~ |",
        ],
        lambda v: ends(v[:-1]),
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "200 solutions of a seven-joint arm cover at least {} % of all solutions in {} to {} ms",
        [many(arm, DEFAULT_200, "{} ~ ~ {}") for arm in OF_SEVEN],
        lambda v: (min(v[1::2]), *ends(v[::2])),
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "With 50 solutions, the coverage is sometimes lower",
        [many(arm, "eim_ros, default call, 50 solutions", "~ ~ {}") for arm in OF_SEVEN],
        lambda v: min(v) < 100.0,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "With a guarantee, the call takes {} to {} times as long.",
        [many(arm, way, "{}") for way in (COMPLETE, DEFAULT_200) for arm in OF_SEVEN],
        lambda v: ends([v[i] / v[i + 3] for i in range(3)]),
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "For {} of {} poses of Fetch's arm, the answers do not claim completeness",
        ["ik_peers.txt: fetch, ~ joints >> many solutions of {} poses", many("fetch", COMPLETE, "~ ~ ~ ~ {} %")],
        lambda v: [v[0] * (1.0 - v[1] / 100.0), v[0]],
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "finds all solutions of a UR5 in {} µs, and `solve_all` in {} µs",
        [f"general_6r.txt: UR5 {13 * '~ '}{{}} - {{}}"],
        lambda v: v[::-1],
    ),
    Figure("docs/benchmarks/solvers.md", "ssik takes {} to {} µs", [], times_of_ssik),
    Figure(
        "docs/benchmarks/solvers.md",
        "For random poses, our answers contain all roots of ssik. At singular configurations, ssik finds a few "
        "roots that we lack, but our answers do not claim completeness",
        [],
        only_special_roots_are_lost,
    ),
    # docs/explanation
    Figure(
        "docs/explanation/completeness.md",
        "| typical time | {} to {} ms for seven joints |",
        [many(arm, COMPLETE, "{}") for arm in OF_SEVEN],
        ends,
    ),
    Figure(
        "docs/explanation/completeness.md",
        "{} to {} ms for seven joints with a closed form",
        [f"seven_joints.txt: {arm} closed form ~ ~ 100% {{}}" for arm in CLOSED],
        ends,
    ),
    Figure(
        "docs/explanation/completeness.md",
        "[{} to {} ms] for other tested arms",
        [f"seven_joints.txt: {arm} elimination ~ ~ ~ {{}}" for arm in ELIMINATED],
        ends,
    ),
    *constants(
        "docs/explanation/completeness.md",
        ("if fewer than one restart in {} leads to it", 1.0 / Completeness().missed_share),
    ),
    Figure(
        "docs/explanation/completeness.md",
        "No such case was found in a [benchmark].",
        TRUE_SETS,
        lambda v: not any(v[1::2]),
    ),
    Figure(
        "docs/explanation/completeness.md",
        "all tested poses of Sawyer, {} % for Rizon 4 and {} % for random arms",
        [f"seven_joints.txt: {arm} elimination ~ ~ {{}}%" for arm in ("sawyer", "rizon4", *ELIMINATED[2:])],
        lambda v: [v[1], sum(v[2:]) / len(v[2:])] if v[0] == 100.0 else [0.0, 0.0],
    ),
    Figure(
        "docs/explanation/completeness.md",
        "prove {} % of the poses of Gen3",
        ["seven_joints.txt: gen3 elimination ~ ~ {}%"],
    ),
    Figure(
        "docs/explanation/completeness.md",
        "and at least {} % for Panda and iiwa with frames off by up to 1e-3",
        [f"seven_joints.txt: {arm} elimination ~ ~ {{}}%" for arm in CALIBRATED],
        lambda v: [min(v)],
    ),
    Figure(
        "docs/explanation/density_ratios.md",
        "reduce the KL of the result from {} to {} nat",
        [ratio("mixture (20, 10)", name) for name in ("network, thesis", "network, products")],
    ),
    Figure(
        "docs/explanation/density_ratios.md",
        "KLIEP is slightly better than logistic on mixtures. LSIF is unstable in ten dimensions.",
        [
            ratio(target, name)
            for name in ("network, kliep", "network", "network, lsif")
            for target in ("mixture (2, 2)", "mixture (10, 10)")
        ],
        lambda v: v[0] < v[2] and v[1] < v[3] and v[5] > 100.0 * v[3],
    ),
    Figure(
        "docs/explanation/density_ratios.md",
        "an iteration in ten dimensions is {} times faster",
        [ratio("mixture (10, 10)", name, "~ ~ {}") for name in ("residual", "plug-in")],
        lambda v: [v[0] / v[1]],
    ),
    Figure(
        "docs/explanation/eim.md",
        "EM averages the sides, and half of its raw draws collide.",
        ["table_ways.txt: EM 1 mean {}%"],
        lambda v: 45.0 <= v[0] <= 55.0,
    ),
    Figure(
        "docs/explanation/eim.md",
        "EIM keeps to one side ([figures])",
        [f"table_ways.txt: EIM 1 {seed} ~ ~ {{}}% {{}}%" for seed in range(5)],
        lambda v: all(sorted(v[i : i + 2]) == [0.0, 100.0] for i in range(0, 10, 2)),
    ),
    Figure(
        "docs/explanation/eim.md",
        "falls to {} %. By default, it starts on one side, with {} % before any iteration and {} % at the end",
        [f"table_ways.txt: {row} 1 mean {{}}%" for row in ("EIM net", "start", "EIM")],
    ),
    *(
        Figure(
            "docs/explanation/projections.md",
            f"| {row} | {{}} | {{}} | {{}} |",
            [
                f'{FACTS}[""two modes, {case}"",""{fact}"",~,{{}}]'
                for fact in ("mean", "standard deviation", "KL(q || p)")
            ],
        )
        for row, case in (
            ("I, right mode", "I-projection, right"),
            ("I, left mode", "I-projection, left"),
            ("I, local minimum", "local minimum"),
            ("M", "M-projection"),
        )
    ),
    Figure(
        "docs/explanation/projections.md",
        "With variances 1 and 100, these are {} and {}.",
        [f'{FACTS}[""isotropic, variances 1, 100, {kind}-projection"",""variance"",~,{{}}]' for kind in "IM"],
    ),
    # docs/how_to
    Figure("docs/how_to/batches.md", "about {} µs per pose for the Panda", ["batch.txt: solve_batch, 1 thread CPU {}"]),
    Figure(
        "docs/how_to/batches.md",
        "A core solves 1e9 Panda poses in about {} minutes",
        ["scale.txt: panda solve joblib ~ ~ ~ {}"],
        lambda v: [1e9 * 1e-6 * v[0] / 60.0],
    ),
    Figure(
        "docs/how_to/torch_and_zuko.md",
        "costs less than the call",
        [],
        lambda _: all(float(ratio) < 2.0 for ratio in rows("gradients.txt", r"^\w+ +\d+ \(.* ([\d.]+)$")),
    ),
    Figure(
        "docs/how_to/paths.md",
        "Lines of {} poses take {} s for the Panda and {} s for the iiwa in the median",
        [f"lines.txt: {arm} 10 lines of {{}} poses, ~ with a path: CPU median {{}} s" for arm in ("panda", "iiwa14")],
        lambda v: [*same(v[::2]), *v[1::2]],
    ),
    Figure("docs/how_to/paths.md", "Paths of {} public problems are shorter than paths by TORM", [], shorter_paths),
    *constants(
        "docs/how_to/paths.md",
        ("for collisions every {} rad or {} m", problem.COLLISION_STEP),
        ("The default timeout is {} s", inspect.signature(Sampler.follow).parameters["timeout"].default),
    ),
    *constants(
        "docs/explanation/sampling.md",
        ("nothing new is found in {} seeds", MAX_SEEDS_WITHOUT_GAIN),
        ("skip a pose after {} restarts", MAX_SEEDS_WITHOUT_GAIN),
        ("({} with `near`)", NEAR_SEEDS),
    ),
    *constants(
        "docs/how_to/planar_robot.md",
        ("records {} demonstrations", DemoPlanar.motions),
        ("lines at {} places", DemoPlanar.places),
    ),
    *constants("docs/how_to/rank_solutions.md", ("the best of {} optimised solutions", N_NEAR)),
    *constants("docs/how_to/rank_solutions.md", ("default spreads {} or more solutions", FEWEST_TO_DIVERSIFY)),
    Figure(
        "docs/how_to/record.md",
        "at most the last {} s is missing ([{} trials])",
        ["recording.txt: missing at the end: longest {} s", "recording.txt: killed {} times"],
    ),
    *constants(
        "docs/how_to/use_a_model.md",
        ("axes, by up to {} mm", 1000.0 * LENGTH_TOLERANCE),
        ("mm and {} rad | Accepted", ANGLE_TOLERANCE),
    ),
    Figure(
        "docs/how_to/train_a_model.md",
        "Draws of these models [converge more often] than uniform seeds",
        [
            f"model_seeds.txt: {model}: >> {row} {{}}%"
            for model in ("panda_pose", "iiwa14_pose")
            for row in ("uniform", "model")
        ],
        lambda v: v[0] < v[1] and v[2] < v[3],
    ),
    *(
        Figure(
            "docs/reference/moveit.md",
            f"| {label} | {{}}, {{}} | {{}}, {{}} |",
            [
                f"move_group.txt: {arm} with {plugin} >> {row} {{}}"
                for arm in ("UR5e", "Panda")
                for plugin in ("eim_ros", "KDL")
            ],
        )
        for label, row in (
            ("`setFromIK`, 200 poses", "random seed solved"),
            ("`setFromIK` without collisions", "callback solved"),
            ("880 and 440 special poses", "special poses solved"),
            ("`computeCartesianPath` without collisions", "paths with callback complete"),
            ("`/compute_ik`, 100 poses", "compute_ik solved"),
        )
    ),
]
NOT_MEASURED = {  # reason: words that contain the numbers
    "version or name": [
        *("Python 3.10 to 3.13", "iiwa 14", "moveit2 issue 3633"),
        *("MoveIt 2.10", "MoveIt 2.14.3"),
        *("rclcpp 29.3", "`moveit_msgs` 2.6"),
    ],
    "chapter, figure or equation of the thesis": [
        "`adversarial` | 6.1 |",
        "`robustness` | 6.2 |",
        "`line-reaching` | 6.3 |",
        "`kinematics` | 6.4 |",
        "`traffic` | 6.5 |",
        "`nonlinear` | 6.6 |",
        "`obstacle` | figure 1.1 |",
        "`projections` | figure 2.1 |",
        "the bound (3.3)",
    ],
    "rule for contributors": [
        "takes more than 30 s belongs in the list",
        "has at most 60 characters",
        "in at most 60 lines",
    ],
    "what was measured, next to its figures": [
        '"Many" means 200 solutions of eim_ros, all curves of ssik, and 50 calls of other solvers.',
        "the share of all solutions within 0.3 rad",
        "With ten components in 20 dimensions",
    ],
    "what a picture shows": ["![100 configurations of an iiwa", "steps of at most 0.5 nat]"],
    "what an example does": ["32 grasps between walls"],
    "mathematics": [
        "half of the probability is missing",
        "64 equivalents of each of its eight solutions",  # two revolutions of six joints
        "Seven revolute joints have at most 16 of them",
        "reaches a pose in up to 16 configurations",
    ],
    "tolerance or limit in the code": [
        "the description of the arm to 4e-15",
        "a cell of 1e-12 rad",
        "roots are closer than 1e-10 rad",
        "within 4e-15 of the given pose",
        "have an error of 5e-5 rad",
        "draws is four times the requested number",
        "If it is below half of `n`",
        "the same 2 cm cube",  # the resolution in the same row
        "published at 200 Hz",
        "end a node within 2 s",
        "have `expert` 4294967295",
        "all failures except 70",
        "up to 100 solutions, nearest first",
    ],
    "explains the code of the tutorial": [
        "differ by at most 0.3 rad in each joint",
        "an elbow angle of -2 rad",
        "reaches the pose within 1e-6 m",
        "collects 10,000 pairs",
        "a model with 50 experts",
        "with 20 motions for each way",
        "at 0.9 ± 0.1 rad halfway",
    ],
}
