# Compiled modules, with the flags of setup.py. Each module has one source, which is compiled for each instruction set
# in EIM_INSTRUCTION_SETS. At run time, eim_ros/core/native.py loads the best supported module.

include(cmake/instruction_sets.cmake)
set(options_baseline "")
set(options_avx2 -march=x86-64-v3 -mno-fma)

set(PYBIND11_FINDPYTHON ON)
set(Python_EXECUTABLE ${Python3_EXECUTABLE})
# Get the folder from Python, because CMake does not search the folder in which pip installs pybind11's CMake files.
execute_process(COMMAND ${Python3_EXECUTABLE} -m pybind11 --cmakedir
  OUTPUT_VARIABLE pybind11_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_package(pybind11 REQUIRED CONFIG HINTS "${pybind11_hint}")

# eim_compiled_module(FOLDER NAME FLAG...) : the module NAME of binding.cpp in a folder of the package
function(eim_compiled_module folder name)
  pybind11_add_module(${name} MODULE NO_EXTRAS eim_ros/${folder}/binding.cpp)
  target_include_directories(${name} PRIVATE eim_ros/solver)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE EIM_MODULE=${name})
  target_compile_options(${name} PRIVATE
    -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -Wno-psabi -Wno-ignored-attributes ${ARGN})
  install(TARGETS ${name} LIBRARY DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/${folder})
endfunction()

foreach(module solver/_solver learning/models/native/_quadratic_forms)
  get_filename_component(folder ${module} DIRECTORY)
  get_filename_component(name ${module} NAME)
  foreach(instruction_set IN LISTS instruction_sets)
    eim_compiled_module(${folder} ${name}_${instruction_set} ${options_${instruction_set}})
  endforeach()
endforeach()

# kernels for GPUs, compiled for the processor; their folder must come first (see eim_ros/ik/device/chain/chain.hpp)
eim_compiled_module(ik/device _kernels -O2)
target_include_directories(_kernels BEFORE PRIVATE eim_ros/ik/device)

# the module that detects the instruction sets of the processor
pybind11_add_module(_processor MODULE NO_EXTRAS eim_ros/core/processor.cpp)
target_compile_features(_processor PRIVATE cxx_std_20)
install(TARGETS _processor LIBRARY DESTINATION ${PYTHON_INSTALL_DIR}/${PROJECT_NAME}/core)
