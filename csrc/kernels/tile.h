// The product: one panel (16 rows) times one tile of tokens. The same code serves one token and a prompt of thousands.
//
// For every token: acc = 0; for each group, ascending: acc = fma(float(dot), scale * a_scale, acc), then
// acc = fma(minimum, a_sum, acc) where there are minima. `dot` is an exact int32. That order is the definition; an
// output depends on nothing else, so neither the tile's height nor the batch can change a bit. A call does some groups
// of it and keeps acc in `out`, so that a stretch of activations can serve several panels while it is in the first
// cache.
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

constexpr int kAhead = 8192, kGemvAhead = 2048;  // bytes: how far ahead one reader asks for memory, and each of a few

template <int N> INLINE B shift(B x) {
    if constexpr (N > 0)
        return bshl<N>(x);
    else if constexpr (N < 0)
        return bshr<-N>(x);
    else
        return x;
}

// The quads J and J + 4 of a group, from its nibble line J and what bits it has above the nibbles.
template <int C, int J> INLINE void two_quads(B line, const B* high, const uint8_t* table, B& a, B& b) {
    const B mask = bset(15);
    a = band(line, mask), b = band(bshr<4>(line), mask);
    if constexpr (C == kTable) a = lookup(a, table), b = lookup(b, table);
    if constexpr (C == kFive)
        a = bor(a, band(shift<4 - J>(high[0]), bset(16))), b = bor(b, band(shift<-J>(high[0]), bset(16)));
    if constexpr (C == kSix)
        a = bor(a, band(shift<4 - 2 * J>(high[0]), bset(0x30))),
        b = bor(b, band(shift<4 - 2 * J>(high[1]), bset(0x30)));
}

// Codes of a group: eight lines, quad j in q[j].
template <int C> INLINE void unpack(const uint8_t* p, const uint8_t* table, B* q) {
    if constexpr (C == kByte) {
        for (int j = 0; j < 8; j++) q[j] = bload(p + 64 * j);
        return;
    }
    B high[2] = {};
    for (int i = 0; i < kHighLines[C]; i++) high[i] = bload(p + 64 * i);
    const uint8_t* n = p + 64 * kHighLines[C];
    two_quads<C, 0>(bload(n), high, table, q[0], q[4]);
    two_quads<C, 1>(bload(n + 64), high, table, q[1], q[5]);
    two_quads<C, 2>(bload(n + 128), high, table, q[2], q[6]);
    two_quads<C, 3>(bload(n + 192), high, table, q[3], q[7]);
}

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
    // Asks for what lies so many bytes further on.
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

template <int C> INLINE I dot_codes(I acc, B codes, int four) {
    if constexpr (C == kByte || C == kTable)
        return dot_byte(acc, codes, four);
    else
        return dot(acc, codes, four);
}

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }

// Where the accumulator of a token's dot starts: -offset * (sum of its codes). Bytes that this instruction set makes
// signed again have lost their 128.
template <int C, int S> INLINE I start(const int32_t* minus) {
    constexpr int offset = offset_of(C, S) - (C == kByte || C == kTable ? 128 - kByteOffset : 0);
    if constexpr (offset == 0)
        return iset(0);
    else
        return ishl<log2_of(offset)>(iset(*minus));
}

// Tokens whose dots are computed side by side: a dot is a chain of eight, and a core looks ahead no further than one or
// two. Sixteen registers hold no more than one.
#if defined(__AVX512F__)
template <int M> constexpr int kTogether = M < 4 ? 1 : 4;
#else
template <int M> constexpr int kTogether = 1;
#endif

// A group's dots, or half a group's, on top of what was before.
template <int S> INLINE void add_dots(const GroupScales<S>& w, int half, I dots, float scale, float sum, F& acc) {
    acc = fma(to_float(dots), mul(w.scale[half], set(scale)), acc);
    if constexpr (GroupScales<S>::kMin) acc = fma(w.minimum[half], set(sum), acc);
}

template <int C, int S, int M>
INLINE void add_group(const B* q, const GroupScales<S>& w, const ActGroup<M>* a, int m, F* acc) {
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
    for (int i = 0; i < n; i++) add_dots<S>(w, 0, d[i], a->scale[m + i], a->sum[m + i], acc[m + i]);
}

// The same for half a group, where it has a scale of its own.
template <int C, int S, int M>
INLINE void add_half(const B* q, const GroupScales<S>& w, int h, const ActGroup<M>* a, int m, F* acc) {
    constexpr int n = kTogether<M>;
    I d[n];
    for (int i = 0; i < n; i++) d[i] = start<C, S>(&a->minus_half[h][m + i]);
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < n; i++) d[i] = dot_codes<C>(d[i], q[j], int_at(a->codes[m + i] + 16 * h + 4 * j));
    for (int i = 0; i < n; i++)
        add_dots<S>(w, h, d[i], a->scale[m + i], (float)-a->minus_half[h][m + i] * a->scale[m + i], acc[m + i]);
}

// One group of one panel, times M tokens.
template <int C, int S, int M>
INLINE void group(const Walk<C, S>& walk, const uint8_t* table, const ActGroup<M>* a, F* acc) {
    B q[8];
    unpack<C>(walk.codes, table, q);
    const GroupScales<S> w = GroupScales<S>::at(walk.scales, walk.in);
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
