// Check of the instruction sets of this processor. Modules are compiled once per instruction set (see core/native.py).
#pragma once

#include <string>

namespace eim {

inline bool runs_here([[maybe_unused]] const std::string& instruction_set) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (instruction_set == "avx2") {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    }
#endif
    return instruction_set == "baseline";
}

}  // namespace eim
