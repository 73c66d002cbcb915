# The Python package is installed over the generated package of the interfaces, which has the same name. Its __init__.py
# replaces the generated __init__.py.

install(DIRECTORY eim_ros/ DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}
  PATTERN "__pycache__" EXCLUDE
  PATTERN "*.pyc" EXCLUDE
  PATTERN "*.so" EXCLUDE # modules of an editable install
  PATTERN "*.cpp" EXCLUDE
  PATTERN "*.h" EXCLUDE
  PATTERN "*.hpp" EXCLUDE
  PATTERN "*.cu" EXCLUDE
  REGEX "/solver/[a-z_]+$" EXCLUDE) # folders that contain only headers
# sources that NVIDIA's compiler compiles on the user's machine
foreach(folder ik/device solver/chain solver/closed_form solver/numerics)
  install(DIRECTORY eim_ros/${folder}/ DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/${folder}
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cu")
endforeach()
install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" -m compileall -q
  \"\$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${PYTHON_INSTALL_DIR}/${PROJECT_NAME}\")")
