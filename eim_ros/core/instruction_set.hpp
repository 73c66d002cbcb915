// Detects the instruction sets of this processor. Modules are built for each of them, see core/native.py.
#pragma once

#include <string>

namespace eim {

inline bool runs_here([[maybe_unused]] const std::string& instruction_set) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (instruction_set == "avx2") return has_avx2;
    if (instruction_set == "avx512") {
        return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd");
    }
#endif
    return instruction_set == "baseline";
}

}  // namespace eim
