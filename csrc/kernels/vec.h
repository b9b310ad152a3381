// Sixteen lanes, on every instruction set. One lane is one output row (products), one key (scores) or one input
// (norms).
//
//   F  16 floats      I  16 int32      B  64 bytes = 16 rows x 4 consecutive inputs
//
// The kernels are written once against these three types and compiled once per instruction set. Every operation is one
// IEEE operation per lane (fma is a true fused multiply-add), so all instruction sets give the same bits.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fp16.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef CUTAWAY_ISA
#error "compile through kernel_table.cpp, which names the instruction set"
#endif

namespace cutaway::CUTAWAY_ISA {

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)

struct F {
    __m512 v;
};
struct I {
    __m512i v;
};
struct B {
    __m512i v;
};

INLINE F set(float x) { return {_mm512_set1_ps(x)}; }
INLINE F load(const float* p) { return {_mm512_loadu_ps(p)}; }
INLINE void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
INLINE F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
INLINE F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
INLINE F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
INLINE F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
INLINE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
INLINE F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }  // b where either is NaN
INLINE F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }  // b where either is NaN
INLINE F abs(F a) { return {_mm512_abs_ps(a.v)}; }
INLINE F where_less(F a, F b, F yes, F no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
INLINE I iset(int x) { return {_mm512_set1_epi32(x)}; }
INLINE I iload(const int* p) { return {_mm512_loadu_si512(p)}; }
INLINE void istore(int* p, I a) { _mm512_storeu_si512(p, a.v); }
INLINE I iadd(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
INLINE I iand(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
INLINE I imax(I a, I b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int N> INLINE I ishl(I a) { return {_mm512_slli_epi32(a.v, N)}; }
template <int N> INLINE I ishr(I a) { return {_mm512_srli_epi32(a.v, N)}; }
INLINE F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
INLINE I to_int(F a) { return {_mm512_cvttps_epi32(a.v)}; }
INLINE F as_float(I a) { return {_mm512_castsi512_ps(a.v)}; }
INLINE I as_int(F a) { return {_mm512_castps_si512(a.v)}; }
INLINE F load_fp16(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
INLINE I load_u16(const uint16_t* p) { return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))}; }
INLINE I load_u8(const uint8_t* p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
INLINE I load_i8(const int8_t* p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
INLINE void store_i8(int8_t* p, I a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a.v)); }

INLINE B bload(const void* p) { return {_mm512_loadu_si512(p)}; }
INLINE B bset(uint8_t x) { return {_mm512_set1_epi8((char)x)}; }
INLINE B band(B a, B b) { return {_mm512_and_si512(a.v, b.v)}; }
INLINE B bor(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int N> INLINE B bshl(B a) { return {_mm512_slli_epi16(a.v, N)}; }
template <int N> INLINE B bshr(B a) { return {_mm512_srli_epi16(a.v, N)}; }
INLINE B lookup(B codes, const uint8_t* table16) {
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table16)), codes.v)};
}
INLINE I dot(I acc, B codes, int four) { return {_mm512_dpbusd_epi32(acc.v, codes.v, _mm512_set1_epi32(four))}; }
constexpr int kByteOffset = 128;
INLINE I dot_byte(I acc, B codes, int four) { return dot(acc, codes, four); }

#elif defined(__AVX2__)

struct F {
    __m256 a, b;
};
struct I {
    __m256i a, b;
};
struct B {
    __m256i a, b;
};

INLINE F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE F abs(F x) {
    const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return {_mm256_and_ps(x.a, m), _mm256_and_ps(x.b, m)};
}
INLINE F where_less(F x, F y, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
INLINE I iset(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE I iload(const int* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))};
}
INLINE void istore(int* p, I x) { _mm256_storeu_si256((__m256i*)p, x.a), _mm256_storeu_si256((__m256i*)(p + 8), x.b); }
INLINE I iadd(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INLINE I iand(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INLINE I imax(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
template <int N> INLINE I ishl(I x) { return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)}; }
template <int N> INLINE I ishr(I x) { return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)}; }
INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
INLINE I to_int(F x) { return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
INLINE F as_float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INLINE I as_int(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
INLINE F load_fp16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
INLINE I load_u16(const uint16_t* p) {
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
INLINE I load_u8(const uint8_t* p) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)),
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
INLINE I load_i8(const int8_t* p) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)),
            _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
