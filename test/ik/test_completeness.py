"""Claims of completeness are made in one place, from evidence."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import eim_ros
from eim_ros.ik import Completeness
from eim_ros.ik.completeness import Evidence, grant

PACKAGE = Path(eim_ros.__file__).parent
GRANTED = ("is_complete", "certified")
TRUE, FALSE = np.ones(1, np.bool_), np.zeros(1, np.bool_)


def test_no_evidence_grants_nothing() -> None:
    report = grant(Evidence())
    assert not report.is_complete and not report.certified
    assert not grant(Evidence().with_points(8)).is_complete


@pytest.mark.parametrize(
    ("evidence", "is_complete", "certified"),
    [
        (Evidence(is_exhaustive=True, is_exact=True), True, True),  # it is proven that no solution exists
        (Evidence(is_exhaustive=True), True, False),
        (Evidence(is_exact=True), False, False),  # all solutions are exact, but some may be missing
        (Evidence(np.ones(1), TRUE, TRUE, is_exhaustive=True, is_exact=True), True, True),
        (
            Evidence(np.ones(1), TRUE, FALSE, is_exhaustive=True, is_exact=True),
            False,
            False,
        ),  # one component was not traced to its ends
        (Evidence(np.ones(1), TRUE, TRUE, missed_share=1e-3), True, False),
        (Evidence(np.ones(1), TRUE, TRUE, missed_share=0.01), False, False),
        (Evidence(np.ones(1), TRUE, TRUE, True, True, is_singular=True), False, False),
    ],
)
def test_completeness_needs_all_components_from_end_to_end(
    evidence: Evidence, is_complete: bool, certified: bool
) -> None:
    report = grant(evidence)
    assert (report.is_complete, report.certified) == (is_complete, certified)


def test_a_requested_bound_decides_when_a_search_is_complete() -> None:
    evidence = Evidence(np.ones(1), TRUE, TRUE, missed_share=0.01)
    assert grant(evidence, Completeness(missed_share=0.02)).is_complete
    assert not grant(evidence, Completeness(missed_share=0.005)).is_complete


def test_reports_are_made_in_one_place_and_read_from_messages_in_another() -> None:
    """If a strategy created a report itself, the report could claim completeness without evidence."""
    trees = [
        (file.relative_to(PACKAGE).as_posix(), ast.parse(text))
        for file in PACKAGE.rglob("*.py")
        if any(word in (text := file.read_text(encoding="utf-8")) for word in ("CompletenessReport", *GRANTED))
    ]
    calls = [
        (file, node)
        for file, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    makers = [file for file, node in calls if node.func.id == "CompletenessReport"]
    assert sorted(makers) == ["ik/completeness.py", "ik/solutions.py"]
    changes = [
        file
        for file, node in calls
        if node.func.id == "replace" and any(keyword.arg in GRANTED for keyword in node.keywords)
    ]
    assert not changes
