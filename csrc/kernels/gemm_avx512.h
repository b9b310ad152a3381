// The product of many tokens with 512-bit registers: two unpacked panels times 8 of a tile's 16 tokens at a time.
//
// What binds tile.h is not only its multiplications: each takes its four activations from memory. Here a load of four
// activations serves two panels, and a line of codes eight tokens, so 16 dots of 32 inputs take 80 loads where they
// took 160. Panels are unpacked once for all tokens, with their codes as they are. The arithmetic is tile.h's, and so
// are the bits.
#pragma once
#include "unpacked.h"

namespace cutaway::CUTAWAY_ISA {

// What both panels have of a group, or of its half h, times the tokens m .. m + 7.
template <int C, int S, int P>
INLINE void add_panels(const Unpacked<S>* const* u, int h, const ActGroup<16>* a, int m, F (*acc)[P]) {
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

template <int C, int S, int P> INLINE void multiply_eight(const Unpacked<S>* const* unpacked, int from, int to,
                                                          const void* activations, int m, float* out) {
    const ActGroup<16>* a = (const ActGroup<16>*)activations + from;
    const Unpacked<S>* u[P];
    F acc[8][P];
    for (int p = 0; p < P; p++) u[p] = unpacked[p];
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++)
        for (int p = 0; p < P; p++) acc[t][p] = from ? load(out + 16 * (kTallest * p + m + t)) : zero();
    for (int g = from; g < to; g++, a++) {
        for (int h = 0; h < Unpacked<S>::kParts; h++) add_panels<C, S, P>(u, h, a, m, acc);
        for (int p = 0; p < P; p++) u[p]++;
    }
    UNROLL_TOKENS
    for (int t = 0; t < 8; t++)
        for (int p = 0; p < P; p++) store(out + 16 * (kTallest * p + m + t), acc[t][p]);
}

template <int C, int S> static void gemm_avx512(const void* unpacked, size_t apart, int panels, int from, int to,
                                                const void* activations, float* out) {
    const Unpacked<S>* const u[] = {(const Unpacked<S>*)unpacked,
                                    (const Unpacked<S>*)((const uint8_t*)unpacked + apart)};
    for (int m = 0; m < 16; m += 8)
        if (panels == 2)
            multiply_eight<C, S, 2>(u, from, to, activations, m, out);
        else
            multiply_eight<C, S, 1>(u, from, to, activations, m, out);
}

}  // namespace
