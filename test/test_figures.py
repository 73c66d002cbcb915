"""Each figure in README.md, CONTRIBUTING.md and docs is read from a committed result, or named as something else.

After you repeat a benchmark, run this file: each failure prints a passage and its figures according to today's results.
A new number in a document needs an entry in FIGURES, which says where the number comes from. A number that was not
measured, such as a definition, needs one in NOT_MEASURED. A figure that no file contains does not belong in a document.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from eim_ros.cli.demo_planar import DemoPlanar
from eim_ros.ik import Completeness, Sampler, problem
from eim_ros.ik.sampler import N_NEAR
from eim_ros.ik.strategies.restarts import FEWEST_TO_DIVERSIFY
from eim_ros.kinematics.matching import ANGLE_TOLERANCE, LENGTH_TOLERANCE
from scripts import prose

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"
ELSEWHERE = {
    "docs/report/index.md",  # generated; test/studies/test_report.py compares it with the tables
    "docs/reference/notation.md",  # numbers of equations and chapters
}
PAGES = sorted(
    {"README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))} - ELSEWHERE
)

NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
WORD = rf"\b(?:{'|'.join(WORDS)})\b"
UNIT = r"(?:%|[mµun]?s|min|minutes?|seconds?|hours?|[cmk]?m|rad|nat|degrees?|k?Hz|[kMG]i?B|k|times)(?![\w/])"
FIGURE = re.compile(  # with a unit, a point, an exponent or several digits; words only in ratios and shares
    rf"(?<![\w.^_-])(?:{NUMBER}(?= ?{UNIT})|\d+\.\d+(?:e-?\d+)?|\d+e-?\d+|\d[\d,]*\d)(?![\w-])"
    rf"|{WORD}(?= times| of (?:{WORD}|\d))|\b(?:half|third|quarter|fifth|tenth)(?= of )"
)
CITED = re.compile(r"(?:[A-Z][\w.]+,?|al\.|\() ?(?:19|20)\d\d\b")  # Burdick 1989, Becker et al. (2020)


class Figure(NamedTuple):
    """A passage of a document with a `{}` for each figure, and the rows of the results that it comes from.

    A source is "FILE: ROW" or "FILE: HEADING >> ROW". ROW is the beginning of a row, with a `{}` for each value, a `~`
    for each other word, and `...` for any words. It must be the only such row, or the first one after HEADING. `derive`
    computes the figures from the values. A passage without `{}` is a statement, and `derive` returns if it is true.
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
    start = None
    if heading:
        start = re.search(rf"^[ |]*{pattern(heading, NUMBER)}", text, re.MULTILINE)
        assert start, f"{file} has no row that starts with {heading!r}"
        text = text[start.end() :]
    found = list(re.finditer(rf"^ *{pattern(row, NUMBER)}(?![\w.])", text, re.MULTILINE))
    assert found, f"{file} has no row {template!r}"
    assert heading or len(found) == 1, f"{file} has several rows {template!r}"
    return [number(shown) for match in (start, found[0]) if match for shown in match.groups()]


def number(text: str) -> float:
    return float(WORDS[text] if text in WORDS else text.replace(",", ""))


