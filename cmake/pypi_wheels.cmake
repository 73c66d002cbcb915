# ROS 2 message wheels carry the include directory of the machine that built them (/opt/python/...) in their
# exported targets, and CMake refuses to generate: "includes non-existent path in its INTERFACE_INCLUDE_DIRECTORIES".
#
# This file removes these entries at the end of the configuration, without a change of the wheels. The Python headers
# come from find_package(Python3). A ROS 2 installation has no such entries, so nothing changes for it.

function(_eim_ros_drop_foreign_include_directories)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(directories)
      list(FILTER directories EXCLUDE REGEX "^/opt/python/")
      set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${directories}")
    endif()
  endforeach()
endfunction()

cmake_language(DEFER CALL _eim_ros_drop_foreign_include_directories)
