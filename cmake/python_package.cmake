# The Python package, installed over the one of the same name that the interfaces have generated (its __init__.py takes
# the place of the generated one), and its executables in lib/eim_ros, where `ros2 run` and launch files look for them.

install(DIRECTORY eim_ros/ DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}
  PATTERN "__pycache__" EXCLUDE
  PATTERN "*.pyc" EXCLUDE
  PATTERN "*.so" EXCLUDE # of an editable install
  PATTERN "*.cpp" EXCLUDE
  PATTERN "*.h" EXCLUDE
  PATTERN "*.hpp" EXCLUDE)
install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" -m compileall -q
  \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}\")")

# The table of executables is setup.py's: lines such as "ik_server = eim_ros.nodes.__main__:main".
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
