// The product of many tokens with 512-bit registers: two unpacked panels times 8 of a tile's 16 tokens at a time.
//
// What binds tile.h is not only its multiplications: each takes its four activations from memory. Here a load of four
// activations serves two panels, and a line of codes eight tokens, so 16 dots of 32 inputs take 80 loads where they took
// 160. Panels are unpacked once for all tokens. The arithmetic is tile.h's, and so are the bits.
#pragma once
#include "tile.h"

namespace cutaway::CUTAWAY_ISA {

// An unpacked group: 8 lines of codes as they are, a line of float scales (two: one per half), minima likewise.
template <int S> struct Plain {
    static constexpr int kParts = GroupScales<S>::kHalves ? 2 : 1;
    uint8_t lines[8][64];
    float scale[kParts][16];
    float minimum[GroupScales<S>::kMin ? kParts : 0][16];
};

template <int C, int S> static void unpack_plain(const uint8_t* panel, const uint8_t* scales, const uint8_t* table, int from, int to, void* unpacked) {
    Plain<S>* u = (Plain<S>*)unpacked;
    panel += (size_t)from * kPlaneBytes[C];
    for (int g = from; g < to; g++, u++, panel += kPlaneBytes[C]) {
        for (int line = 0; line < kPlaneBytes[C]; line += 64) __builtin_prefetch(panel + kAhead + line, 0, 3);
        B q[8];
        unpack<C>(panel, table, q);
        for (int j = 0; j < 8; j++) _mm512_store_si512(u->lines[j], q[j].v);
        const GroupScales<S> w = GroupScales<S>::at(scales, g);
        for (int h = 0; h < u->kParts; h++) {
            store(u->scale[h], w.scale[h]);
            if constexpr (w.kMin) store(u->minimum[h], w.minimum[h]);
        }
    }
}

// What both panels have of a group, or of its half h, times the tokens m .. m + 7.
template <int C, int S, int P> INLINE void add_plain(const Plain<S>* const* u, int h, const ActGroup<16>* a, int m, F (*acc)[P]) {
    constexpr bool halves = GroupScales<S>::kHalves, minimum = GroupScales<S>::kMin;
    constexpr int quads = halves ? 4 : 8;
    I d[8][P];
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++) {
        d[t][0] = start<C, S>(halves ? &a->minus_half[h][m + t] : &a->minus[m + t]);
        if constexpr (P == 2) d[t][1] = d[t][0];
    }
    UNROLL_TOKENS
    for (int j = 0; j < quads; j++) {
        B codes[P];
        for (int p = 0; p < P; p++) codes[p] = bload(u[p]->lines[quads * h + j]);
        UNROLL_TOKENS
        for (int t = 0; t < 8; t++) {
            __m512i four = _mm512_set1_epi32(int_at(a->codes[m + t] + 4 * (quads * h + j)));
            asm("" : "+v"(four));  // one load for both
            for (int p = 0; p < P; p++) d[t][p].v = _mm512_dpbusd_epi32(d[t][p].v, codes[p].v, four);
        }
    }
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++) {
        const F scale = set(a->scale[m + t]);
        for (int p = 0; p < P; p++) acc[t][p] = fma(to_float(d[t][p]), mul(load(u[p]->scale[h]), scale), acc[t][p]);
        if constexpr (minimum) {
            const F sum = set(halves ? (float)-a->minus_half[h][m + t] * a->scale[m + t] : a->sum[m + t]);
            for (int p = 0; p < P; p++) acc[t][p] = fma(load(u[p]->minimum[h]), sum, acc[t][p]);
        }
    }
}

template <int C, int S, int P> INLINE void multiply_plain(const Plain<S>* const* unpacked, int from, int to, const void* activations, int m, float* out) {
    const ActGroup<16>* a = (const ActGroup<16>*)activations + from;
    const Plain<S>* u[P];
    F acc[8][P];
    for (int p = 0; p < P; p++) u[p] = unpacked[p];
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++)
        for (int p = 0; p < P; p++) acc[t][p] = from ? load(out + 16 * (kTallest * p + m + t)) : zero();
    for (int g = from; g < to; g++, a++) {
        for (int h = 0; h < Plain<S>::kParts; h++) add_plain<C, S, P>(u, h, a, m, acc);
        for (int p = 0; p < P; p++) u[p]++;
    }
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++)
        for (int p = 0; p < P; p++) store(out + 16 * (kTallest * p + m + t), acc[t][p]);
}

template <int C, int S> static void multiply_plain(const void* unpacked, size_t apart, int panels, int from, int to, const void* activations, float* out) {
    const Plain<S>* const u[] = {(const Plain<S>*)unpacked, (const Plain<S>*)((const uint8_t*)unpacked + apart)};
    for (int m = 0; m < 16; m += 8)
        if (panels == 2) multiply_plain<C, S, 2>(u, from, to, activations, m, out);
        else multiply_plain<C, S, 1>(u, from, to, activations, m, out);
}

}  // namespace
