"""The service definition as text: its fields are the promised ones, and each says what it means."""

import re
from pathlib import Path

import pytest

DEFINITION = Path(__file__).resolve().parents[1] / "srv/SampleIK.srv"
FIELD = re.compile(
    r"(?P<type>[A-Za-z0-9_/]+(\[\])?) (?P<name>[a-zA-Z_0-9]+)(=(?P<value>-?[0-9]+)| (?P<default>[a-z]+|-?[0-9]+))?"
)

REQUEST = """
    geometry_msgs/PoseStamped pose; uint32 n_samples; string tip_link; geometry_msgs/Pose tool;
    sensor_msgs/JointState near; string[] order;
    float64[] order_weights; int64 random_seed;
    float64 timeout; float64 position_tolerance; float64 orientation_tolerance; bool position_only; bool refine;
    bool distinct; float64[] tolerances; string[] limited_joints; float64[] lower_limits; float64[] upper_limits;
    sensor_msgs/JointState fixed_joints; bool avoid_self_collision; shape_msgs/SolidPrimitive[] obstacles;
    geometry_msgs/Pose[] obstacle_poses; sensor_msgs/JointState posture; float64[] posture_weights; float64 explore;
    SceneObstacles scene; float64 clearance; float64 confidence; float64 missed_share;
    float64 separation; string distribution; float64 temperature"""
RESPONSE = """
    int32 error_code; string message; string[] joint_names; uint32 n; float64[] positions; float64[] log_prob;
    float64[] position_error; float64[] orientation_error; bool[] valid; uint32[] expert; float64 elapsed;
    float64[] family_lengths; bool[] family_closed; bool[] family_traced; float64 missed_share; float64 confidence;
    bool whole; float64 effective_size; float64[] best_attempt"""
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


def parts() -> list[list[str]]:
    request, response = DEFINITION.read_text(encoding="utf-8").split("\n---\n")
    return [request.splitlines(), response.splitlines()]


def entries(lines: list[str]) -> list[re.Match[str]]:
    matches = [FIELD.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert None not in matches
    return [match for match in matches if match]


@pytest.mark.parametrize(("part", "promised"), [(0, REQUEST), (1, RESPONSE)], ids=["request", "response"])
def test_fields_are_the_promised_ones_in_order(part, promised):
    fields = [f"{match['type']} {match['name']}" for match in entries(parts()[part]) if match["value"] is None]
    assert fields == [" ".join(field.split()) for field in promised.split(";")]


def test_error_codes_have_the_values_of_moveit():
    constants = {match["name"]: int(match["value"]) for match in entries(parts()[1]) if match["value"]}
    assert constants == {**ERROR_CODES, "NO_EXPERT": 2**32 - 1}


def test_only_refine_distinct_and_explore_have_a_default_other_than_zero():
    defaults = {match["name"]: match["default"] for match in entries(parts()[0]) if match["default"]}
    assert defaults == {"refine": "true", "distinct": "true", "explore": "-1"}


def test_batch_asks_what_a_single_request_asks():
    """All fields of a request but its pose, with their types and defaults."""
    single, batch = (
        [line for line in path.read_text(encoding="utf-8").split("\n---\n")[0].splitlines() if line and line[0] != "#"]
        for path in (DEFINITION, DEFINITION.with_name("SampleIKBatch.srv"))
    )
    assert batch[:2] == ["std_msgs/Header header", "geometry_msgs/Pose[] poses"]
    assert batch[2:] == single[1:]


def test_each_field_and_constant_has_a_comment_above():
    for lines in parts():
        above = dict(zip(lines[1:], lines, strict=False))
        for match in entries(lines):
            assert above.get(match.group(), "").startswith("#"), match.group()


def test_each_real_number_names_its_unit():
    for lines in parts():
        for match in entries(lines):
            if match["type"].startswith("float64"):
                start = lines.index(match.group())
                comment = ""
                while lines[start - 1].startswith("#"):
                    start -= 1
                    comment = lines[start] + comment
                assert re.search(r"\[(m|rad|s|nat|1)\]", comment), match.group()
