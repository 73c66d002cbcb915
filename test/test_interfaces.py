"""The interface definitions as text: messages have the columns of the schema and the codes of MoveIt."""

import re
from pathlib import Path

import pytest

from eim_ros.ik.solutions import SCHEMA

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(
    r"(?P<type>[A-Za-z0-9_/]+(\[\])?) (?P<name>[a-zA-Z_0-9]+)(=(?P<value>-?[0-9]+)| (?P<default>[a-z]+|-?[0-9]+))?"
)
REPORT = """
    uint32[] n_components; float64[] component_lengths; bool[] component_closed; bool[] component_traced;
    float64[] missed_share; float64 confidence; bool[] complete; bool[] certified"""
# values of moveit_msgs/MoveItErrorCodes; BUSY is its PREEMPTED
ERROR_CODES = {
    "SUCCESS": 1,
    "FAILURE": 99999,
    "TIMED_OUT": -6,
    "BUSY": -7,
    "GOAL_IN_COLLISION": -12,
    "INVALID_GROUP_NAME": -15,
    "INVALID_GOAL_CONSTRAINTS": -16,
    "INVALID_ROBOT_STATE": -17,
    "INVALID_LINK_NAME": -18,
    "FRAME_TRANSFORM_FAILURE": -21,
    "NO_IK_SOLUTION": -31,
}
TYPES = {"f8": "float64[]", "u4": "uint32[]", "i4": "int32[]", "?": "bool[]"}


def parts(name: str) -> list[list[str]]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [part.splitlines() for part in re.split(r"^---$", text, flags=re.MULTILINE)]


def entries(lines: list[str]) -> list[re.Match[str]]:
    matches = [FIELD.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert None not in matches
    return [match for match in matches if match]


def fields(name: str, part: int = 0) -> list[str]:
    return [f"{match['type']} {match['name']}" for match in entries(parts(name)[part]) if match["value"] is None]


def listed(promised: str) -> list[str]:
    return [" ".join(field.split()) for field in promised.split(";")]


@pytest.mark.parametrize("name", ["SampleIK", "SolveAllIK", "DrawIK"])
def test_operations_that_return_solutions_share_one_message(name):
    assert fields(f"srv/{name}.srv", 1) == ["IKSolutions solutions"]


def test_solutions_have_the_columns_of_the_schema_and_the_report():
    columns = [f"{TYPES[column.dtype]} {column.ros_name}" for column in SCHEMA if column.ros_name]
    others = ["ErrorCodes error_code", "string[] joint_names", "uint32 n", "float64 elapsed", *listed(REPORT)]
    assert sorted(fields("msg/IKSolutions.msg")) == sorted([*columns, *others])


def test_comments_of_solutions_name_the_units_of_the_schema():
    (lines,) = parts("msg/IKSolutions.msg")
    for column in SCHEMA:
        if column.ros_name and column.unit:
            comment = comment_of(lines, f"{TYPES[column.dtype]} {column.ros_name}")
            for unit in column.unit.split(", "):
                assert f"[{unit}]" in comment, column.ros_name


def test_error_codes_have_the_values_of_moveit():
    (lines,) = parts("msg/ErrorCodes.msg")
    assert {match["name"]: int(match["value"]) for match in entries(lines) if match["value"]} == ERROR_CODES


def test_expert_of_solutions_without_one_is_the_largest_number():
    (lines,) = parts("msg/IKSolutions.msg")
    assert {match["name"]: int(match["value"]) for match in entries(lines) if match["value"]} == {
        "NO_EXPERT": 2**32 - 1
    }


def comment_of(lines: list[str], field: str) -> str:
    """The comment above a field."""
    start = next(i for i, line in enumerate(lines) if line == field or line.startswith(f"{field} "))
    comment = ""
    while start and lines[start - 1].startswith("#"):
        start -= 1
        comment = f"{lines[start][2:]} {comment}"
    return comment