def prose_of(page: str) -> str:
    """Return a page as one line, without blocks of code, comments, and the targets of links."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(
        r"^(```|~~~).*?^\1|<!--.*?-->|\]\(.*?\)|\*\*", lambda m: "]" * m[0].startswith("]"), text, flags=re.S | re.M
    )
    return re.sub(r"\s+", " ", text)


def places(figure: Figure, text: str) -> re.Match[str]:
    """Find the passage of a figure in the text of its page."""
    found = list(re.finditer(pattern(figure.passage, f"{NUMBER}|{WORD}"), text))
    assert len(found) == 1, f"{figure.page} contains {len(found)} passages {figure.passage!r}"
    return found[0]


def agrees(shown: str, value: float, *, share: bool = False) -> bool:
    """Return whether a number is a value rounded to the digits shown. 0 % and 100 % must be exact."""
    if share and number(shown) in (0.0, 100.0) and value != number(shown):
        return False
    half = 0.5 * 10.0 ** -len(shown.partition(".")[2])
    return abs(number(shown) - value) <= half * (1.0 + 1e-9)  # a 5 after the last digit may be rounded either way


def unlisted(text: str, listed: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield each figure of a text outside of the listed spans, of code and of equations, with the words around it."""
    hidden = [*listed, *(match.span() for match in re.finditer(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", text))]
    hidden += [match.span() for match in CITED.finditer(text)]
    for match in FIGURE.finditer(text):
        if not any(start <= match.start() and match.end() <= end for start, end in hidden):
            yield f"{match.group()!r} in ... {text[max(0, match.start() - 40) : match.end() + 30]} ..."


def ends(found: list[float]) -> tuple[float, float]:
    return min(found), max(found)


def same(found: list[float]) -> list[float]:
    """Return the value that all rows have in common."""
    assert len(set(found)) == 1, f"the rows differ: {found}"
    return found[:1]


def constants(page: str, *passages: tuple[str, float]) -> list[Figure]:
    """Return figures that are settings in the code."""

    def figure(passage: str, value: float) -> Figure:
        return Figure(page, passage, (), lambda _: passage.count("{}") * [value])

    return [figure(passage, value) for passage, value in passages]


def rows(file: str, row: str) -> list[tuple[str, ...]]:
    """Return the groups of all rows that match a regular expression."""
    found = re.findall(row, (RESULTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) > 1, file
    return found


def shorter_paths(_: list[float]) -> list[float]:
    """Count the problems whose paths are shorter than TORM's for each seed."""
    found = rows("path_problems.txt", r"^(\w+) +\d+ +\d +([\d.]+) / \S+ +([\d.]+) / .* valid$")
    longer = {name for name, ours, theirs in found if float(ours) >= float(theirs)}
    return [len({name for name, *_ in found} - longer)]


def largest_gap(_: list[float]) -> list[float]:
    """Return the second largest gap of a target's evidence with the default settings [nat]."""
    text = (RESULTS / "posteriors.txt").read_text(encoding="utf-8").partition("\nbefore components were split")[0]
    found = re.findall(r"^ *(\S+) .* (?:converged|max_iterations) +\S+ +\d+ +(\S+)", text, re.MULTILINE)
    gaps = {name: max(float(gap) for other, gap in found if other == name) for name, _ in found}
    return sorted(gaps.values())[-2:-1]


SSIK = r"^(?!UR5).* (\d+\.\d) +(\d+) +(\d+)/\d+ \((\d+)\) +\d+ +-$"  # us, roots that we lack, on the grid, claimed


def times_of_ssik(_: list[float]) -> tuple[float, float]:
    return ends([float(time) for time, *_ in rows("general_6r.txt", SSIK)])


def only_special_roots_are_lost(_: list[float]) -> bool:
    found = [(int(lost), int(special), int(claimed)) for _, lost, special, claimed in rows("general_6r.txt", SSIK)]
    return all(not lost and not claimed for lost, _, claimed in found) and any(special for _, special, _ in found)


def many(arm: str, way: str, columns: str) -> str:
    return f"ik_peers.txt: {arm}, ~ joints >> {way} {columns}"


def ratio(target: str, estimator: str, columns: str = "{}") -> str:
    return f"density_ratio.txt: {target} KL mean >> {estimator} {columns}"


OF_SEVEN = ("panda", "iiwa14", "fetch")  # arms with seven joints that the solvers are compared on
CLOSED, ELIMINATED = ("panda", "iiwa14", "xarm7", "fetch"), ("gen3", "sawyer", *(f"random, {i}" for i in range(20)))
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
    Figure("README.md", "200 verified solutions of a Panda in [{} ms]", [many("panda", DEFAULT_200, "{}")]),
    Figure(
        "README.md",
        "no wrong claim of completeness at [{} random poses]",
        TRUE_SETS,
        lambda v: [sum(v[::2]) if not any(v[1::2]) else 0.0],
    ),
    Figure("README.md", "exact densities, tested on [{} poses]", ["distribution.txt: ...solutions, {} poses"]),
    Figure("README.md", "100 solutions per request in [{} ms]", ["service_latency.txt: n = 100 {}"]),
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
        "For one solution of a UR5, EAIK and ssik are [faster] than this call.",
        [f"ik_peers.txt: ur5, ~ joints >> {name} ~ {{}}" for name in ("eim_ros, default call", "EAIK", "ssik")],
        lambda v: v[0] > max(v[1:]),
    ),
    # CONTRIBUTING.md
    *constants(
        "CONTRIBUTING.md",
        ("It fails if more than {} % of the sentences", 100.0 * prose.MAX_MATCHING),
        ("or if more than {} % have over", 100.0 * prose.MAX_LONG),
        ("have over {} words", prose.MAX_WORDS),
    ),
    # docs/benchmarks
    Figure("docs/benchmarks/coverage.md", "{} poses per arm were solved", TRUE_SETS, lambda v: same(v[::2])),
    Figure(
        "docs/benchmarks/coverage.md",
        "All components were found; no claim was wrong.",
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
            f"| {row} | {' | '.join(5 * ['{}'])} |",
            [ratio(target, name, columns) for name in ("EM", "EM of 8", "plug-in", "residual", "network")],
        )
        for row, target, columns in (
            ("mixture of 2 in 2 d, 2", "mixture (2, 2)", "{}"),
            ("mixture of 10 in 10 d, 10", "mixture (10, 10)", "{}"),
            ("mixture of 10 in 20 d, 10", "mixture (20, 10)", "{}"),
            ("two modes, 1", "two modes, 1 component", "{}"),
            ("ring, 5", "ring, 5 components", "{}"),
            ("curve in 5 d, 5", "curve in 5 d, 5 components", "{}"),
            ("arm of 10 joints that reaches a line, 5", "arm of 10 joints, 5 components", "{}"),
            ("the same, with the tip as a feature, 5", "the same, tip as a feature", "{}"),
            ("CPU s per iteration, mixture in 10 d", "mixture (10, 10)", "~ ~ {}"),
        )
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "On eight data sets, EM's likelihood equals scikit-learn's, faster",
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
        "With 200 components truncated EM is {} times as fast as EM, with 1000 components {} times",
        [f"em_steps.txt: K = {n} >> {row}" for n in (200, 1000) for row in ("full {}", "truncated, partial {}")],
        lambda v: [v[0] / v[1], v[2] / v[3]],
    ),
    Figure(
        "docs/benchmarks/learners.md",
        "finds ten of ten modes in {} of {} runs",
        ["posteriors.txt: gmm20: all ten modes in {} of {} runs"],
    ),
    Figure("docs/benchmarks/learners.md", "Its evidence is within {} nat except for one target", [], largest_gap),
    Figure(
        "docs/benchmarks/learners.md",
        "smooth deviations of {} rad: the area under the ROC curve is {}",
        ["motion_scores.txt: bump 0.1 ~ {} ~ {}", "motion_scores.txt: average ~ {} ~ {}"],
        lambda v: [0.1, min(v)],
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "`Robot.solve` is the fastest call that solves every pose; on the UR5, EAIK is faster.",
        [  # bold in the table
            f"ik_peers.txt: | eim_ros, Robot.solve{2 * ' | **~ ~ / ~'} | 1~ ~ / ~{3 * ' | **~ ~ / ~'} |",
            "ik_peers.txt: | EAIK | - | - | **100, ~ / ~ |",
        ],
        lambda _: True,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "adds constraints and preferences, and takes {} to {} ms",
        [f"ik_peers.txt: | eim_ros, default call{6 * ' | ~ {} / ~'} |"],
        ends,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "200 solutions of a seven-joint arm cover its self-motion components in {} to {} ms",
        [many(arm, DEFAULT_200, "{} ~ 100.0") for arm in OF_SEVEN],
        ends,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "50 are sometimes too few",
        [many(arm, "eim_ros, default call, 50 solutions", "~ ~ {}") for arm in OF_SEVEN],
        lambda v: min(v) < 100.0,
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "This takes {} to {} times as long.",
        [many(arm, way, "{}") for way in (COMPLETE, DEFAULT_200) for arm in OF_SEVEN],
        lambda v: ends([v[i] / v[i + 3] for i in range(3)]),
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "{} of {} poses of Fetch's arm remain open",
        ["ik_peers.txt: fetch, ~ joints >> many solutions of {} poses", many("fetch", COMPLETE, "~ ~ ~ ~ {} %")],
        lambda v: [v[0] * (1.0 - v[1] / 100.0), v[0]],
    ),
    Figure(
        "docs/benchmarks/solvers.md",
        "finds all solutions of a UR5 in {} µs, `solve_all` in {} µs",
        [f"general_6r.txt: UR5 {13 * '~ '}{{}} - {{}}"],
        lambda v: v[::-1],
    ),
    Figure("docs/benchmarks/solvers.md", "ssik takes {} to {} µs", [], times_of_ssik),
    Figure(
        "docs/benchmarks/solvers.md",
        "For random poses, ssik finds no root that we lack. For singular configurations it finds a few, "
        "but no such answer claims completeness",
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
        ("to which fewer than one restart in {} leads", 1.0 / Completeness().missed_share),
    ),
    Figure(
        "docs/explanation/completeness.md",
        "In a [benchmark] of {} poses per arm, no claim was wrong",
        TRUE_SETS,
        lambda v: same(v[::2]) if not any(v[1::2]) else [0.0],
    ),
    Figure(
        "docs/explanation/completeness.md",
        "all tested poses of Sawyer and {} % for random arms, but {} % for Gen3",
        [f"seven_joints.txt: {arm} elimination ~ ~ {{}}%" for arm in ELIMINATED],
        lambda v: [sum(v[2:]) / len(v[2:]) if v[1] == 100.0 else 0.0, v[0]],
    ),
    Figure(
        "docs/explanation/density_ratios.md",
        "falls from {} to {} nat",
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
        "With variances 1 and 100 these are {} and {}.",
        [f'{FACTS}[""isotropic, variances 1, 100, {kind}-projection"",""variance"",~,{{}}]' for kind in "IM"],
    ),
    Figure("docs/explanation/random_draws.md", "over {} poses are in", ["distribution.txt: ...solutions, {} poses"]),
    # docs/how_to
    Figure(
        "docs/how_to/batches.md", "about {} µs per pose for the Panda", ["batch.txt: sample_batch, 1 thread CPU {}"]
    ),
    Figure(
        "docs/how_to/paths.md",
        "Lines of {} poses take {} s for the Panda and {} s for the iiwa in the median",
        [f"lines.txt: {arm} 10 lines of {{}} poses, ~ with a path: CPU median {{}} s" for arm in ("panda", "iiwa14")],
        lambda v: [*same(v[::2]), *v[1::2]],
    ),
    Figure("docs/how_to/paths.md", "Paths of {} public problems are shorter than TORM's", [], shorter_paths),
    *constants(
        "docs/how_to/paths.md",
        ("for collisions every {} rad or {} m", problem.COLLISION_STEP),
        ("The default timeout is {} s", inspect.signature(Sampler.follow).parameters["timeout"].default),
    ),
    *constants(
        "docs/how_to/planar_robot.md",
        ("records {} demonstrations", DemoPlanar.motions),
        ("lines at {} places", DemoPlanar.places),
    ),
    *constants("docs/how_to/rank_solutions.md", ("the best of {} optimised solutions", N_NEAR)),
    *constants("docs/how_to/rank_solutions.md", ("{} or more are spread by default", FEWEST_TO_DIVERSIFY)),
    Figure(
        "docs/how_to/record.md",
        "in [{} trials], at most the last {} s was missing",
        ["recording.txt: killed {} times", "recording.txt: missing at the end: longest {} s"],
    ),
    *constants(
        "docs/how_to/use_a_model.md",
        ("axes, by up to {} mm", 1000.0 * LENGTH_TOLERANCE),
        ("mm and {} rad | Accepted", ANGLE_TOLERANCE),
    ),
    Figure(
        "docs/how_to/train_a_model.md",
        "Draws of these models are [better seeds] than uniform ones.",
        [
            f"model_seeds.txt: {model}: >> {row} {{}}%"
            for model in ("panda_pose", "iiwa14_pose")
            for row in ("uniform", "model")
        ],
        lambda v: v[0] < v[1] and v[2] < v[3],
    ),
]
NOT_MEASURED = {  # reason: words that contain the numbers
    "version or name": ["Python 3.10 to 3.13", "MoveIt 2.10", "iiwa 14", "moveit2 issue 3633"],
    "chapter, figure or equation of the thesis": [
        *(f"| 6.{chapter} |" for chapter in range(1, 7)),
        "figure 1.1",
        "figure 2.1",
        "the bound (3.3)",
    ],
    "rule for contributors": ["takes more than 30 s belongs in the list", "has at most 60 characters"],
    "what was measured, next to its figures": [
        "Many: 200 solutions of eim_ros, all charts of ssik, 50 calls of the others.",
        "the share of all solutions within 0.3 rad",
        "With ten components in 20 dimensions",
    ],
    "what a picture shows": ["![100 configurations of an iiwa", "steps of at most 0.5 nat]"],
    "mathematics": [
        "half of the probability is missing",
        "with degree 12 and 8",
        "64 equivalents of each of its eight solutions",  # two revolutions of six joints
        "Seven revolute joints have at most 16 of them",
        "reaches a pose in up to 16 configurations",
    ],
    "tolerance or limit in the code": [
        "the description of the arm to 4e-15",
        "cells of 1e-12 rad",
        "roots closer than 1e-10 rad",
        "within 4e-15 of the given one",
        "with an error of 5e-5 rad",
        "until it is four times the requested number",
        "if it is below half of `n`",
        "the same 2 cm cube",  # the resolution in the same row
        "published at 200 Hz",
        "`expert` is 4294967295",
        "Each failure except 70",
        "up to 100 solutions, nearest first",
    ],
    "explains the code of the tutorial": [
        "differ by at most 0.3 rad in each joint",
        "closest to -2 rad",
        "reaches the pose to 1e-6 m",
        "collects 10,000 pairs",
        "trains 50 experts",
        "lift an arm, 20 times each",
        "at 0.9 ± 0.1 rad halfway",
    ],
}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.page}: {figure.passage}")
def test_figure_is_the_one_of_the_results(figure):
    match = places(figure, prose_of(figure.page))
    found = figure.derive([value for source in figure.sources for value in values(source)])
    if not match.groups():
        assert found is True, f"{figure.page}: the results contradict {figure.passage!r}"
        return
    assert not isinstance(found, bool) and len(found) == len(match.groups())
    shares = [match.string.startswith((" %", "%"), match.end(i)) for i in range(1, len(found) + 1)]
    right = [
        agrees(shown, value, share=share) for shown, value, share in zip(match.groups(), found, shares, strict=True)
    ]
    assert all(right), (
        f"{figure.page}: {match.group()!r}, but the results have {', '.join(f'{value:g}' for value in found)}"
    )


