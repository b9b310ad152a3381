// The product on a matrix unit (Intel AMX, int8): 16 tokens times one panel, a group of 32 inputs at a time.
//
//   A = 16 tokens x 32 codes        rows of ActGroup<16>::codes, 32 bytes apart
//   B = 8 lines x 64 bytes          the panel's quads as they lie in layout.h, unpacked to bytes
//   C = 16 tokens x 16 rows, int32  = A x B, exact
//
// What follows is the tile's own arithmetic (tile.h), so the bits are the same: add -offset * sum, then per group
// acc = fma(float(dot), scale * a_scale, acc), then the minimum. The unit multiplies 512 codes a cycle and core where
// vpdpbusd has 128; what binds is moving C through memory and the float arithmetic. Groups with two scales would move two
// C for half the work each, and gain nothing: they stay with tile.h (docs/log.md has the figures).
#pragma once
#include "tile.h"

namespace cutaway::CUTAWAY_ISA {

static void unpack_lines(int codes, const uint8_t* panel, const uint8_t* table, int groups, uint8_t* lines) {
    for (int g = 0; g < groups; g++, panel += kPlaneBytes[codes], lines += 512) {
        B q[8];
        switch (codes) {
            case kNibble: unpack<kNibble>(panel, table, q); break;
            case kFive: unpack<kFive>(panel, table, q); break;
            case kSix: unpack<kSix>(panel, table, q); break;
            case kByte: unpack<kByte>(panel, table, q); break;
            default: unpack<kTable>(panel, table, q);
        }
        for (int j = 0; j < 8; j++) _mm512_store_si512(lines + 64 * j, q[j].v);
    }
}

struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t column_bytes[16] = {};
    uint8_t rows[16] = {};
};

// Tiles 0, 3: C, in turn. 1: A. 2: B.
static void enter() {
    TileConfig c;
    const auto shape = [&](int tile, int rows, int bytes) { c.rows[tile] = (uint8_t)rows, c.column_bytes[tile] = (uint16_t)bytes; };
    shape(0, 16, 64), shape(1, 16, 32), shape(2, 8, 64), shape(3, 16, 64);
    asm volatile("" ::"r"(&c) : "memory");  // gcc 12's intrinsic reads no more than eight bytes, it says
    _tile_loadconfig(&c);
}

template <int C, int S>
INLINE void scale_dots(const uint8_t* scales, int g, const ActGroup<16>* a, const int32_t (*dots)[16], F* acc) {
    using Scale = GroupScales<S>;
    constexpr int offset = offset_of(C, S);
    const Scale w = Scale::at(scales, g);
#pragma GCC unroll 16
    for (int m = 0; m < 16; m++) {
        I d = iload(dots[m]);
        if constexpr (offset) d = iadd(d, ishl<log2_of(offset)>(iset(a->minus[m])));
        acc[m] = fma(to_float(d), mul(w.scale[0], set(a->scale[m])), acc[m]);
        if constexpr (Scale::kMin) acc[m] = fma(w.minimum[0], set(a->sum[m]), acc[m]);
    }
}

// A product takes tens of cycles to come out of the unit: the next group's runs while this one's is scaled.
#define MULTIPLY(c, a, lines)    \
    _tile_zero(c);               \
    _tile_loadd(1, (a)->codes, 32); \
    _tile_loadd(2, lines, 64);   \
    _tile_dpbsud(c, 1, 2)

template <int C, int S>
static void wide(const uint8_t* lines, const uint8_t* scales, int from, int to, const void* activations, float* out) {
    const ActGroup<16>* a = (const ActGroup<16>*)activations + from;
    lines += (size_t)from * 512;
    F acc[16];
    for (int m = 0; m < 16; m++) acc[m] = load(out + 16 * m);
    alignas(64) int32_t dots[16][16];
    MULTIPLY(0, a, lines);
    _tile_stored(0, dots, 64);
    for (int g = from; g < to; g += 2, a += 2, lines += 1024) {
        for (int line = 0; line < 2 * (int)sizeof(*a); line += 64) __builtin_prefetch((const char*)(a + 2) + line, 0, 3);
        for (int line = 0; line < 1024; line += 64) __builtin_prefetch(lines + 1024 + line, 0, 3);
        if (g + 1 < to) {
            MULTIPLY(3, a + 1, lines + 512);
        }
        scale_dots<C, S>(scales, g, a, dots, acc);
        if (g + 1 == to) break;
        _tile_stored(3, dots, 64);
        if (g + 2 < to) {
            MULTIPLY(0, a + 2, lines + 1024);
        }
        scale_dots<C, S>(scales, g + 1, a + 1, dots, acc);
        if (g + 2 < to) _tile_stored(0, dots, 64);
    }
    for (int m = 0; m < 16; m++) store(out + 16 * m, acc[m]);
}

}  // namespace
