# The native solver: one source, compiled once for each instruction set; eim_ros/solver/__init__.py takes the best that
# the processor has. The same modules with the same flags as in setup.py.

if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/eim_ros/solver/binding.cpp)
  return()
endif()

set(PYBIND11_FINDPYTHON ON)
set(Python_EXECUTABLE ${Python3_EXECUTABLE})
# pip keeps pybind11's CMake files in its own folder, a distribution's package where CMake looks anyway
execute_process(COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir
  OUTPUT_VARIABLE pybind11_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_package(pybind11 REQUIRED CONFIG HINTS "${pybind11_hint}")

# eim_solver_module(NAME FLAG...) : the module eim_ros.solver.NAME
function(eim_solver_module name)
  pybind11_add_module(${name} MODULE NO_EXTRAS eim_ros/solver/binding.cpp)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE EIM_SOLVER_MODULE=${name})
  target_compile_options(${name} PRIVATE -O3 ${ARGN})
  install(TARGETS ${name} LIBRARY DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/solver)
endfunction()

eim_solver_module(_solver_baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  eim_solver_module(_solver_avx2 -mavx2 -mfma)
  eim_solver_module(_solver_avx512 -march=x86-64-v4)
endif()
