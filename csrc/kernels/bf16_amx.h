// Floats on a matrix unit (Intel AMX, bf16).
//
// A float is the sum of two bf16, high = round(x) and low = round(x - high), so 16 of its 24 bits of mantissa count;
// what is bf16 already (weights, keys, values) is exact. A product of 32 inputs is two passes of the unit over the same
// B:
//
//   A = 16 rows x 32 parts          high or low parts of the activations, 64 bytes a row
//   B = 16 lines x 64 bytes         32 inputs x 16 outputs, in pairs of inputs: as bf16 panels and keys lie (layout.h)
//   C = 16 rows x 16 outputs, f32   the unit's own order: even and odd inputs apart, denormals as zero
//
// A row of C depends on its row of A alone. So whatever takes this way has the same bits in any company; other
// instruction sets, which multiply floats, have others.
#pragma once
#include "gemv.h"
#include "kernel_table.h"
#include "vec.h"

namespace cutaway::CUTAWAY_ISA {

struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t column_bytes[16] = {};
    uint8_t rows[16] = {};
};

// kCodeShapes: tiles 0, 1: C. 2, 3: A, B of a group of codes. 4, 5: A, B of half a group. kHalfShapes: all are full.
static void set_shapes(int shapes) {
    TileConfig c;
    const auto shape = [&](int tile, int rows, int bytes) {
        c.rows[tile] = (uint8_t)rows, c.column_bytes[tile] = (uint16_t)bytes;
    };
    for (int tile = 0; tile < 8; tile++) shape(tile, 16, 64);
    if (shapes == kCodeShapes) shape(2, 16, 32), shape(3, 8, 64), shape(4, 16, 16), shape(5, 4, 64);
    asm volatile("" ::"r"(&c) : "memory");  // gcc 12's intrinsic reads no more than eight bytes, it says
    _tile_loadconfig(&c);
}

// To the compiler, a tile is loaded from nowhere: what was just written must be in memory.
INLINE void settle() { asm volatile("" ::: "memory"); }

constexpr int kDepth = 32, kTileBytes = 1024;  // inputs of a pass, bytes of a full tile

// The parts of two vectors, x[0 .. 15] and x[16 .. 31].
INLINE void split_pair(F a, F b, uint8_t* high, uint8_t* low) {
    const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(b.v, a.v);
    const I first = {_mm512_cvtepu16_epi32(_mm512_castsi512_si256(h))},
            second = {_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(h, 1))};
    const F rest_a = sub(a, as_float(ishl<16>(first))), rest_b = sub(b, as_float(ishl<16>(second)));
    _mm512_store_si512(high, h);
    _mm512_store_si512(low, (__m512i)_mm512_cvtne2ps_pbh(rest_b.v, rest_a.v));
}

static void split(const float* x, int n, void* to, size_t low, size_t step) {
    uint8_t* high = (uint8_t*)to;
    for (int i = 0; i < n; i += kDepth, high += step)
        split_pair(load_part(x + i, n - i), n - i > 16 ? load_part(x + i + 16, n - i - 16) : zero(), high, high + low);
}

// Numbers below 2^-126 are zero to the unit, going in and coming out; so are they to a core that stands in for it.
class ZeroSmall {
    unsigned saved_ = _mm_getcsr();

  public:
    ZeroSmall() { _mm_setcsr(saved_ | 0x8040); }
    ~ZeroSmall() { _mm_setcsr(saved_); }
};

// What the unit does for one row of A, with vectors: where memory binds, these read faster. Of 32 inputs the even ones
// and the odd ones are summed apart, from zero; both together come on top of what was before. M tokens (M <= 2) times P
// panels, line by line in turn (gemv.h has the reason).
template <int M, int P>
static void multiply_rows(const uint8_t* panel, size_t apart, int inputs, const uint8_t* tile, float* out) {
    constexpr int sums = 2 * M * P;  // of high and low parts: sum 2 * (P * m + p) + h
    const I odd_half = iset((int)0xffff0000);
    F acc[sums];
#pragma GCC unroll 8
    for (int s = 0; s < sums; s++) acc[s] = zero();
    for (int i = 0; i < inputs; i += kDepth, panel += kTileBytes, tile += 2 * 64 * M) {
        const int lines = inputs - i < kDepth ? (inputs - i + 1) / 2 : kDepth / 2;
        F even[sums], odd[sums];
#pragma GCC unroll 8
        for (int s = 0; s < sums; s++) even[s] = odd[s] = zero();
        for (int line = 0; line < lines; line++) {
            F w[P][2];
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) {
                const uint8_t* at = panel + p * apart + 64 * line;
                prefetch(at + kGemvAhead);
                const I pair = iload((const int*)at);
                w[p][0] = as_float(ishl<16>(pair)), w[p][1] = as_float(iand(pair, odd_half));
            }
#pragma GCC unroll 8
            for (int s = 0; s < sums; s++) {
                const int m = s / 2 / P, p = s / 2 % P, h = s % 2;
                const I parts = iset(int_at((const int8_t*)tile + 64 * (M * h + m) + 4 * line));
                even[s] = fma(w[p][0], as_float(ishl<16>(parts)), even[s]);
                odd[s] = fma(w[p][1], as_float(iand(parts, odd_half)), odd[s]);
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < sums; s++) acc[s] = add(acc[s], add(even[s], odd[s]));
    }
#pragma GCC unroll 4
    for (int s = 0; s < sums; s += 2) store(out + 16 * (M * (s / 2 % P) + s / 2 / P), add(acc[s], acc[s + 1]));
}

