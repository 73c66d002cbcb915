# `eim_ros/KinematicsPlugin` runs the solver of eim_ros in MoveIt's process move_group. The package is built without the
# plugin if a dependency is missing, or with -DCMAKE_DISABLE_FIND_PACKAGE_moveit_core=ON.

# Link single libraries, because the target moveit_core::moveit_core exists only since MoveIt 2.15.
set(plugin_libraries
  moveit_core::moveit_kinematics_base moveit_core::moveit_robot_model moveit_core::moveit_robot_state
  pluginlib::pluginlib rclcpp::rclcpp)
set(missing "")
foreach(dependency moveit_core moveit_msgs geometry_msgs pluginlib rclcpp)
  find_package(${dependency} QUIET)
  if(NOT ${dependency}_FOUND)
    set(missing ${dependency})
    break()
  endif()
endforeach()
if(NOT missing)
  foreach(library ${plugin_libraries})
    if(NOT TARGET ${library})
      list(APPEND missing ${library})
    endif()
  endforeach()
endif()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "MoveIt plugin: skipped, ${missing} not found")
  return()
endif()
message(STATUS "MoveIt plugin: built for MoveIt ${moveit_core_VERSION}")

add_library(eim_ros_kinematics_plugin SHARED moveit_plugin/kinematics_plugin.cpp)
target_compile_features(eim_ros_kinematics_plugin PRIVATE cxx_std_20)
target_include_directories(eim_ros_kinematics_plugin PRIVATE eim_ros/solver)
target_compile_options(eim_ros_kinematics_plugin PRIVATE
  -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -Wno-psabi -Wno-ignored-attributes)
target_link_libraries(eim_ros_kinematics_plugin PRIVATE ${plugin_libraries}
  ${geometry_msgs_TARGETS} ${moveit_msgs_TARGETS})
install(TARGETS eim_ros_kinematics_plugin LIBRARY DESTINATION lib)
pluginlib_export_plugin_description_file(moveit_core moveit_plugin/plugin_description.xml)
