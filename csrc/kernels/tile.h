// The product: one panel (16 rows) times one tile of tokens. The same code serves one token and a prompt of thousands.
//
// For every token: acc = 0; for each group, ascending: acc = fma(float(dot), scale * a_scale, acc), then
// acc = fma(minimum, a_sum, acc) where there are minima. `dot` is an exact int32. That order is the definition; an output
// depends on nothing else, so neither the tile's height nor the batch can change a bit. A call does some groups of it and
// keeps acc in `out`, so that a stretch of activations can serve several panels while it is in the first cache.
#pragma once
#include "functions.h"
#include "layout.h"

namespace cutaway::CUTAWAY_ISA {

// Every loop over a tile's accumulators: one that stays a loop keeps them all in memory.
#if defined(__AVX2__)
#define UNROLL_TOKENS _Pragma("GCC unroll 16")
#else
#define UNROLL_TOKENS
#endif

// How far ahead memory is asked for, in bytes, by one reader and by each of two. A panel's scales lie behind its codes:
// those of a short one are asked for a whole panel ahead.
constexpr int kAhead = 8192, kPairAhead = 4096, kShortPanel = 16384;

INLINE void nibbles(const uint8_t* p, B* low, B* high) {
    const B mask = bset(15);
    for (int j = 0; j < 4; j++) {
        const B line = bload(p + 64 * j);
        low[j] = band(line, mask);
        high[j] = band(bshr<4>(line), mask);
    }
}

// Codes of a group: eight lines, quad j in q[j].
template <int C> INLINE void unpack(const uint8_t* p, const uint8_t* table, B* q) {
    if constexpr (C == kByte) {
        for (int j = 0; j < 8; j++) q[j] = bload(p + 64 * j);
        return;
    }
    nibbles(p, q, q + 4);
    if constexpr (C == kTable)
        for (int j = 0; j < 8; j++) q[j] = lookup(q[j], table);
    if constexpr (C == kFive) {
        const B h = bload(p + 256), bit = bset(16);
        q[0] = bor(q[0], band(bshl<4>(h), bit)), q[1] = bor(q[1], band(bshl<3>(h), bit));
        q[2] = bor(q[2], band(bshl<2>(h), bit)), q[3] = bor(q[3], band(bshl<1>(h), bit));
        q[4] = bor(q[4], band(h, bit)), q[5] = bor(q[5], band(bshr<1>(h), bit));
        q[6] = bor(q[6], band(bshr<2>(h), bit)), q[7] = bor(q[7], band(bshr<3>(h), bit));
    }
    if constexpr (C == kSix) {
        const B bits = bset(0x30);
        for (int half = 0; half < 2; half++) {
            const B h = bload(p + 256 + 64 * half);
            B* r = q + 4 * half;
            r[0] = bor(r[0], band(bshl<4>(h), bits)), r[1] = bor(r[1], band(bshl<2>(h), bits));
            r[2] = bor(r[2], band(h, bits)), r[3] = bor(r[3], band(bshr<2>(h), bits));
        }
    }
}

// The scales and minima of group g, for its two halves (the same where a group has one scale).
template <int S> struct GroupScales {
    static constexpr bool kHalves = S == kSuper16 || S == kSuperMin16 || S == kFloat16;
    static constexpr bool kMin = S == kHalfMin || S == kSuperMin || S == kSuperMin16;
    F scale[2], minimum[2];

    INLINE GroupScales at(const uint8_t* s, int g) {
        GroupScales r;
        const uint8_t* p = s + (size_t)(g / kScaleGroups[S]) * kScaleBytes[S];
        const int sub = g % 8;
        if constexpr (S == kHalf || S == kHalfMin) r.scale[0] = load_half((const uint16_t*)p);
        if constexpr (S == kHalfMin) r.minimum[0] = load_half((const uint16_t*)(p + 32));
        if constexpr (S == kSuperMin) {
            r.scale[0] = mul(load_half((const uint16_t*)p), to_float(load_u8(p + 64 + 32 * sub)));
            r.minimum[0] = mul(load_half((const uint16_t*)(p + 32)), to_float(load_u8(p + 80 + 32 * sub)));
        }
        if constexpr (S == kSuper16)
            for (int h = 0; h < 2; h++)
                r.scale[h] = mul(load_half((const uint16_t*)p), to_float(load_i8((const int8_t*)p + 32 + 16 * (2 * sub + h))));
        if constexpr (S == kSuperMin16)
            for (int h = 0; h < 2; h++) {
                r.scale[h] = mul(load_half((const uint16_t*)p), to_float(load_u8(p + 64 + 32 * (2 * sub + h))));
                r.minimum[h] = mul(load_half((const uint16_t*)(p + 32)), to_float(load_u8(p + 80 + 32 * (2 * sub + h))));
            }
        if constexpr (S == kFloat) r.scale[0] = load((const float*)p);
        if constexpr (S == kFloat16) r.scale[0] = load((const float*)p), r.scale[1] = load((const float*)p + 16);
        return r;
    }
};

template <int C> INLINE I dot_codes(I acc, B codes, int four) {
    if constexpr (C == kByte || C == kTable) return dot_byte(acc, codes, four);
    else return dot(acc, codes, four);
}

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }

