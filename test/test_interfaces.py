"""The interface definitions as text: the services mirror the operations, and each field says what it means."""

import re
from pathlib import Path

import pytest

from eim_ros.ik.solutions import SCHEMA

ROOT = Path(__file__).resolve().parents[1]
FIELD = re.compile(
    r"(?P<type>[A-Za-z0-9_/]+(\[\])?) (?P<name>[a-zA-Z_0-9]+)(=(?P<value>-?[0-9]+)| (?P<default>[a-z]+|-?[0-9]+))?"
)
NEW = (
    "msg/ErrorCodes.msg", "msg/IKConstraints.msg", "msg/IKGuarantee.msg", "msg/IKSolutions.msg",
    "srv/SampleIK.srv", "srv/SolveAllIK.srv", "srv/DrawIK.srv", "srv/FollowIK.srv", "srv/GetCartesianPath.srv",
    "srv/SolveNearestIK.srv",
)  # fmt: skip
ALL = sorted(str(path.relative_to(ROOT)) for kind in ("msg", "srv", "action") for path in (ROOT / kind).iterdir())
POSES = "std_msgs/Header header; geometry_msgs/Pose[] poses;"
LIMITS = "int64 seed; float64 timeout; IKConstraints constraints"
ORDER = "sensor_msgs/JointState near; string[] order; float64[] order_weights;"
POSTURE = "sensor_msgs/JointState posture; float64[] posture_weights;"
PROMISED = {
    "srv/SampleIK.srv": f"{POSES} uint32 n_samples; {ORDER} {POSTURE} float64 diversity; {LIMITS}",
    "srv/SolveAllIK.srv": f"{POSES} float64 max_spacing; IKGuarantee guarantee; uint32 max_solutions; {ORDER} {LIMITS}",
    "srv/DrawIK.srv": f"{POSES} uint32 n_samples; string density; IKGuarantee guarantee; {POSTURE} "
    f"float64 temperature; {LIMITS}",
    "srv/SolveNearestIK.srv": f"{POSES} string priority; float64[] weights; {LIMITS}",
    "srv/FollowIK.srv": f"{POSES} sensor_msgs/JointState near; float64[] max_step; float64[] times; "
    f"uint32 n_candidates; {LIMITS}",
}
PATH = """
    ErrorCodes error_code; string[] joint_names; uint32 n; float64[] positions; float64[] position_error;
    float64[] orientation_error; bool[] valid; bool[] examined; float64 max_step;
    trajectory_msgs/JointTrajectory trajectory; float64 elapsed"""
CONSTRAINTS = """
    string tip_link; geometry_msgs/Pose tool; bool position_only; float64 position_tolerance;
    float64 orientation_tolerance; float64[] tolerances; string[] limited_joints; float64[] lower_limits;
    float64[] upper_limits; sensor_msgs/JointState fixed_joints; string[] branch_names;
    string[] branch_labels; bool avoid_self_collision; float64 clearance;
    string[] allowed_links; string[] allowed_others; SceneObstacles scene"""
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


@pytest.mark.parametrize("name", PROMISED)
def test_requests_have_the_promised_fields_in_order(name):
    assert fields(name) == listed(PROMISED[name])


@pytest.mark.parametrize("name", ["SampleIK", "SolveAllIK", "DrawIK"])
def test_operations_that_return_solutions_share_one_message(name):
    assert fields(f"srv/{name}.srv", 1) == ["IKSolutions solutions"]


def test_path_and_constraints_have_the_promised_fields_in_order():
    assert fields("srv/FollowIK.srv", 1) == listed(PATH)
    assert fields("msg/IKConstraints.msg") == listed(CONSTRAINTS)
    assert fields("msg/IKGuarantee.msg") == ["uint8 kind", "float64 confidence", "float64 missed_share"]


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


def test_only_diversity_has_a_default_other_than_zero():
    for name in NEW:
        defaults = {match["name"]: match["default"] for match in entries(parts(name)[0]) if match["default"]}
        assert defaults == ({"diversity": "-1"} if name == "srv/SampleIK.srv" else {})


@pytest.mark.parametrize("name", ALL)
def test_each_field_and_constant_has_a_comment_above(name):
    for lines in parts(name):
        for match in entries(lines):
            assert comment_of(lines, match.group()), match.group()


@pytest.mark.parametrize("name", NEW)
def test_each_real_number_names_its_unit_or_a_field_that_does(name):
    for lines in parts(name):
        for match in entries(lines):
            if match["type"].startswith("float64"):
                comment = comment_of(lines, match.group())
                assert re.search(r"\[(m|rad|rad, m|s|nat|1|1/m)\]|draws|Number of solutions", comment), match.group()


def comment_of(lines: list[str], field: str) -> str:
    """The comment above a field."""
    start = next(i for i, line in enumerate(lines) if line == field or line.startswith(f"{field} "))
    comment = ""
    while start and lines[start - 1].startswith("#"):
        start -= 1
        comment = f"{lines[start][2:]} {comment}"
    return comment
