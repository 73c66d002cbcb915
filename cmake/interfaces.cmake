# Messages, services and actions: `from eim_ros.srv import SampleIK` in Python, eim_ros/srv/sample_ik.hpp in C++.

find_package(builtin_interfaces REQUIRED)
find_package(geometry_msgs REQUIRED)
find_package(sensor_msgs REQUIRED)
find_package(shape_msgs REQUIRED)
find_package(std_msgs REQUIRED)
find_package(trajectory_msgs REQUIRED)
find_package(rosidl_default_generators REQUIRED)

# rclpy needs type supports for Python and C, for Fast DDS and for introspection. Fast DDS uses introspection to
# describe types to other processes, and warns about each type without it. Type supports for C++ take more than half of
# the compile time.
if(EIM_LEAN_INTERFACES)
  list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "cpp")
endif()

rosidl_generate_interfaces(${PROJECT_NAME}
  action/Train.action
  msg/BoundingVolume.msg
  msg/CollectorStatus.msg
  msg/Constraints.msg
  msg/ErrorCodes.msg
  msg/IKConstraints.msg
  msg/IKGuarantee.msg
  msg/IKSolutions.msg
  msg/JointConstraint.msg
  msg/OrientationConstraint.msg
  msg/PositionConstraint.msg
  msg/PositionIKRequest.msg
  msg/RecorderStatus.msg
  msg/RobotState.msg
  msg/RobotTrajectory.msg
  msg/SceneObstacles.msg
  msg/TaskStatus.msg
  msg/TipGoal.msg
  msg/ViaPoint.msg
  srv/ConditionMotion.srv
  srv/DrawIK.srv
  srv/FollowIK.srv
  srv/GetCartesianPath.srv
  srv/GetPositionIK.srv
  srv/LabelRecording.srv
  srv/LoadModel.srv
  srv/SampleIK.srv
  srv/SampleMotion.srv
  srv/SaveData.srv
  srv/ScoreMotion.srv
  srv/SetTask.srv
  srv/SolveAllIK.srv
  srv/SolveNearestIK.srv
  srv/StartRecording.srv
  DEPENDENCIES builtin_interfaces geometry_msgs sensor_msgs shape_msgs std_msgs trajectory_msgs
)

# Generated sources share most of their headers, so one compiler run for ten sources takes a fraction of ten runs. Two
# kinds of sources must be compiled one by one. Descriptions of types define names for the types inside, which would
# clash. Sources of introspection for C++ need each type before the types that contain it.
option(EIM_UNITY_INTERFACES "Compile generated sources of interfaces ten at a time" ON)
if(EIM_UNITY_INTERFACES)
  foreach(library
      rosidl_generator_c rosidl_generator_py rosidl_typesupport_c rosidl_typesupport_cpp
      rosidl_typesupport_fastrtps_c rosidl_typesupport_fastrtps_cpp
      rosidl_typesupport_introspection_c)
    set(library ${PROJECT_NAME}__${library})
    if(TARGET ${library})
      set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
      get_target_property(sources ${library} SOURCES)
      list(FILTER sources INCLUDE REGEX "__description\\.c$")
      set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endif()

# If pip installs the Python package, the generated msg/, srv/ and action/ only extend it. A generated __init__.py would
# hide the package. With generated metadata, pip would consider the files an older version and remove them.
if(EIM_INTERFACES_ONLY)
  install(CODE "
    file(GLOB surplus
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/__init__.py\"
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/__pycache__\"
      \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}-*.egg-info\")
    file(REMOVE_RECURSE \${surplus})")
endif()
