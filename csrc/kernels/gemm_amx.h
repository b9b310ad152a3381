// The product on a matrix unit (Intel AMX, int8): 16 tokens times one panel, a group of 32 inputs at a time.
//
//   A = 16 tokens x 32 codes        rows of ActGroup<16>::codes, 32 bytes apart (half a group: 16 codes)
//   B = 8 lines x 64 bytes          the panel's quads as they lie in layout.h, unpacked to signed bytes (half: 4 lines)
//   C = 16 tokens x 16 rows, int32  = A x B, exact
//
// What follows is the tile's own arithmetic (tile.h), so the bits are the same: per group acc = fma(float(dot), scale *
// a_scale, acc), then the minimum. The unit multiplies 512 codes a cycle where vpdpbusd has 128; what binds is the
// rest. C comes out through memory, and while the unit works the core starts one 512-bit operation a cycle instead of
// two, so 16 x 16 dots take 20 ns: 16 cycles to multiply, 16 to store, 48 operations to scale (docs/log.md has the
// figures).
#pragma once
#include "bf16_amx.h"
#include "unpacked.h"

namespace cutaway::CUTAWAY_ISA {

// Dots of 16 tokens and 16 rows, of two groups or of a group's two halves.
using Dots = int32_t[2][16][16];

// Tiles as kCodeShapes has them.
#define MULTIPLY(c, a, b, codes, lines) \
    _tile_zero(c);                      \
    _tile_loadd(a, codes, 32);          \
    _tile_loadd(b, lines, 64);          \
    _tile_dpbssd(c, a, b)

// The next step's dots: of two groups, or of one group's halves.
template <int S> INLINE void multiply(const Unpacked<S>* u, const ActGroup<16>* a) {
    if constexpr (u->kParts == 2) {
        MULTIPLY(0, 4, 5, a->codes, u->lines);
        MULTIPLY(1, 4, 5, a->codes[0] + 16, u->lines[4]);
    } else {
        MULTIPLY(0, 2, 3, a->codes, u->lines);
        MULTIPLY(1, 2, 3, a[1].codes, u[1].lines);
    }
}

INLINE void store_dots(Dots& d) {
    _tile_stored(0, d[0], 64);
    _tile_stored(1, d[1], 64);
}

template <int S>
INLINE void scale_dots(const Unpacked<S>* u, int half, const ActGroup<16>* a, const int32_t (*dots)[16], F* acc) {
    constexpr bool minimum = GroupScales<S>::kMin;
    const float* sums = a->sum;
    alignas(64) float half_sums[16];
    F w = load(u->scale[half]), low;
    if constexpr (minimum) low = load(u->minimum[half]);
    if constexpr (minimum && u->kParts == 2) {
        const I total = {_mm512_sub_epi32(_mm512_setzero_si512(), iload(a->minus_half[half]).v)};
        store(half_sums, mul(to_float(total), load(a->scale)));
        sums = half_sums;
    }
    UNROLL_TOKENS
    for (int m = 0; m < 16; m++) {
        acc[m] = fma(to_float(iload(dots[m])), mul(w, set(a->scale[m])), acc[m]);
        if constexpr (minimum) acc[m] = fma(low, set(sums[m]), acc[m]);
    }
}

template <int S> INLINE void scale_step(const Unpacked<S>* u, const ActGroup<16>* a, const Dots& dots, F* acc) {
    constexpr bool halves = u->kParts == 2;
    scale_dots<S>(u, 0, a, dots[0], acc);
    scale_dots<S>(halves ? u : u + 1, halves, halves ? a : a + 1, dots[1], acc);
}

// A product takes tens of cycles to come out of the unit: the next step's runs while this one's dots are scaled.
template <int S> static void wide_panel(const void* unpacked, int from, int to, const void* activations, float* out) {
    constexpr int step = GroupScales<S>::kHalves ? 1 : 2;  // groups
    const ActGroup<16>* a = (const ActGroup<16>*)activations + from;
    const Unpacked<S>* u = (const Unpacked<S>*)unpacked;
    F acc[16];
    UNROLL_TOKENS
    for (int m = 0; m < 16; m++) acc[m] = from ? load(out + 16 * m) : zero();
    alignas(64) Dots dots[2];
    int left = to - from, now = 0;
    if (left >= step) {
        multiply<S>(u, a);
        store_dots(dots[0]);
        for (; left >= 2 * step; left -= step, a += step, u += step) {
            multiply<S>(u + step, a + step);
            scale_step<S>(u, a, dots[now], acc);
            store_dots(dots[now ^= 1]);
        }
        scale_step<S>(u, a, dots[now], acc);
        left -= step, a += step, u += step;
    }
    if (left) {  // the last of an odd number of groups
        MULTIPLY(0, 2, 3, a->codes, u->lines);
        _tile_stored(0, dots[0][0], 64);
        scale_dots<S>(u, 0, a, dots[0][0], acc);
    }
    UNROLL_TOKENS
    for (int m = 0; m < 16; m++) store(out + 16 * m, acc[m]);
}

template <int S> static void gemm_amx(const void* unpacked, size_t apart, int panels, int from, int to,
                                      const void* activations, float* out) {
    for (int p = 0; p < panels; p++)
        wide_panel<S>((const uint8_t*)unpacked + p * apart, from, to, activations, out + kTallest * 16 * p);
}

}  // namespace
