// What this machine can do at most: reading memory, and multiply-adds of each instruction set. Work with nothing to
// wait for: operands in registers, enough independent sums to fill the pipelines. One file for all sets, so that the
// limits are measured by code that the kernels' own tuning never touches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cutaway::limits {

constexpr int kSums = 12;  // independent sums: latency 4-5, two ports
constexpr size_t kBlock =
    (1 << 20) +
    4096;  // bytes of one read item; its quarters begin at different places of their pages, which reads a tenth faster

// KEEP: the compiler must take a value as used and as unknown.
#if defined(__x86_64__)
#define CUTAWAY_KEEP(x) asm volatile("" : "+v"(x))
#define CUTAWAY_FOR(set) __attribute__((target(set)))

// name(rounds): `add` of a sum `a` and the operands x and y, one after the other for every sum; operations done, so
// many each.
#define CUTAWAY_RATE(name, set, Vector, operations, one, add) \
    CUTAWAY_FOR(set) inline double name(int64_t rounds) {     \
        Vector s[kSums] = {};                                 \
        auto x = one, y = x;                                  \
        for (int64_t r = 0; r < rounds; r++)                  \
            for (auto& a : s) {                               \
                CUTAWAY_KEEP(x);                              \
                a = add;                                      \
            }                                                 \
        for (auto& a : s) CUTAWAY_KEEP(a);                    \
        return (double)(operations) * kSums * (double)rounds; \
    }
CUTAWAY_RATE(f32_512, "avx512f", __m512, 2 * 16, _mm512_set1_ps(0.5f), _mm512_fmadd_ps(a, x, y))
CUTAWAY_RATE(int8_512, "avx512f,avx512vnni", __m512i, 2 * 64, _mm512_set1_epi8(1), _mm512_dpbusd_epi32(a, x, y))
CUTAWAY_RATE(bf16_512, "avx512f,avx512bf16", __m512, 2 * 32, _mm512_set1_epi16(0x3f00),
             _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)y))
CUTAWAY_RATE(f32_256, "avx2,fma", __m256, 2 * 8, _mm256_set1_ps(0.5f), _mm256_fmadd_ps(a, x, y))
CUTAWAY_RATE(int8_vnni_256, "avx2,avxvnni", __m256i, 2 * 32, _mm256_set1_epi8(1), _mm256_dpbusd_avx_epi32(a, x, y))
// Without dot products: pairs to 16 bit, pairs of those to 32 bit, and a sum.
CUTAWAY_RATE(int8_256, "avx2", __m256i, 2 * 32, _mm256_set1_epi8(1),
             _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), _mm256_set1_epi16(1))))
#undef CUTAWAY_RATE

// Four places are read in turn, each prefetched 2 KB ahead: memory gives a fifth more to this than to one run of lines.
CUTAWAY_FOR("avx512f") inline void read_512(const uint8_t* p, size_t bytes) {
    const size_t part = bytes / 256 * 64;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < part; i += 64) {
        for (size_t k = 0; k < 4; k++) _mm_prefetch((const char*)p + k * part + i + 2048, _MM_HINT_T0);
        a = _mm512_or_si512(a, _mm512_loadu_si512(p + i)), b = _mm512_or_si512(b, _mm512_loadu_si512(p + part + i));
        c = _mm512_or_si512(c, _mm512_loadu_si512(p + 2 * part + i)),
        d = _mm512_or_si512(d, _mm512_loadu_si512(p + 3 * part + i));
    }
    CUTAWAY_KEEP(a);
    CUTAWAY_KEEP(b);
    CUTAWAY_KEEP(c);
    CUTAWAY_KEEP(d);
}

