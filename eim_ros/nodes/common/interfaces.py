"""Message types of this package, tf and MoveIt.

All other modules import the types from this module, so only this module handles missing types. If the interfaces of
this package are not built, the import raises an error with instructions. The types of tf and MoveIt are None if their
packages are not installed.
"""

from __future__ import annotations

try:
    from eim_ros.action import Train
    from eim_ros.msg import (
        CollectorStatus,
        ErrorCodes,
        IKConstraints,
        IKGuarantee,
        IKSolutions,
        RecorderStatus,
        SceneObstacles,
        TaskStatus,
        TipGoal,
        ViaPoint,
    )
    from eim_ros.srv import (
        ConditionMotion,
        DrawIK,
        FollowIK,
        GetCartesianPath,
        GetPositionIK,
        LabelRecording,
        LoadModel,
        SampleIK,
        SampleMotion,
        SaveData,
        ScoreMotion,
        SetTask,
        SolveAllIK,
        SolveNearestIK,
        StartRecording,
    )
except ImportError as error:
    raise ImportError(
        "the ROS 2 interfaces of eim_ros are not built (pip does not build them): run `make setup` in the clone, "
        "or `colcon build` in its workspace, and source install/setup.bash"
    ) from error

try:
    from tf2_msgs.msg import TFMessage
except ImportError:
    TFMessage = None

try:
    from moveit_msgs.srv import GetPositionIK as MoveItGetPositionIK
except ImportError:
    MoveItGetPositionIK = None

try:
    from moveit_msgs.srv import GetCartesianPath as MoveItGetCartesianPath
except ImportError:
    MoveItGetCartesianPath = None

try:
    from moveit_msgs.msg import PlanningScene as MoveItPlanningScene
    from moveit_msgs.srv import GetPlanningScene as MoveItGetPlanningScene
except ImportError:
    MoveItPlanningScene = MoveItGetPlanningScene = None