@pytest.mark.parametrize("page", PAGES)
def test_each_number_of_the_page_has_a_source(page):
    text = prose_of(page)
    listed = [places(figure, text).span() for figure in FIGURES if figure.page == page]
    listed += [
        place.span()
        for words in NOT_MEASURED.values()
        for word in words
        for place in re.finditer(re.escape(word), text)
    ]
    assert list(unlisted(text, listed)) == []


def test_exceptions_occur():
    texts = [prose_of(page) for page in PAGES]
    assert [word for words in NOT_MEASURED.values() for word in words if not any(word in text for text in texts)] == []


def test_number_must_be_the_rounded_value():
    assert agrees("0.98", 0.982)
    assert agrees("2,000", 2000.0)
    assert agrees("ten", 10.0)
    assert not agrees("0.8", 0.982)
    assert not agrees("2000", 3000.0)
    assert not agrees("0.98", float("nan"))


def test_hundred_percent_must_be_exact():
    assert agrees("100", 100.0, share=True)
    assert not agrees("100", 99.8, share=True)
    assert not agrees("0", 0.1, share=True)
    assert agrees("100", 99.8)


def test_unlisted_numbers_of_each_kind_are_found():
    text = "It takes 5 ms at 2000 poses, 0.3 more, ten times as long, 1e-6, and half of 7 % fail."
    assert [found.split("'")[1] for found in unlisted(text, [])] == ["5", "2000", "0.3", "ten", "1e-6", "half", "7"]
    assert list(unlisted(text, [(0, len(text))])) == []


def test_names_code_equations_and_citations_are_no_figures():
    text = "ROS 2 on x86-64, float64, `n=100`, $x^{20}$, three arms, joint 7, Burdick 1989, Becker et al. (2020)."
    assert list(unlisted(text, [])) == []


def test_row_of_results_is_found_below_its_heading(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "RESULTS", tmp_path)
    (tmp_path / "a.txt").write_text("arm 1\n  call, 5 seeds  0.5  9\n  call  1.5  8\narm 2\n  call  2.5e-3  7\n")
    assert values("a.txt: arm 2 >> call {} {}") == [0.0025, 7.0]
    assert values("a.txt: arm {} >> call ~ {}") == [1.0, 8.0]
    assert values("a.txt: call, {} seeds") == [5.0]
    with pytest.raises(AssertionError, match="several rows"):
        values("a.txt: call {}")
    with pytest.raises(AssertionError, match="no row"):
        values("a.txt: arm 2 >> call, 5 seeds {}")
