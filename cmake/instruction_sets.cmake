# Set `instruction_sets` to the instruction sets for which the solver is compiled: baseline, avx2 or both.

# A package for other machines needs all sets. Builds of Debian, RPM and conda packages set environment variables.
set(default native)
if(CMAKE_CROSSCOMPILING OR DEFINED ENV{DEB_HOST_ARCH} OR DEFINED ENV{RPM_BUILD_ROOT} OR DEFINED ENV{CONDA_BUILD})
  set(default all)
endif()
set(EIM_INSTRUCTION_SETS ${default} CACHE STRING
  "Compile the solver for: native (the best of this machine), all (for packages), or a list of baseline, avx2")

set(known baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND known avx2)
endif()
if(EIM_INSTRUCTION_SETS STREQUAL "all")
  set(instruction_sets ${known})
elseif(EIM_INSTRUCTION_SETS STREQUAL "native")
  # prints "baseline" and the best set of this processor, separated by a space
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env CXX=${CMAKE_CXX_COMPILER} ${CMAKE_CURRENT_LIST_DIR}/../scripts/instruction_sets.sh
    OUTPUT_VARIABLE instruction_sets OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ".* " "" instruction_sets "${instruction_sets}")
else()
  set(instruction_sets ${EIM_INSTRUCTION_SETS})
  foreach(instruction_set IN LISTS instruction_sets)
    if(NOT instruction_set IN_LIST known)
      list(JOIN known ", " known)
      message(FATAL_ERROR
        "EIM_INSTRUCTION_SETS is '${EIM_INSTRUCTION_SETS}', expected native, all, or a list of ${known}")
    endif()
  endforeach()
endif()
message(STATUS "Solver: compiled for ${instruction_sets}")