// Where the accumulator of a token's dot starts: -offset * (sum of its codes). Bytes that this instruction set makes
// signed again have lost their 128.
template <int C, int S> INLINE I start(const int32_t* minus) {
    constexpr int offset = offset_of(C, S) - (C == kByte || C == kTable ? 128 - kByteOffset : 0);
    if constexpr (offset == 0) return iset(0);
    else return ishl<log2_of(offset)>(iset(*minus));
}

// Tokens whose dots are computed side by side: a dot is a chain of eight, and a core looks ahead no further than one or
// two. Sixteen registers hold no more than one.
#if defined(__AVX512F__)
template <int M> constexpr int kTogether = M < 4 ? 1 : 4;
#else
template <int M> constexpr int kTogether = 1;
#endif

template <int C, int S, int M> INLINE void add_group(const B* q, const GroupScales<S>& w, const ActGroup<M>* a, int m, F* acc) {
    constexpr int n = kTogether<M>;
    I d[n];
    for (int i = 0; i < n; i++) d[i] = start<C, S>(&a->minus[m + i]);
    if constexpr (M <= 2) {  // two chains, for the latency of a single token's dots
        const int8_t* x = a->codes[m];
        I e = iset(0);
        for (int j = 0; j < 4; j++) {
            d[0] = dot_codes<C>(d[0], q[j], int_at(x + 4 * j));
            e = dot_codes<C>(e, q[4 + j], int_at(x + 16 + 4 * j));
        }
        d[0] = iadd(d[0], e);
    } else {
        for (int j = 0; j < 8; j++)
            for (int i = 0; i < n; i++) d[i] = dot_codes<C>(d[i], q[j], int_at(a->codes[m + i] + 4 * j));
    }
    for (int i = 0; i < n; i++) {
        acc[m + i] = fma(to_float(d[i]), mul(w.scale[0], set(a->scale[m + i])), acc[m + i]);
        if constexpr (GroupScales<S>::kMin) acc[m + i] = fma(w.minimum[0], set(a->sum[m + i]), acc[m + i]);
    }
}

// The same for half a group, where it has a scale of its own.
template <int C, int S, int M> INLINE void add_half(const B* q, const GroupScales<S>& w, int h, const ActGroup<M>* a, int m, F* acc) {
    constexpr int n = kTogether<M>;
    I d[n];
    for (int i = 0; i < n; i++) d[i] = start<C, S>(&a->minus_half[h][m + i]);
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++) d[i] = dot_codes<C>(d[i], q[j], int_at(a->codes[m + i] + 16 * h + 4 * j));
    for (int i = 0; i < n; i++) {
        acc[m + i] = fma(to_float(d[i]), mul(w.scale[h], set(a->scale[m + i])), acc[m + i]);
        if constexpr (GroupScales<S>::kMin) acc[m + i] = fma(w.minimum[h], set((float)-a->minus_half[h][m + i] * a->scale[m + i]), acc[m + i]);
    }
}

// One group of one panel, times M tokens.
template <int C, int S, int M> INLINE void group(const uint8_t* panel, const uint8_t* scales, const uint8_t* table, int g, const ActGroup<M>* a, F* acc) {
    B q[8];
    unpack<C>(panel, table, q);
    const GroupScales<S> w = GroupScales<S>::at(scales, g);
    UNROLL_TOKENS
    for (int m = 0; m < M; m += kTogether<M>) {
        if constexpr (GroupScales<S>::kHalves) {
            for (int h = 0; h < 2; h++) add_half<C, S, M>(q + 4 * h, w, h, a, m, acc);
        } else {
            add_group<C, S, M>(q, w, a, m, acc);
        }
    }
}

