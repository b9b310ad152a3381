// The product of one or two tokens: what counts is how weights are read. Memory gives most to a few readers that each
// go line by line, so the panels lie far apart, one line of each is taken in turn, and each is prefetched one line
// ahead at a time. The arithmetic is tile.h's, and so are the bits.
#pragma once
#include "tile.h"

namespace cutaway::CUTAWAY_ISA {

#if defined(__AVX512F__)

// Prefetches a line of each panel.
template <int P> INLINE void ask_lines(const uint8_t* const* panels, size_t at) {
    UNROLL_TOKENS
    for (int p = 0; p < P; p++) __builtin_prefetch(panels[p] + at + kGemvAhead, 0, 3);
}

// A group of each panel, its codes at panels[p] + codes. `a` and `b` have the first and the second half's dots.
template <int C, int S, int M, int P> INLINE void gemv_groups(const uint8_t* const* panels, size_t codes,
                                                              const uint8_t* table, const ActGroup<M>* act, I (*a)[M],
                                                              I (*b)[M]) {
    const auto four = [&](int m, int j) __attribute__((always_inline)) { return iset(int_at(act->codes[m] + 4 * j)); };
    const auto add = [](I& to, B quad, I x)
                         __attribute__((always_inline)) { to.v = _mm512_dpbusd_epi32(to.v, quad.v, x.v); };
    if constexpr (C == kByte) {
        UNROLL_TOKENS
        for (int j = 0; j < 8; j++) {
            I x[M];
            for (int m = 0; m < M; m++) x[m] = four(m, j);
            UNROLL_TOKENS
            for (int p = 0; p < P; p++) {
                // With so little to do for a line, the compiler must not gather loads: what is read in bursts comes
                // later.
                ask_lines<1>(panels + p, codes + 64 * j);
                const B quad = bload(panels[p] + codes + 64 * j);
                asm volatile("" ::: "memory");
                for (int m = 0; m < M; m++) add(j < 4 ? a[p][m] : b[p][m], quad, x[m]);
            }
        }
        return;
    }
    B high[P][2];
    UNROLL_TOKENS
    for (int i = 0; i < kHighLines[C]; i++) {
        ask_lines<P>(panels, codes + 64 * i);
        UNROLL_TOKENS
        for (int p = 0; p < P; p++) high[p][i] = bload(panels[p] + codes + 64 * i);
    }
    const auto line = [&]<int J>() __attribute__((always_inline)) {
        I x[M], y[M];
        for (int m = 0; m < M; m++) x[m] = four(m, J), y[m] = four(m, J + 4);
        ask_lines<P>(panels, codes + 64 * (kHighLines[C] + J));
        UNROLL_TOKENS
        for (int p = 0; p < P; p++) {
            B first, second;
            two_quads<C, J>(bload(panels[p] + codes + 64 * (kHighLines[C] + J)), high[p], table, first, second);
            for (int m = 0; m < M; m++) add(a[p][m], first, x[m]), add(b[p][m], second, y[m]);
        }
    };
    line.template operator()<0>(), line.template operator()<1>(), line.template operator()<2>(),
        line.template operator()<3>();
}

// out: float [P][M][16].
template <int C, int S, int M, int P>
static void gemv(const uint8_t* const* from, const uint8_t* table, int groups, const void* activations, float* out) {
    const uint8_t* panels[P];  // in registers, whatever memory does
    UNROLL_TOKENS
    for (int p = 0; p < P; p++) panels[p] = from[p];
    constexpr bool halves = GroupScales<S>::kHalves;
    const ActGroup<M>* a = (const ActGroup<M>*)activations;
    F acc[P][M];
    UNROLL_TOKENS
    for (int p = 0; p < P; p++)
        for (int m = 0; m < M; m++) acc[p][m] = zero();
    size_t unit = 0, codes = unit_scales(S);
    for (int in = 0; groups > 0; groups--, a++) {
        if (!in)
            for (int line = 0; line < unit_scales(S); line += 64) ask_lines<P>(panels, unit + line);
        I d[2][P][M];
        UNROLL_TOKENS
        for (int p = 0; p < P; p++)
            for (int m = 0; m < M; m++) {
                d[0][p][m] = start<C, S>(halves ? &a->minus_half[0][m] : &a->minus[m]);
                d[1][p][m] = halves ? start<C, S>(&a->minus_half[1][m]) : iset(0);
            }
        gemv_groups<C, S, M, P>(panels, codes, table, a, d[0], d[1]);
        UNROLL_TOKENS
        for (int p = 0; p < P; p++) {
            const GroupScales<S> w = GroupScales<S>::at(panels[p] + unit, in);
            for (int m = 0; m < M; m++)
                if constexpr (halves) {
                    for (int h = 0; h < 2; h++)
                        add_dots<S>(w, h, d[h][p][m], a->scale[m], (float)-a->minus_half[h][m] * a->scale[m],
                                    acc[p][m]);
                } else
                    add_dots<S>(w, 0, iadd(d[0][p][m], d[1][p][m]), a->scale[m], a->sum[m], acc[p][m]);
        }
        codes += kPlaneBytes[C];
        if (++in == kUnitGroups[S]) in = 0, unit = codes, codes += unit_scales(S);
    }
    UNROLL_TOKENS
    for (int p = 0; p < P; p++)
        for (int m = 0; m < M; m++) store(out + 16 * (M * p + m), acc[p][m]);
}

#elif !defined(__AVX2__)

// Without vector registers nothing is gained by reading panels in turn: one after another.
template <int C, int S, int M, int P>
static void gemv(const uint8_t* const* panels, const uint8_t* table, int groups, const void* activations, float* out) {
    for (int p = 0; p < P; p++) tile<C, S, M>(panels[p], table, 0, groups, activations, out + 16 * M * p);
}

#else

// Sixteen registers do not hold a line of each panel: a group at a time.
template <int C, int S, int M, int P>
static void gemv(const uint8_t* const* panels, const uint8_t* table, int groups, const void* activations, float* out) {
    const ActGroup<M>* a = (const ActGroup<M>*)activations;
    F acc[P][M];
    for (int p = 0; p < P; p++)
        for (int m = 0; m < M; m++) acc[p][m] = zero();
    Walk<C, S> walk(panels[0], 0);
    for (int g = 0; g < groups; g++, a++, walk.next())
        for (int p = 0; p < P; p++) {
            Walk<C, S> at = walk;
            at.codes += panels[p] - panels[0], at.scales += panels[p] - panels[0];
            at.ask(kGemvAhead);
            group<C, S, M>(at, table, a, acc[p]);
        }
    for (int p = 0; p < P; p++)
        for (int m = 0; m < M; m++) store(out + 16 * (M * p + m), acc[p][m]);
}

#endif

}  // namespace
