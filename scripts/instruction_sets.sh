#!/usr/bin/env bash
# Print "baseline" and the best instruction set of this processor. This machine needs no compiled code for other sets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(mktemp)
trap 'rm -f "$program"' EXIT
"${CXX:-g++}" -std=c++20 -I eim_ros/core -x c++ -o "$program" - <<'SOURCE'
#include <cstdio>

#include "instruction_set.hpp"

int main() {
    std::printf("baseline");
    std::printf("%s\n", eim::runs_here("avx2") ? " avx2" : "");
}
SOURCE
"$program"
