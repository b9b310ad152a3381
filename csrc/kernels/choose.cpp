#include <cstring>

#include "kernels.h"

namespace cutaway {

const Kernels* choose_kernels(const char* name) {
    struct Candidate {
        const char* name;
        bool runs;
        const Kernels* (*get)();
    };
    const Candidate candidates[] = {
#if defined(CUTAWAY_X86)
        {"avx512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"), kernels_avx512},
        {"avxvnni", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avxvnni"), kernels_avxvnni},
        {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), kernels_avx2},
#endif
        {"plain", true, kernels_plain},
    };
    for (const auto& c : candidates)
        if (c.runs && (*name == 0 || std::strcmp(name, c.name) == 0)) return c.get();
    return nullptr;
}

}  // namespace cutaway
