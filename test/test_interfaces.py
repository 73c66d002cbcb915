"""Messages have the columns and the units of the schema, and the error codes of MoveIt."""

import pytest

from eim_ros.ik import ErrorCode
from eim_ros.ik.solutions import SCHEMA
from eim_ros.msg import IKSolutions
from eim_ros.srv import DrawIK, SampleIK, SolveAllIK
from scripts.check_repository import comment_of, read

# values of moveit_msgs/MoveItErrorCodes, where BUSY is named PREEMPTED
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
TYPES = {"f8": "double", "u4": "uint32", "i4": "int32", "?": "boolean"}
OTHERS = {
    "error_code": "eim_ros/ErrorCodes",
    "joint_names": "sequence<string>",
    "n": "uint32",
    "elapsed": "double",
    "n_components": "sequence<uint32>",
    "component_lengths": "sequence<double>",
    "component_closed": "sequence<boolean>",
    "component_traced": "sequence<boolean>",
    "missed_share": "sequence<double>",
    "confidence": "double",
    "complete": "sequence<boolean>",
    "certified": "sequence<boolean>",
}  # fields of IKSolutions that are not columns of the schema


@pytest.mark.parametrize("service", [SampleIK, SolveAllIK, DrawIK])
def test_operations_that_return_solutions_share_one_message(service):
    assert service.Response.get_fields_and_field_types() == {"solutions": "eim_ros/IKSolutions"}


def test_solutions_have_the_columns_of_the_schema_and_the_report():
    columns = {column.ros_name: f"sequence<{TYPES[column.dtype]}>" for column in SCHEMA if column.ros_name}
    assert IKSolutions.get_fields_and_field_types() == {**columns, **OTHERS}


def test_comments_of_solutions_name_the_units_of_the_schema():
    lines = read("msg/IKSolutions.msg").splitlines()
    rows = {line.partition(" ")[2]: row for row, line in enumerate(lines)}
    for column in SCHEMA:
        for unit in column.unit.split(", ") if column.ros_name and column.unit else ():
            assert f"[{unit}]" in comment_of(lines, rows[column.ros_name]), column.ros_name


def test_error_codes_have_the_values_of_moveit():
    assert dict(ErrorCode.__members__) == ERROR_CODES
