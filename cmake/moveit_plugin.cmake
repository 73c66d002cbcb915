# `eim_ros/KinematicsPlugin` for MoveIt, where MoveIt is: the solver of eim_ros in the process of move_group.

find_package(moveit_core QUIET)
find_package(pluginlib QUIET)
if(NOT moveit_core_FOUND OR NOT pluginlib_FOUND)
  return()
endif()
find_package(geometry_msgs REQUIRED)
find_package(moveit_msgs REQUIRED)
find_package(rclcpp REQUIRED)

add_library(eim_ros_kinematics_plugin SHARED moveit_plugin/kinematics_plugin.cpp)
target_compile_features(eim_ros_kinematics_plugin PRIVATE cxx_std_20)
target_include_directories(eim_ros_kinematics_plugin PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
  eim_ros/numerics/include eim_ros/solver)
target_compile_options(eim_ros_kinematics_plugin PRIVATE
  -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-psabi -Wno-ignored-attributes)
target_link_libraries(eim_ros_kinematics_plugin PRIVATE moveit_core::moveit_core pluginlib::pluginlib
  rclcpp::rclcpp ${geometry_msgs_TARGETS} ${moveit_msgs_TARGETS})
install(TARGETS eim_ros_kinematics_plugin LIBRARY DESTINATION lib)
pluginlib_export_plugin_description_file(moveit_core moveit_plugin/plugin_description.xml)
