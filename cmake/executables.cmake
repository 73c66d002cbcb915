# Executables in lib/eim_ros, where `ros2 run` and launch files look for them.

# The table of executables is in setup.py, with lines such as "ik_server = eim_ros.nodes.__main__:main".
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS setup.py)
set(entry_point "\"([a-z_]+) = (eim_ros[a-z0-9_.]*):([a-z0-9_]+)\"")
file(STRINGS setup.py lines REGEX "${entry_point}")
foreach(line IN LISTS lines)
  string(REGEX MATCH "${entry_point}" _ "${line}")
  set(executable ${CMAKE_CURRENT_BINARY_DIR}/executables/${CMAKE_MATCH_1})
  file(WRITE ${executable}
    "#!${Python3_EXECUTABLE}\nimport sys\n\nfrom ${CMAKE_MATCH_2} import ${CMAKE_MATCH_3}\n\nsys.exit(${CMAKE_MATCH_3}())\n")
  file(CHMOD ${executable} PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  install(PROGRAMS ${executable} DESTINATION lib/${PROJECT_NAME})
endforeach()
