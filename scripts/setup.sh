#!/usr/bin/env bash
# Create .venv with pinned requirements, ROS 2, our compiled interfaces, and eim_ros as an editable install.
#
# The script can be run again. Each step stores a hash of its inputs in .venv/stamps, and is skipped if the hash has not
# changed.
# Arguments add packages: `bench` adds libraries for comparisons in benchmarks, `fuzz` adds the fuzzer atheris, and
# `cuda` adds NVIDIA's compiler for GPUs. `view` installs only the requirements of `eim view`: no learning, ROS or
# tools, no modules for older processors, and modules with fewer optimisations. A later run without `view` adds the rest.
# PYTHON=/path/to/python selects the interpreter. If ROS 2 is sourced, the script uses it instead of the wheels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ROOT=$PWD
VENV=$ROOT/.venv
STAMPS=$VENV/stamps
SUPPORTED='(3, 10) <= sys.version_info[:2] <= (3, 13)'

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# hash FILE_OR_FOLDER... : print one hash of the names and contents of these files and of all files in these folders
hash() { find "$@" -type f -not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1; }

# Print one hash of all sources that are compiled into the package.
sources_hash() { find eim_ros -name '*.[ch]pp' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1; }

# is_done NAME HASH : return whether the step has succeeded with this hash
is_done() { [[ -f $STAMPS/$1 && $(<"$STAMPS/$1") == "$2" ]]; }

# step NAME HASH COMMAND... : run the command unless it has succeeded with this hash
step() {
  local name=$1 inputs=$2
  shift 2
  is_done "$name" "$inputs" && return
  rm -f "$STAMPS/$name"
  say "$name ..."
  "$@"
  printf '%s' "$inputs" >"$STAMPS/$name"
}

# logged LOG COMMAND... : run the command quietly, and show the end of the log if it fails
logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "'$1' failed; the complete log is $log"; }
}

# Skip byte-compilation, because it takes half of pip's time and most modules are never imported.
pip_install() { logged "$VENV/pip.log" "$VENV/bin/python" -m pip install --disable-pip-version-check --no-compile "$@"; }

# Print the interpreter for .venv. Without PYTHON=, the interpreter of an existing .venv is preferred. The path is
# resolved, because python in a venv is a link and .venv may be created again.
find_python() {
  local candidate
  for candidate in ${PYTHON:-"$VENV/bin/python" python3 python3.13 python3.12 python3.11 python3.10}; do
    if command -v "$candidate" >/dev/null && "$candidate" -c "import sys; sys.exit(not ($SUPPORTED))" 2>/dev/null; then
      "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
      return
    fi
  done
  fail "found no Python 3.10 to 3.13; install it (Debian, Ubuntu: apt install python3 python3-venv), or select one by make setup PYTHON=/path/to/python3.11"
}

check_tools() {
  command -v "${CXX:-g++}" >/dev/null || fail "found no C++ compiler, which is needed for the solver and the ROS 2 interfaces; install g++ (Debian, Ubuntu: apt install g++)"
  "$1" -c 'import venv, ensurepip' 2>/dev/null || fail "$1 has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"
}

# Print the folders of AMENT_PREFIX_PATH without .venv if they contain ROS 2. Otherwise, print nothing.
sourced_ros() {
  local prefix prefixes others=() found=
  IFS=: read -ra prefixes <<<"${AMENT_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [[ $prefix == "$VENV" ]] && continue
    others+=("$prefix")
    [[ -e $prefix/share/ament_index/resource_index/packages/rclpy ]] && found=yes
  done
  [[ -z $found ]] || (IFS=: && echo "${others[*]}")
}

make_venv() {
  local options=()
  [[ $ros == sourced ]] && options=(--system-site-packages)
  rm -rf "$VENV"
  "$python" -m venv "${options[@]}" "$VENV"
  mkdir -p "$STAMPS"
  if [[ $ros == sourced ]]; then
    local site
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp scripts/sourced_ros_site.py "$site/_sourced_ros_site.py"
    echo 'import _sourced_ros_site' >"$site/sourced_ros_site.pth"
  fi
}

install_tools() { pip_install -r requirements/build.txt; }

install_view_requirements() { pip_install -r requirements/view.txt; }

install_requirements() {
  local files=(-r requirements/view.txt -r requirements/runtime.txt -r requirements/dev.txt -r requirements/docs.txt)
  [[ $ros == wheels ]] && files+=(-r requirements/ros.txt)
  pip_install "${files[@]}"
}

install_peers() { pip_install -r requirements/bench.txt; }

install_fuzzer() {
  [[ $(uname -sm) == "Linux x86_64" ]] || command -v clang >/dev/null ||
    fail "atheris has wheels only for Linux on x86-64, and clang, which would compile it, is missing; install clang with libFuzzer (CLANG_BIN selects it)"
  pip_install -r requirements/fuzz.txt
}

install_cuda_compiler() {
  [[ $(uname -s) == Linux ]] || fail "NVIDIA's compiler has no wheels for $(uname -s); run make cuda on Linux"
  pip_install -r requirements/cuda.txt
}

# Build the type of /tf, which the wheels lack. See cmake/tf2_msgs.
build_tf2_messages() {
  local build=$VENV/build/tf2_msgs
  rm -rf "$build"
  mkdir -p "$build"
  cp -r cmake/tf2_msgs "$build/source"
  mv "$build/source/description.xml" "$build/source/package.xml" # colcon would find a package.xml in the repository
  (
    export PATH=$VENV/bin:$PATH AMENT_PREFIX_PATH=$VENV
    logged "$build/configure.log" cmake -G Ninja -S "$build/source" -B "$build/build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX="$VENV" -DCMAKE_PREFIX_PATH="$VENV" -DCMAKE_IGNORE_PREFIX_PATH="/usr;/" \
      -DCMAKE_PROJECT_INCLUDE="$ROOT/cmake/pypi_wheels.cmake" -DPython3_EXECUTABLE="$VENV/bin/python" -DBUILD_TESTING=OFF
    logged "$build/build.log" cmake --build "$build/build" --parallel "$(nproc)"
    logged "$build/install.log" cmake --install "$build/build"
  )
}

