#include <cstring>

#if defined(CUTAWAY_X86)
#include <cpuid.h>
#endif
#if defined(CUTAWAY_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernel_table.h"

namespace cutaway {

#if defined(CUTAWAY_X86)
// AMX for int8 and bf16 in the processor, and leave from the system to use its registers.
static bool has_amx() {
#if defined(__linux__)
    unsigned a, b, c, d;
    constexpr unsigned kAmx = 1u << 22 | 1u << 24 | 1u << 25,
                       kBF16 = 1u << 5;  // AMX-BF16, AMX-TILE, AMX-INT8; AVX512-BF16
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kAmx) != kAmx || !__get_cpuid_count(7, 1, &a, &b, &c, &d) ||
        !(a & kBF16))
        return false;
    constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

// Compilers learnt the name of this feature late, so the processor itself is asked. AVX2 says that the system saves the
// registers.
static bool has_avxvnni() {
    unsigned a, b, c, d;
    constexpr unsigned kAvxVnni = 1u << 4;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & kAvxVnni);
}

static bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

const Kernels* choose_kernels(const char* name) {
    struct Candidate {
        const char* name;
        bool runs;
        const Kernels* (*get)();
    };
    const Candidate candidates[] = {
#if defined(CUTAWAY_X86)
        {"amx", has_avx512() && has_amx(), kernels_amx},
        {"avx512", has_avx512(), kernels_avx512},
        {"avxvnni", has_avxvnni(), kernels_avxvnni},
        {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), kernels_avx2},
#endif
        {"plain", true, kernels_plain},
    };
    for (const auto& c : candidates)
        if (c.runs && (*name == 0 || std::strcmp(name, c.name) == 0)) return c.get();
    return nullptr;
}

}  // namespace cutaway