// out: float [M][16]: what the groups before `from` came to.
template <int C, int S, int M>
static void tile(const uint8_t* panel, const uint8_t* scales, const uint8_t* table, int from, int to, const void* activations, float* out) {
    constexpr int kShare = kScaleBytes[S] / kScaleGroups[S];  // of the scales, per group
    const ActGroup<M>* a = (const ActGroup<M>*)activations + from;
    panel += (size_t)from * kPlaneBytes[C];
    F acc[M];
    UNROLL_TOKENS
    for (int m = 0; m < M; m++) acc[m] = from ? load(out + 16 * m) : zero();
    for (int g = from; g < to; g++, a++, panel += kPlaneBytes[C]) {
        for (int line = 0; line < kPlaneBytes[C]; line += 64) __builtin_prefetch(panel + kAhead + line, 0, 3);
        for (int line = 0; line < kShare; line += 64) __builtin_prefetch(scales + kAhead + g * kShare + line, 0, 3);
        if constexpr (M > 2)  // many tokens: the activations come from the second cache, again for every panel
            for (int line = 0; line < (int)sizeof(*a); line += 64) __builtin_prefetch((const char*)(a + 2) + line, 0, 3);
        group<C, S, M>(panel, scales, table, g, a, acc);
    }
    UNROLL_TOKENS
    for (int m = 0; m < M; m++) store(out + 16 * m, acc[m]);
}

// The same for two panels, the second `stride` bytes after the first: memory gives more to two readers than to one.
// out: float [2][kTallest][16].
template <int C, int S, int M>
static void tile_pair(const uint8_t* panel, size_t stride, const uint8_t* scales, const uint8_t* table, int from, int to, const void* activations, float* out) {
    constexpr int kShare = kScaleBytes[S] / kScaleGroups[S];
    const size_t whole = Layout{(Codes)C, (Scales)S}.panel((size_t)(scales - panel) / kPlaneBytes[C] * kGroup), ahead = whole <= kShortPanel ? whole : kPairAhead;
    const ActGroup<M>* a = (const ActGroup<M>*)activations + from;
    panel += (size_t)from * kPlaneBytes[C];
    F acc[2][M];
    for (int p = 0; p < 2; p++)
        for (int m = 0; m < M; m++) acc[p][m] = from ? load(out + 16 * (kTallest * p + m)) : zero();
    for (int g = from; g < to; g++, a++, panel += kPlaneBytes[C])
        for (int p = 0; p < 2; p++) {
            const uint8_t *codes = panel + p * stride, *s = scales + p * stride;
            for (int line = 0; line < kPlaneBytes[C]; line += 64) __builtin_prefetch(codes + kPairAhead + line, 0, 3);
            for (int line = 0; line < kShare; line += 64) __builtin_prefetch(s + ahead + g * kShare + line, 0, 3);
            group<C, S, M>(codes, s, table, g, a, acc[p]);
        }
    for (int p = 0; p < 2; p++)
        for (int m = 0; m < M; m++) store(out + 16 * (kTallest * p + m), acc[p][m]);
}

// The weights of the next input, or of the next two (bf16: even and odd), and where they end.
template <int C> INLINE const uint8_t* float_weights(const uint8_t* p, F* w) {
    __builtin_prefetch(p + kAhead, 0, 3);
    if constexpr (C == kBF16) {
        const I pair = iload((const int*)p);
        w[0] = as_float(ishl<16>(pair)), w[1] = as_float(iand(pair, iset((int)0xffff0000)));
        return p + 64;
    }
    if constexpr (C == kF32) w[0] = load((const float*)p);
    else w[0] = load_half((const uint16_t*)p);
    return p + (C == kF32 ? 64 : 32);
}

// Float weights take float activations, [M][stride], and sum over inputs in ascending order. P panels, `apart` bytes from
// each other, share a load of the activations: with one, the loads bind and not the sums. out: float [P][kTallest][16].
template <int C, int M, int P>
static void tile_float(const uint8_t* panel, size_t apart, int inputs, const float* x, int stride, float* out) {
    constexpr int step = C == kBF16 ? 2 : 1;
    const uint8_t* w[P];
    const float* row[M];
    F acc[P][M];
    UNROLL_TOKENS
    for (int m = 0; m < M; m++) row[m] = x + (size_t)m * stride;
    UNROLL_TOKENS
    for (int p = 0; p < P; p++) {
        w[p] = panel + p * apart;
        UNROLL_TOKENS
        for (int m = 0; m < M; m++) acc[p][m] = zero();
    }
    for (size_t k = 0, n = (size_t)inputs; k < n; k += step) {
        F f[P][2];
        UNROLL_TOKENS
        for (int p = 0; p < P; p++) w[p] = float_weights<C>(w[p], f[p]);
        UNROLL_TOKENS
        for (int i = 0; i < step; i++) {
            if (k + i == n) break;
            UNROLL_TOKENS
            for (int m = 0; m < M; m++) {
                const F a = set(row[m][k + i]);
                UNROLL_TOKENS
                for (int p = 0; p < P; p++) acc[p][m] = fma(f[p][i], a, acc[p][m]);
            }
        }
    }
    UNROLL_TOKENS
    for (int p = 0; p < P; p++) {
        UNROLL_TOKENS
        for (int m = 0; m < M; m++) store(out + kTallest * 16 * p + 16 * m, acc[p][m]);
    }
}

}  // namespace