build_interfaces() {
  local build=$VENV/build/interfaces options=()
  # With the wheels, ignore packages of the system, because an ament package from Debian would take precedence.
  [[ $ros == wheels ]] && options=(-G Ninja -DEIM_LEAN_INTERFACES=ON -DCMAKE_IGNORE_PREFIX_PATH="/usr;/")
  rm -rf "$build"
  mkdir -p "$build"
  (
    export PATH=$VENV/bin:$PATH AMENT_PREFIX_PATH=$VENV${sourced_prefixes:+:$sourced_prefixes}
    logged "$build/configure.log" cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_INSTALL_PREFIX="$VENV" -DCMAKE_PREFIX_PATH="${AMENT_PREFIX_PATH//:/;}" \
      -DPython3_EXECUTABLE="$VENV/bin/python" -DBUILD_TESTING=OFF -DEIM_INTERFACES_ONLY=ON "${options[@]}"
    logged "$build/build.log" cmake --build "$build" --parallel "$(nproc)"
    logged "$build/install.log" cmake --install "$build"
  )
}

# build_modules INPUTS SETS : compile modules for the instruction sets whose inputs have changed. Each set has a stamp,
# because `view` builds only the best set.
build_modules() {
  local inputs=$1 built=$2 instruction_set outdated=()
  for instruction_set in $built; do is_done "modules_$instruction_set" "$inputs" || outdated+=("$instruction_set"); done
  [[ ${#outdated[@]} != 0 ]] || return 0
  say "modules for ${outdated[*]} ..."
  # Delete outdated modules of instruction sets that are not built now. A request for such a set would load them.
  find eim_ros -name '*.so' -regextype egrep -not -regex ".*_(${instruction_sets// /|})\..*" -delete
  for instruction_set in "${outdated[@]}"; do rm -f "$STAMPS/modules_$instruction_set"; done
  EIM_ROS_INSTRUCTION_SETS=${outdated[*]} logged "$VENV/modules.log" \
    "$VENV/bin/python" setup.py --quiet build_ext --inplace --force
  for instruction_set in "${outdated[@]}"; do printf '%s' "$inputs" >"$STAMPS/modules_$instruction_set"; done
}

# The modules already exist, so pip gets no instruction set and compiles nothing. An editable install contains no shared
# files, but ros2 launch looks for launch files in share/.
install_package() {
  local launch=$VENV/share/eim_ros/launch
  EIM_ROS_INSTRUCTION_SETS='' pip_install --no-deps --no-build-isolation --editable .
  rm -rf "$launch"
  mkdir -p "$launch"
  ln -s "$ROOT"/launch/*.launch.py "$launch"
}

python=$(find_python)
check_tools "$python"
ros=wheels
sourced_prefixes=$(sourced_ros)
if [[ -n $sourced_prefixes ]]; then
  ros=sourced
  "$python" -c 'import rclpy' 2>/dev/null ||
    fail "$python cannot import rclpy of the sourced ROS 2; select the Python of that ROS 2 (make setup PYTHON=/usr/bin/python3), or use a shell without a sourced ROS 2"
  say "uses the sourced ROS 2 ${ROS_DISTRO:-} ($sourced_prefixes) instead of the wheels"
fi

mkdir -p build
if command -v flock >/dev/null; then
  exec 9>build/.setup.lock
  flock 9
fi
identity="$VENV $ros $sourced_prefixes $("$python" -c 'import sys; print(sys.base_prefix, sys.version)')"
tools=$(hash requirements/build.txt requirements/constraints.txt)
view=$(hash requirements/view.txt requirements/constraints.txt)
requirements=$(hash requirements/{view,runtime,ros,dev,docs,constraints}.txt)
instruction_sets=$(scripts/instruction_sets.sh)
step venv "$identity" make_venv
step tools "$tools" install_tools
sources="$tools $(hash setup.py) $(sources_hash)"
built=$instruction_sets
export EIM_ROS_OPTIMISATION=-O3
if [[ ${1:-} == view ]]; then
  built=${instruction_sets##* } # the best set is the last
  is_done "modules_$built" "$sources -O3" || EIM_ROS_OPTIMISATION=-O2 # saves a quarter of the compile time
fi
build_modules "$sources $EIM_ROS_OPTIMISATION" "$built" & # in parallel with pip
modules=$!
if [[ ${1:-} == view ]]; then
  is_done requirements "$requirements" || step view "$view" install_view_requirements
else
  step requirements "$requirements" install_requirements
  [[ $ros != wheels ]] || step tf2_msgs "$requirements $(hash cmake/tf2_msgs)" build_tf2_messages
  step interfaces "$requirements $(hash CMakeLists.txt cmake package.xml setup.py msg srv action)" build_interfaces
fi
wait "$modules"
step package "$tools $(hash setup.py config launch urdf eim_ros/__init__.py)" install_package
[[ ${1:-} != bench ]] || step peers "$requirements $(hash requirements/bench.txt)" install_peers
[[ ${1:-} != fuzz ]] || step fuzzer "$requirements $(hash requirements/fuzz.txt)" install_fuzzer
[[ ${1:-} != cuda ]] || step cuda "$requirements $(hash requirements/cuda.txt)" install_cuda_compiler