INLINE void store_i8(int8_t* p, I x) {
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}

INLINE B bload(const void* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
INLINE B bset(uint8_t x) { return {_mm256_set1_epi8((char)x), _mm256_set1_epi8((char)x)}; }
INLINE B band(B x, B y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INLINE B bor(B x, B y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
template <int N> INLINE B bshl(B x) { return {_mm256_slli_epi16(x.a, N), _mm256_slli_epi16(x.b, N)}; }
template <int N> INLINE B bshr(B x) { return {_mm256_srli_epi16(x.a, N), _mm256_srli_epi16(x.b, N)}; }
INLINE B lookup(B codes, const uint8_t* table16) {
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table16));
    return {_mm256_shuffle_epi8(t, codes.a), _mm256_shuffle_epi8(t, codes.b)};
}
#if defined(__AVXVNNI__)
INLINE I dot(I acc, B codes, int four) {
    const __m256i x = _mm256_set1_epi32(four);
    return {_mm256_dpbusd_avx_epi32(acc.a, codes.a, x), _mm256_dpbusd_avx_epi32(acc.b, codes.b, x)};
}
constexpr int kByteOffset = 128;
INLINE I dot_byte(I acc, B codes, int four) { return dot(acc, codes, four); }
#else
// Integers may be added in any order, so a compiler computes all products first, and spills them: not beyond this.
INLINE __m256i in_order(__m256i sum) {
    asm("" : "+x"(sum));
    return sum;
}
// maddubs saturates its 16-bit pair sums: safe for codes up to 6 bits (63 * 127 * 2), not for whole bytes. Those of
// small codes may be added before they are widened, which takes two instructions of the three of a dot.
#define CUTAWAY_PAIR_SUMS
struct Pairs {
    __m256i a, b;  // 16 rows, two sums of two products each
};
INLINE Pairs pair_sums(B codes, int four) {
    const __m256i x = _mm256_set1_epi32(four);
    return {_mm256_maddubs_epi16(codes.a, x), _mm256_maddubs_epi16(codes.b, x)};
}
INLINE Pairs padd(Pairs x, Pairs y) {
    return {in_order(_mm256_add_epi16(x.a, y.a)), in_order(_mm256_add_epi16(x.b, y.b))};
}
INLINE I widen(I acc, Pairs x) {
    const __m256i one = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, one)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, one))};
}
INLINE __m256i dot_pairs(__m256i acc, __m256i codes, __m256i x) {
    return in_order(_mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1))));
}
INLINE I dot(I acc, B codes, int four) {
    const __m256i x = _mm256_set1_epi32(four);
    return {dot_pairs(acc.a, codes.a, x), dot_pairs(acc.b, codes.b, x)};
}
// Bytes: back to signed, then |w| * (a with w's sign), at most 128 * 127 * 2.
constexpr int kByteOffset = 0;
INLINE I dot_byte(I acc, B codes, int four) {
    const __m256i x = _mm256_set1_epi32(four), flip = _mm256_set1_epi8((char)0x80);
    const __m256i wa = _mm256_xor_si256(codes.a, flip), wb = _mm256_xor_si256(codes.b, flip);
    return {dot_pairs(acc.a, _mm256_sign_epi8(wa, wa), _mm256_sign_epi8(x, wa)),
            dot_pairs(acc.b, _mm256_sign_epi8(wb, wb), _mm256_sign_epi8(x, wb))};
}
#endif

#else  // plain C++

struct F {
    float v[16];
};
struct I {
    int32_t v[16];
};
struct B {
    uint8_t v[64];
};

#define LANES(T, expression)                          \
    T r;                                              \
    for (int i = 0; i < 16; i++) r.v[i] = expression; \
    return r
#define BYTES(expression)                                        \
    B r;                                                         \
    for (int i = 0; i < 64; i++) r.v[i] = (uint8_t)(expression); \
    return r

