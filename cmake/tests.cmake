# `colcon test` runs pytest on the installed package: one test for each folder of test/, and one for the other files.
# To run a single test: colcon test --ctest-args -R test_kinematics

find_package(ament_cmake_test REQUIRED)

function(eim_pytest name)
  set(result ${AMENT_TEST_RESULTS_DIR}/${PROJECT_NAME}/${name}.xunit.xml)
  ament_add_test(${name}
    COMMAND ${Python3_EXECUTABLE} -m pytest ${ARGN}
      --config-file=${CMAKE_CURRENT_SOURCE_DIR}/pyproject.toml
      -o cache_dir=${CMAKE_CURRENT_BINARY_DIR}/.pytest_cache
      --junit-xml=${result} --junit-prefix=${PROJECT_NAME}
    RESULT_FILE ${result}
    ENV OMP_NUM_THREADS=1 ROS_PYTHON_CHECK_FIELDS=1
    TIMEOUT 3600) # [s], enough for a slow or busy machine
endfunction()

set(tests ${CMAKE_CURRENT_SOURCE_DIR}/test)
file(GLOB folders LIST_DIRECTORIES true RELATIVE ${tests} CONFIGURE_DEPENDS ${tests}/*)
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE files ${tests}/${folder}/test_*.py)
  if(IS_DIRECTORY ${tests}/${folder} AND files)
    eim_pytest(test_${folder} ${tests}/${folder})
  endif()
endforeach()
file(GLOB files CONFIGURE_DEPENDS ${tests}/test_*.py)
eim_pytest(test_package ${files})