// T tiles of 8 tokens (rows 0 .. 7 high, 8 .. 15 low, so one pass does both) times P panels.
template <int T, int P>
static void multiply_parts(const uint8_t* panel, size_t apart, int inputs, const uint8_t* tiles, float* out) {
    const uint8_t *a0 = tiles, *a1 = tiles + split_bytes((size_t)inputs, 8), *b0 = panel, *b1 = panel + apart;
    const auto pass = [&] {
        _tile_loadd(4, a0, 64);
        _tile_loadd(6, b0, 64);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (P == 2) {
            _tile_loadd(7, b1, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if constexpr (T == 2) {
            _tile_loadd(5, a1, 64);
            _tile_dpbf16ps(2, 5, 6);
            if constexpr (P == 2) _tile_dpbf16ps(3, 5, 7);
        }
    };
    settle();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i + kDepth <= inputs;
         i += kDepth, a0 += kTileBytes, a1 += kTileBytes, b0 += kTileBytes, b1 += kTileBytes)
        pass();
    alignas(64) uint8_t rest[2][kTileBytes] = {};
    if (const size_t bytes = (size_t)(inputs % kDepth + 1) / 2 * 64) {  // beyond it lies another panel
        std::memcpy(rest[0], b0, bytes), b0 = rest[0];
        if constexpr (P == 2) std::memcpy(rest[1], b1, bytes), b1 = rest[1];
        settle();
        pass();
    }
    alignas(64) float c[16][16];
    const auto put = [&](float* to) {
        for (int m = 0; m < 8; m++) store(to + 16 * m, add(load(c[m]), load(c[m + 8])));
    };
    _tile_stored(0, c, 64);
    put(out);
    if constexpr (P == 2) {
        _tile_stored(1, c, 64);
        put(out + kTallest * 16);
    }
    if constexpr (T == 2) {
        _tile_stored(2, c, 64);
        put(out + 8 * 16);
        if constexpr (P == 2) {
            _tile_stored(3, c, 64);
            put(out + kTallest * 16 + 8 * 16);
        }
    }
}

static void multiply_some(const uint8_t* panel, size_t apart, size_t next, int panels, int inputs, const void* tiles,
                          int count, float* out) {
    const auto all = [&](auto one, auto two) {
        for (int p = 0; p < panels; p += 2, panel += next, out += 2 * kTallest * 16)
            (p + 1 < panels ? two : one)(panel, apart, inputs, (const uint8_t*)tiles, out);
    };
    if (count > 8)
        all(multiply_parts<2, 1>, multiply_parts<2, 2>);
    else
        all(multiply_parts<1, 1>, multiply_parts<1, 2>);
}

static void gemv_bf16(const uint8_t* panel, size_t apart, int panels, int inputs, const void* tiles, int count,
                      float* out) {
    const ZeroSmall mode;
    const uint8_t* tile = (const uint8_t*)tiles;
    if (count == 1)
        return (panels == 1   ? multiply_rows<1, 1>
                : panels == 2 ? multiply_rows<1, 2>
                              : multiply_rows<1, 4>)(panel, apart, inputs, tile, out);
    const auto two = panels == 1 ? multiply_rows<2, 1> : multiply_rows<2, 2>;
    two(panel, apart, inputs, tile, out);
    // Two tokens' sums over four panels are more than there are registers.
    if (panels == 4) two(panel + 2 * apart, apart, inputs, tile, out + 2 * 2 * 16);
}

}  // namespace