// The matrix unit: 16 x 64 bytes times 64 x 16 bytes an instruction. The tiles' shapes are put back as they were.
struct Shapes {
    uint8_t bytes[64];
};
CUTAWAY_FOR("amx-tile") inline Shapes full_tiles() {
    Shapes before{}, full{};
    _tile_storeconfig(before.bytes);
    full.bytes[0] = 1;
    for (int t = 0; t < 8; t++) full.bytes[16 + 2 * t] = 64, full.bytes[48 + t] = 16;
    asm volatile("" ::"r"(full.bytes) : "memory");  // the compiler sees only the first 8 bytes as the intrinsic's input
    _tile_loadconfig(full.bytes);
    asm volatile("" ::"r"(before.bytes) : "memory");
    return before;
}
CUTAWAY_FOR("amx-tile") inline void put_back(const Shapes& shapes) {
    _tile_release();
    asm volatile("" ::"r"(shapes.bytes) : "memory");
    if (shapes.bytes[0]) _tile_loadconfig(shapes.bytes);
}
CUTAWAY_FOR("amx-tile,amx-int8") inline double int8_amx(int64_t rounds) {
    const Shapes before = full_tiles();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbusd(0, 4, 5);
        _tile_dpbusd(1, 4, 5);
        _tile_dpbusd(2, 4, 5);
        _tile_dpbusd(3, 4, 5);
    }
    put_back(before);
    return 2.0 * 16 * 16 * 64 * 4 * (double)rounds;
}
CUTAWAY_FOR("amx-tile,amx-bf16") inline double bf16_amx(int64_t rounds) {
    const Shapes before = full_tiles();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    put_back(before);
    return 2.0 * 16 * 16 * 32 * 4 * (double)rounds;
}

CUTAWAY_FOR("avx2") inline void read_256(const uint8_t* p, size_t bytes) {
    const size_t part = bytes / 256 * 64;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < part; i += 32) {
        if (i % 64 == 0)
            for (size_t k = 0; k < 4; k++) _mm_prefetch((const char*)p + k * part + i + 2048, _MM_HINT_T0);
        const auto at = [&](size_t k)
                            CUTAWAY_FOR("avx2") { return _mm256_loadu_si256((const __m256i*)(p + k * part + i)); };
        a = _mm256_or_si256(a, at(0)), b = _mm256_or_si256(b, at(1)), c = _mm256_or_si256(c, at(2)),
        d = _mm256_or_si256(d, at(3));
    }
    CUTAWAY_KEEP(a);
    CUTAWAY_KEEP(b);
    CUTAWAY_KEEP(c);
    CUTAWAY_KEEP(d);
}
#undef CUTAWAY_KEEP
#undef CUTAWAY_FOR
#endif

inline void read_plain(const uint8_t* p, size_t bytes) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i + 64 <= bytes; i += 64)
        for (int k = 0; k < 8; k++) {
            uint64_t word;
            std::memcpy(&word, p + i + 8 * k, 8);
            sums[k] |= word;
        }
    for (auto& s : sums) asm volatile("" : "+r"(s));
}
template <class T> double multiply_plain(int64_t rounds) {
    T s[4 * kSums] = {}, x[4 * kSums], y = 1;
    for (auto& a : x) a = 1;
    for (int64_t r = 0; r < rounds; r++) {
        asm volatile("" : "+m"(x), "+r"(y));
        for (int i = 0; i < 4 * kSums; i++) s[i] += x[i] * y;
    }
    asm volatile("" : "+m"(s));
    return 2.0 * 4 * kSums * (double)rounds;
}

// The functions of an instruction set. A null one: it has no such arithmetic.
struct Limits {
    void (*read)(const uint8_t* p, size_t bytes);
    double (*int8)(int64_t rounds);  // operations done; a multiply and an add are two
    double (*bf16)(int64_t rounds);
    double (*f32)(int64_t rounds);
};

inline Limits limits_of(const char* set) {
#if defined(__x86_64__)
    const bool bf16 = __builtin_cpu_supports("avx512bf16");
    if (!std::strcmp(set, "amx")) return {read_512, int8_amx, bf16_amx, f32_512};
    if (!std::strcmp(set, "avx512")) return {read_512, int8_512, bf16 ? bf16_512 : nullptr, f32_512};
    if (!std::strcmp(set, "avxvnni")) return {read_256, int8_vnni_256, nullptr, f32_256};
    if (!std::strcmp(set, "avx2")) return {read_256, int8_256, nullptr, f32_256};
#endif
    return {read_plain, multiply_plain<int>, nullptr, multiply_plain<float>};
}

}  // namespace cutaway::limits
