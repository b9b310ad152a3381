// The numbers that selection works with: odds, their exp and log, and integer keys that order as logits do.
//
// A token's odds are exp((logit - max) * inverse temperature), against the best token's 1, as an integer in units of
// 2^-44: so every sum of odds is exact and none depends on the order in which it was taken: not on SIMD width, threads,
// or how far a row was sorted. No libm, and nothing here may be contracted (-ffp-contract=off). Odds below 2^-45 are 0.
// Rows are shorter than 2^19, so that sums fit.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__GNUC__) && !defined(__clang__)
// An extension built for size would run these loops ten times slower.
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif

namespace cutaway::select {

constexpr double UNIT = 17592186044416.0;  // 2^44
constexpr int64_t LONGEST_ROW = (int64_t{1} << 19) - 1;
constexpr int64_t BLOCK = 64;
constexpr int32_t KEY_INFINITY = 0x7f800000;
constexpr int32_t KEY_MINUS_INFINITY = KEY_INFINITY ^ -1;  // 0xff800000 ordered: ~0x7f800000

// Elementary functions, float64.

// exp(y) for y <= 0; at or below -40 the value of exp(-40). Cody-Waite reduction, Taylor to r^13: within 1 ulp.
inline double exp_nonpositive(double y) {
    constexpr double SHIFT = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    y = y < -40.0 ? -40.0 : y;
    double shifted = y * 1.4426950408889634 + SHIFT;
    double n = shifted - SHIFT;
    double r = (y - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return std::bit_cast<double>(std::bit_cast<uint64_t>(p) + (std::bit_cast<uint64_t>(shifted) << 52));
}

// ln(x) for normal x > 0: x = 2^e f, f in [sqrt(1/2), sqrt 2); 2 atanh((f - 1) / (f + 1)) as a series.
inline double log_positive(double x) {
    uint64_t bits = std::bit_cast<uint64_t>(x);
    int64_t e = static_cast<int64_t>(bits >> 52) - 1023;
    double f = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
    if (f > 1.4142135623730951) {
        f = f * 0.5;
        e = e + 1;
    }
    double s = (f - 1.0) / (f + 1.0), z = s * s, p = 0.0;
    for (int k = 12; k >= 1; --k) p = (p + 1.0 / (2 * k + 1)) * z;
    double ed = static_cast<double>(e);
    return ed * 0x1.62e42fee00000p-1 + (ed * 0x1.a39ef35793c76p-33 + (2.0 * s + 2.0 * s * p));
}

// v in units of 2^-44, to nearest even; 0 <= v < 256.
inline int64_t to_units(double v) {
    constexpr double SHIFT = 4503599627370496.0;  // 2^52: the integer stands in the low bits of the sum
    return static_cast<int64_t>(std::bit_cast<uint64_t>(v * UNIT + SHIFT) - std::bit_cast<uint64_t>(SHIFT));
}

// Integers that order as the floats do; -0 becomes +0 first. A NaN lies outside [-infinity, +infinity].
inline int32_t key_of(float x) {
    int32_t b = std::bit_cast<int32_t>(x + 0.0f);
    return b ^ ((b >> 31) & 0x7fffffff);
}
inline float value_of(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

// One number per token whose ascending order is (logit descending, id ascending).
inline uint64_t entry_of(int32_t key, uint32_t id) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(~key) ^ 0x80000000u) << 32) | id;
}
inline uint32_t id_of(uint64_t entry) { return static_cast<uint32_t>(entry); }
inline float logit_of(uint64_t entry) {
    return value_of(~static_cast<int32_t>(static_cast<uint32_t>(entry >> 32) ^ 0x80000000u));
}

}  // namespace cutaway::select

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
