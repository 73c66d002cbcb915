"""Call MoveIt's service `compute_ik` for one inverse kinematics solution, like a client of move_group.

    ros2 run eim_ros ik_server --ros-args -p model:=none -p robot:=panda -p groups:=panda_arm
    python examples/moveit_client.py

If `moveit_msgs` is not installed, the server offers `get_position_ik` with the same fields in a type of eim_ros.
"""

import argparse

import rclpy
from geometry_msgs.msg import PoseStamped

from eim_ros.core.errors import ServiceError
from eim_ros.nodes import SERVICE_QOS, wait_until_active

try:
    from moveit_msgs.srv import GetPositionIK

    NAME = "compute_ik"
except ImportError:
    from eim_ros.srv import GetPositionIK

    NAME = "get_position_ik"

JOINTS = [f"panda_joint{number}" for number in range(1, 8)]
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]  # [rad]
SUCCESS = 1  # as in moveit_msgs/MoveItErrorCodes

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--server", default="/ik_server")
parser.add_argument("--wait", type=float, default=5.0, help="time to wait for the server [s] (default %(default)s)")
arguments, ros_arguments = parser.parse_known_args()
rclpy.init(args=ros_arguments)
node = rclpy.create_node("moveit_client")
client = node.create_client(GetPositionIK, f"{arguments.server}/{NAME}", qos_profile=SERVICE_QOS)
try:
    wait_until_active(node, arguments.server, wait=arguments.wait)
except ServiceError as error:
    raise SystemExit(f"{error}; start it first, see --help") from None

pose = PoseStamped()
pose.header.frame_id = "panda_link0"
pose.pose.position.x, pose.pose.position.y, pose.pose.position.z = 0.4, 0.1, 0.5
pose.pose.orientation.x, pose.pose.orientation.w = 1.0, 0.0  # the hand points downward
request = GetPositionIK.Request()
request.ik_request.group_name = "panda_arm"
request.ik_request.pose_stamped = pose
request.ik_request.robot_state.joint_state.name = JOINTS  # the server returns the solution nearest to this state
request.ik_request.robot_state.joint_state.position = READY
request.ik_request.avoid_collisions = True
request.ik_request.timeout.sec = 1

future = client.call_async(request)
rclpy.spin_until_future_complete(node, future, timeout_sec=30.0)
answer = future.result()
if answer is None or answer.error_code.val != SUCCESS:
    raise SystemExit(f"no solution: {answer.error_code if answer else 'no answer'}")
print(NAME, "found", [round(value, 3) for value in answer.solution.joint_state.position])
rclpy.try_shutdown()
