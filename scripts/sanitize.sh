#!/usr/bin/env bash
# Run the solver's tests under the address and undefined-behaviour sanitizers.
#
# The sanitizers detect reads beyond arrays and integer overflow. The script builds modules for this processor in
# build/sanitized, so the normal modules do not change. The tests run with the baseline and with the best instruction
# set. Arguments are passed to pytest and replace the default tests. PYTHON selects the interpreter (default:
# .venv/bin/python). With --build, the script only compiles the modules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-.venv/bin/python}
TARGET=$PWD/build/sanitized
EIM_ROS_INSTRUCTION_SETS=$(scripts/instruction_sets.sh)
export EIM_ROS_INSTRUCTION_SETS EIM_ROS_SANITIZE=1 OMP_NUM_THREADS=1
"$PYTHON" setup.py -q build_ext --build-lib "$TARGET" --build-temp build/sanitized-objects

find eim_ros -name '*.py' -printf '%P\n' | while read -r file; do
  mkdir -p "$TARGET/eim_ros/$(dirname "$file")"
  ln -sf "$PWD/eim_ros/$file" "$TARGET/eim_ros/$file"
done

[[ ${1:-} != --build ]] || exit 0

each=() tests=("$@")
if [[ $# == 0 ]]; then
  each=(test/solver/test_{instruction_sets,templates}.py)  # these tests run each instruction set themselves
  tests=(test/solver/test_refining.py test/ik/test_{prior,selection}.py
    test/kinematics/test_{arguments,continuation,refinement,robot,self_motion,null_space_descent,tolerances}.py)
fi
# Leak detection is off, because the interpreter leaks memory. The interpreter is not sanitized, so the runtime of the
# sanitizers must be preloaded, and also the library whose exceptions this runtime intercepts.
export PYTHONPATH=$TARGET ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
runtime() { "${CXX:-g++}" -print-file-name="$1"; }
run() {
  EIM_ROS_INSTRUCTION_SET=$1 LD_PRELOAD="$(runtime libasan.so) $(runtime libstdc++.so.6)" \
    "$PYTHON" -m pytest -p no:cacheprovider "${@:2}"
}
# One job runs the tests of each instruction set. The job of the best set also runs the other tests.
job() {
  local status=0
  run "$1" "${tests[@]}" || status=$?
  [[ ${#each[@]} == 0 ]] || run "" "${each[@]}" -k "$2" || status=$?
  return "$status"
}
job "" "not baseline-" & best=$!
status=0
job baseline baseline- || status=$?
wait "$best" || status=$?
exit "$status"
