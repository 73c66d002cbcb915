# Messages, services and actions: `from eim_ros.srv import SampleIK` in Python, eim_ros/srv/sample_ik.hpp in C++.

find_package(builtin_interfaces REQUIRED)
find_package(geometry_msgs REQUIRED)
find_package(sensor_msgs REQUIRED)
find_package(shape_msgs REQUIRED)
find_package(std_msgs REQUIRED)
find_package(trajectory_msgs REQUIRED)
find_package(rosidl_default_generators REQUIRED)

# rclpy needs the Python and C type supports: Fast DDS's, and introspection, by which Fast DDS describes types to others
# (it complains about each type without). Those of C++ take more than half of the time of compiling.
if(EIM_LEAN_INTERFACES)
  list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "cpp")
endif()

rosidl_generate_interfaces(${PROJECT_NAME}
  action/Train.action
  msg/BoundingVolume.msg
  msg/CollectorStatus.msg
  msg/Constraints.msg
  msg/ErrorCodes.msg
  msg/JointConstraint.msg
  msg/OrientationConstraint.msg
  msg/PositionConstraint.msg
  msg/PositionIKRequest.msg
  msg/RecorderStatus.msg
  msg/RobotState.msg
  msg/SceneObstacles.msg
  msg/TaskStatus.msg
  msg/ViaPoint.msg
  srv/ConditionMotion.srv
  srv/GetPositionIK.srv
  srv/LabelRecording.srv
  srv/LoadModel.srv
  srv/SampleIK.srv
  srv/SampleIKBatch.srv
  srv/SampleIKPath.srv
  srv/SampleMotion.srv
  srv/SaveData.srv
  srv/ScoreMotion.srv
  srv/SetTask.srv
  srv/StartRecording.srv
  DEPENDENCIES builtin_interfaces geometry_msgs sensor_msgs shape_msgs std_msgs trajectory_msgs
)

# Generated sources share most of their headers: ten in one compiler run cost a fraction of ten runs.
if(EIM_LEAN_INTERFACES)
  foreach(library rosidl_typesupport_fastrtps_c rosidl_typesupport_introspection_c rosidl_typesupport_c rosidl_generator_py)
    set_target_properties(${PROJECT_NAME}__${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endforeach()
endif()

# Beside a Python package that pip installs, the generated msg/, srv/ and action/ are a mere part of it: with an
# __init__.py of their own they would hide it, and with metadata pip would remove them as an older version.
if(EIM_INTERFACES_ONLY)
  install(CODE "
    file(GLOB surplus
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/__init__.py\"
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/__pycache__\"
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}-*.egg-info\")
    file(REMOVE_RECURSE \${surplus})")
endif()