INLINE F set(float x) { LANES(F, x); }
INLINE F load(const float* p) { LANES(F, p[i]); }
INLINE void store(float* p, F a) {
    for (int i = 0; i < 16; i++) p[i] = a.v[i];
}
INLINE F add(F a, F b) { LANES(F, a.v[i] + b.v[i]); }
INLINE F sub(F a, F b) { LANES(F, a.v[i] - b.v[i]); }
INLINE F mul(F a, F b) { LANES(F, a.v[i] * b.v[i]); }
INLINE F div(F a, F b) { LANES(F, a.v[i] / b.v[i]); }
INLINE F fma(F a, F b, F c) { LANES(F, std::fma(a.v[i], b.v[i], c.v[i])); }
INLINE F max(F a, F b) { LANES(F, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE F min(F a, F b) { LANES(F, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
INLINE F abs(F a) { LANES(F, std::fabs(a.v[i])); }
INLINE F where_less(F a, F b, F yes, F no) { LANES(F, a.v[i] < b.v[i] ? yes.v[i] : no.v[i]); }
INLINE I iset(int x) { LANES(I, x); }
INLINE I iload(const int* p) { LANES(I, p[i]); }
INLINE void istore(int* p, I a) {
    for (int i = 0; i < 16; i++) p[i] = a.v[i];
}
INLINE I iadd(I a, I b) { LANES(I, (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i])); }
INLINE I iand(I a, I b) { LANES(I, a.v[i] & b.v[i]); }
INLINE I imax(I a, I b) { LANES(I, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
template <int N> INLINE I ishl(I a) { LANES(I, (int32_t)((uint32_t)a.v[i] << N)); }
template <int N> INLINE I ishr(I a) { LANES(I, (int32_t)((uint32_t)a.v[i] >> N)); }
INLINE F to_float(I a) { LANES(F, (float)a.v[i]); }
INLINE I to_int(F a) { LANES(I, (int32_t)a.v[i]); }
INLINE F as_float(I a) {
    F r;
    std::memcpy(&r, &a, 64);
    return r;
}
INLINE I as_int(F a) {
    I r;
    std::memcpy(&r, &a, 64);
    return r;
}
INLINE F load_fp16(const uint16_t* p) { LANES(F, fp16_to_float(p[i])); }
INLINE I load_u16(const uint16_t* p) { LANES(I, p[i]); }
INLINE I load_u8(const uint8_t* p) { LANES(I, p[i]); }
INLINE I load_i8(const int8_t* p) { LANES(I, p[i]); }
INLINE void store_i8(int8_t* p, I a) {
    for (int i = 0; i < 16; i++) p[i] = (int8_t)a.v[i];
}

INLINE B bload(const void* p) {
    B r;
    std::memcpy(&r, p, 64);
    return r;
}
INLINE B bset(uint8_t x) { BYTES(x); }
INLINE B band(B a, B b) { BYTES(a.v[i] & b.v[i]); }
INLINE B bor(B a, B b) { BYTES(a.v[i] | b.v[i]); }
// As on the others, the shifts work on 16-bit words; what crosses a byte is masked off by the caller.
template <int N> INLINE B bshl(B a) {
    uint16_t w[32];
    std::memcpy(w, &a, 64);
    for (auto& x : w) x = (uint16_t)(x << N);
    std::memcpy(&a, w, 64);
    return a;
}
template <int N> INLINE B bshr(B a) {
    uint16_t w[32];
    std::memcpy(w, &a, 64);
    for (auto& x : w) x = (uint16_t)(x >> N);
    std::memcpy(&a, w, 64);
    return a;
}
INLINE B lookup(B codes, const uint8_t* table16) { BYTES(table16[codes.v[i] & 15]); }
INLINE I dot(I acc, B codes, int four) {
    int8_t x[4];
    std::memcpy(x, &four, 4);
    for (int r = 0; r < 16; r++)
        acc.v[r] +=
            codes.v[4 * r] * x[0] + codes.v[4 * r + 1] * x[1] + codes.v[4 * r + 2] * x[2] + codes.v[4 * r + 3] * x[3];
    return acc;
}
constexpr int kByteOffset = 128;
INLINE I dot_byte(I acc, B codes, int four) { return dot(acc, codes, four); }

#undef LANES
#undef BYTES
#endif

INLINE F zero() { return set(0.0f); }

INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

// a[0], b[0], a[1], b[1] ... to p[0 .. 31].
INLINE void store_pairs(float* p, F a, F b) {
#if defined(__AVX512F__)
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    store(p, {_mm512_permutex2var_ps(a.v, low, b.v)});
    store(p + 16, {_mm512_permutex2var_ps(a.v, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b.v)});
#else
    float x[16], y[16];
    store(x, a), store(y, b);
    for (int i = 0; i < 16; i++) p[2 * i] = x[i], p[2 * i + 1] = y[i];
#endif
}

// The first n floats of p, zeros after them: never reads past p + n.
INLINE F load_part(const float* p, int n) {
    if (n >= 16) return load(p);
    float t[16] = {};
    std::memcpy(t, p, sizeof(float) * (size_t)n);
    return load(t);
}
INLINE void store_part(float* p, F a, int n) {
    if (n >= 16) return store(p, a);
    float t[16];
    store(t, a);
    std::memcpy(p, t, sizeof(float) * (size_t)n);
}

// One fixed tree: lane i with i + 8, then + 4, + 2, + 1.
#if defined(__AVX2__)
INLINE __m256 fold(F a) {
#if defined(__AVX512F__)
    return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
#else
    return _mm256_add_ps(a.a, a.b);
#endif
}
INLINE float sum(F a) {
    const __m256 eight = fold(a);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#else
INLINE float sum(F a) {
    float t[16];
    store(t, a);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) t[i] = t[i] + t[i + half];
    return t[0];
}
#endif

// Any order will do: the same value wins. Not for NaN.
INLINE float largest(F a) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps(a.v);
#elif defined(__AVX2__)
    const __m256 eight = _mm256_max_ps(a.a, a.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
    float top = a.v[0];
    for (int i = 1; i < 16; i++) top = a.v[i] > top ? a.v[i] : top;
    return top;
#endif
}

// Sixteen registers folded to one by a tree: lane m is what all lanes of v[m] come to. Each step folds two registers
// side by side into one, so it costs three operations a register where one after the other costs eight or more.
#if defined(__AVX512F__)
template <class Fold> INLINE I fold_each(I* v, Fold fold) {
    for (int i = 0; i < 8; i++)
        v[i].v = fold(_mm512_shuffle_i32x4(v[i].v, v[i + 8].v, 0x44), _mm512_shuffle_i32x4(v[i].v, v[i + 8].v, 0xee));
    for (int i = 0; i < 4; i++)
        v[i].v = fold(_mm512_shuffle_i32x4(v[i].v, v[i + 4].v, 0x88), _mm512_shuffle_i32x4(v[i].v, v[i + 4].v, 0xdd));
    for (int i = 0; i < 2; i++)
        v[i].v = fold(_mm512_unpacklo_epi64(v[i].v, v[i + 2].v), _mm512_unpackhi_epi64(v[i].v, v[i + 2].v));
    const __m512 a = _mm512_castsi512_ps(v[0].v), b = _mm512_castsi512_ps(v[1].v);
    const __m512i all =
        fold(_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
    return {_mm512_permutexvar_epi32(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), all)};
}
INLINE I largest_each(I* v) {
    return fold_each(v, [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
}
INLINE I sum_each(I* v) {
    return fold_each(v, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
}
#else
template <class Fold> INLINE I fold_each(const I* v, Fold fold) {
    int x[16], all[16];
    for (int m = 0; m < 16; m++) {
        istore(x, v[m]);
        for (int half = 8; half; half /= 2)
            for (int i = 0; i < half; i++) x[i] = fold(x[i], x[i + half]);
        all[m] = x[0];
    }
    return iload(all);
}
INLINE I largest_each(const I* v) {
    return fold_each(v, [](int a, int b) { return a > b ? a : b; });
}
INLINE I sum_each(const I* v) {
    return fold_each(v, [](int a, int b) { return a + b; });
}
#endif

INLINE int int_at(const int8_t* p) {
    int x;
    std::memcpy(&x, p, 4);
    return x;
}

}  // namespace
