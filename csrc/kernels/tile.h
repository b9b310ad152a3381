// The product: one panel (16 rows) times one tile of tokens. The same code serves one token and a prompt of thousands.
//
// For every token: acc = 0; for each group, ascending: acc = fma(float(dot), scale * a_scale, acc), then
// acc = fma(minimum, a_sum, acc) where there are minima. `dot` is an exact int32. That order is the definition; an
// output depends on nothing else, so neither the tile's height nor the batch can change a bit. A call does some groups
// of it and keeps acc in `out`, so that a stretch of activations can serve several panels while it is in the first
// cache.
#pragma once
#include "dots.h"

namespace cutaway::CUTAWAY_ISA {

constexpr int kAhead = 8192, kGemvAhead = 2048;  // bytes: how far ahead one reader prefetches, and each of a few

// Where a group's codes lie, and its unit's scales; from group to group.
template <int C, int S> struct Walk {
    const uint8_t *scales, *codes;
    int in;  // groups of the unit before this one

    Walk(const uint8_t* panel, int g) : scales(panel + Layout{(Codes)C, (Scales)S}.unit_at(g)), in(g % kUnitGroups[S]) {
        codes = scales + unit_scales(S) + in * kPlaneBytes[C];
    }
    void next() {
        codes += kPlaneBytes[C];
        if (++in == kUnitGroups[S]) in = 0, scales = codes, codes += unit_scales(S);
    }
    // Prefetches what lies so many bytes further on.
    void ask(int ahead) const {
        if (!in)
            for (int line = 0; line < unit_scales(S); line += 64) __builtin_prefetch(scales + ahead + line, 0, 3);
        for (int line = 0; line < kPlaneBytes[C]; line += 64) __builtin_prefetch(codes + ahead + line, 0, 3);
    }
};

// The scales and minima of a unit's group g, for its two halves (the same where a group has one scale).
template <int S> struct GroupScales {
    static constexpr bool kHalves = S == kSuper16 || S == kSuperMin16 || S == kFloat16;
    static constexpr bool kMin = S == kFp16Min || S == kSuperMin || S == kSuperMin16;
    F scale[2], minimum[2];

    INLINE GroupScales at(const uint8_t* s, int g) {
        GroupScales r;
        const uint8_t* p = s + (size_t)(g / kScaleGroups[S]) * kScaleBytes[S];
        const int sub = g % 8;
        if constexpr (S == kFp16 || S == kFp16Min) r.scale[0] = load_fp16((const uint16_t*)p);
        if constexpr (S == kFp16Min) r.minimum[0] = load_fp16((const uint16_t*)(p + 32));
        if constexpr (S == kSuperMin) {
            r.scale[0] = mul(load_fp16((const uint16_t*)p), to_float(load_u8(p + 64 + 32 * sub)));
            r.minimum[0] = mul(load_fp16((const uint16_t*)(p + 32)), to_float(load_u8(p + 80 + 32 * sub)));
        }
        if constexpr (S == kSuper16)
            for (int h = 0; h < 2; h++)
                r.scale[h] =
                    mul(load_fp16((const uint16_t*)p), to_float(load_i8((const int8_t*)p + 32 + 16 * (2 * sub + h))));
        if constexpr (S == kSuperMin16)
            for (int h = 0; h < 2; h++) {
                r.scale[h] = mul(load_fp16((const uint16_t*)p), to_float(load_u8(p + 64 + 32 * (2 * sub + h))));
                r.minimum[h] =
                    mul(load_fp16((const uint16_t*)(p + 32)), to_float(load_u8(p + 80 + 32 * (2 * sub + h))));
            }
        if constexpr (S == kFloat) r.scale[0] = load((const float*)p);
        if constexpr (S == kFloat16) r.scale[0] = load((const float*)p), r.scale[1] = load((const float*)p + 16);
        return r;
    }
};

// A group's dots, or half a group's, on top of what was before.
template <int S> INLINE void add_dots(const GroupScales<S>& w, int half, I dots, float scale, float sum, F& acc) {
    acc = fma(to_float(dots), mul(w.scale[half], set(scale)), acc);
    if constexpr (GroupScales<S>::kMin) acc = fma(w.minimum[half], set(sum), acc);
}
template <int S, int M>
INLINE void add_half(const GroupScales<S>& w, int h, I dots, const ActGroup<M>* a, int m, F* acc) {
    add_dots<S>(w, h, dots, a->scale[m], (float)-a->minus_half[h][m] * a->scale[m], acc[m]);
}

// One group of one panel, times M tokens.
template <int C, int S, int M>
INLINE void group(const Walk<C, S>& walk, const uint8_t* table, const ActGroup<M>* a, F* acc) {
    constexpr bool halves = GroupScales<S>::kHalves;
    if constexpr (M <= 2) {
        I d[2][M];
        for (int m = 0; m < M; m++) {
            d[0][m] = start<C, S>(halves ? &a->minus_half[0][m] : &a->minus[m]);
            d[1][m] = halves ? start<C, S>(&a->minus_half[1][m]) : iset(0);
        }
        dot_group<C, M>(walk.codes, table, a->codes, d);
        const GroupScales<S> w = GroupScales<S>::at(walk.scales, walk.in);
        for (int m = 0; m < M; m++)
            if constexpr (halves) {
                for (int h = 0; h < 2; h++) add_half<S, M>(w, h, d[h][m], a, m, acc);
            } else {
                add_dots<S>(w, 0, iadd(d[0][m], d[1][m]), a->scale[m], a->sum[m], acc[m]);
            }
        return;
    }
    constexpr int n = kTogether<M>;
    B q[8];
    unpack<C>(walk.codes, table, q);
    const GroupScales<S> w = GroupScales<S>::at(walk.scales, walk.in);
    UNROLL_TOKENS
    for (int m = 0; m < M; m += n) {
        I d[n];
        if constexpr (halves) {
            for (int h = 0; h < 2; h++) {
                UNROLL_TOKENS
                for (int i = 0; i < n; i++) d[i] = start<C, S>(&a->minus_half[h][m + i]);
                dot_quads<C, 4, n>(q + 4 * h, 4 * h, a->codes[m], d);
                UNROLL_TOKENS
                for (int i = 0; i < n; i++) add_half<S, M>(w, h, d[i], a, m + i, acc);
            }
        } else {
            UNROLL_TOKENS
            for (int i = 0; i < n; i++) d[i] = start<C, S>(&a->minus[m + i]);
            dot_quads<C, 8, n>(q, 0, a->codes[m], d);
            UNROLL_TOKENS
            for (int i = 0; i < n; i++) add_dots<S>(w, 0, d[i], a->scale[m + i], a->sum[m + i], acc[m + i]);
        }
    }
}

// out: float [M][16]: what the groups before `from` came to.
template <int C, int S, int M>
static void tile(const uint8_t* panel, const uint8_t* table, int from, int to, const void* activations, float* out) {
    const ActGroup<M>* a = (const ActGroup<M>*)activations + from;
    Walk<C, S> walk(panel, from);
    F acc[M];
    UNROLL_TOKENS
    for (int m = 0; m < M; m++) acc[m] = from ? load(out + 16 * m) : zero();
    for (int g = from; g < to; g++, a++, walk.next()) {
        walk.ask(kAhead);
        if constexpr (M > 2)  // many tokens: the activations come from the second cache, again for every panel
            for (int line = 0; line < (int)sizeof(*a); line += 64)
                __builtin_prefetch((const char*)(a + 2) + line, 0, 3);
        group<C, S, M>(walk, table, a, acc);
    }
    UNROLL_TOKENS
    for (int m = 0; m < M; m++) store(out + 16 * m, acc[m]);
}

// The weights of the next input, or of the next two (bf16: even and odd), and where they end.
template <int C, int ahead> INLINE const uint8_t* float_weights(const uint8_t* p, F* w) {
    __builtin_prefetch(p + ahead, 0, 3);
    if constexpr (C == kBF16) {
        const I pair = iload((const int*)p);
        w[0] = as_float(ishl<16>(pair)), w[1] = as_float(iand(pair, iset((int)0xffff0000)));
        return p + 64;
    }
    if constexpr (C == kF32)
        w[0] = load((const float*)p);
    else
        w[0] = load_fp16((const uint16_t*)p);
    return p + (C == kF32 ? 64 : 32);
}

// Float weights take float activations, [M][stride], and sum over inputs in ascending order. P panels, `apart` bytes
// from each other, share a load of the activations: with one, the loads bind and not the sums. out: float
// [P][kTallest][16], or [P][M][16] for one or two.
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
        for (int p = 0; p < P; p++) w[p] = float_weights<C, P == 1 ? kAhead : kGemvAhead>(w[p], f[p]);
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
        for (int m = 0; m < M; m++) store(out + 16 * ((M <= 2 ? M : kTallest) * p + m), acc[p][m]);
    }
}

}  // namespace
