// The kernel layouts: how weights, activations, keys and values lie in memory. Everything else follows from this page.
//
// WEIGHTS. A matrix [rows, inputs] is cut into panels of 16 rows; a panel is one run of memory, aligned to 64 bytes:
//
//   | scales | group | .. | group | scales | group | .. | group | ...                 a group = 16 rows x 32 inputs
//   '------------ unit ------------'                                                   a unit = 1, 2, 8 or 16 groups
//
//   Memory is read line by line from its first to its last: a reader that skips to and fro gets a tenth less of it.
//
//   A group's codes are planes of 64-byte lines. In a line, byte 4 * row + i belongs to row `row`; a line that holds
//   the quad j covers the inputs 4j .. 4j+3 (i picks one). So one 512-bit register = 16 rows x 4 inputs, what vpdpbusd
//   eats.
//
//   Nibble  4 lines: line j has quad j in its low nibbles and quad j + 4 (inputs 16 + 4j ..) in its high nibbles
//   Five    1 line: bit j of a byte is bit 4 of quad j's code; then 4 nibble lines
//   Six     2 lines: line h has, for quad 4h + jj, the bits 5..4 in its bits 2jj+1..2jj; then 4 nibble lines
//   Byte    8 lines, quad j in line j, codes + 128
//   Table   4 nibble lines; a code picks one of 16 signed values (+ 128), one table per matrix
//
//   Scales, all exact in float32 (fp16 x 8 bits is 19 bits of mantissa):
//   Fp16       16 fp16 d                                     per group of 32, 2 a unit   Q4_0 Q5_0 Q8_0 IQ4_NL
//   Fp16Min    16 fp16 d, 16 fp16 m                          per group of 32, 1          Q4_1 Q5_1
//   SuperMin   16 fp16 d, 16 fp16 -dmin, 8 x (16 u8 scale, 16 u8 min)     per 8 groups, 8       Q4_K Q5_K
//   Super16    16 fp16 d, 16 x 16 i8 scale (two per group, one per 16 inputs)  per 8 groups, 16   Q6_K Q3_K
//   SuperMin16 16 fp16 d, 16 fp16 -dmin, 16 x (16 u8 scale, 16 u8 min)    per 8 groups, 8       Q2_K
//   Float      16 float32                                    per group of 32, 1          whatever else
//   Float16    2 x 16 float32, one for each 16 inputs        per group of 32, 1          whatever else
//
//   A last unit of fewer groups has room for all its scales.
//
//   A weight is (code - offset) * scale + minimum. The offset is an integer and costs nothing: the int32 accumulator
//   starts at -offset * (sum of the activations).
//
//   Float weights: a group is 16 rows x 2 inputs for BF16 ([16][2]), 16 rows x 1 input for F16 and F32; no scales.
//
//   Rows that do not fill a panel are padded with zero scales (zero floats); their outputs are never stored.
//
// ACTIVATIONS. int8, one float scale per token and group of 32 (clamped to +-127), packed in tiles of 1, 2, 4, 8 or 16
// tokens: a tile is `groups` runs of ActGroup<height>, so that a tile's group is a few neighbouring cache lines. A
// token takes as many bytes in a tile of any height.
//
//   For bf16 weights on a matrix unit: every float as two bf16, its high part (rounded) and its low part (the rest,
//   rounded), in tiles of 8 tokens: [inputs / 32][8 high, 8 low][32], inputs padded with zeros. One or two tokens,
//   which vectors multiply, are a tile of their own height: between the lines of tokens that are not there, theirs
//   share an eighth of a cache.
//
// KEYS AND VALUES. A page holds page_size tokens (a multiple of 16) of one layer, head by head, each aligned to 64
// bytes:
//
//   | keys | values | scales of the keys | scales of the values |
//
//   keys    [page_size / 16] blocks: f32 [head_dim][16]; bf16 [head_dim / 2][16][2]; int8, fp8 [head_dim][16]
//   values  [page_size][head_dim]
//   scales  float32 [page_size], for int8 and fp8 only (value = code * scale)
//
//   A page number names one such page of every layer of its group; they lie one behind the other.
//
//   A lane of a key block is a token, so scores come out sixteen at a time and no sum crosses lanes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cutaway {

enum Codes : int { kNibble, kFive, kSix, kByte, kTable, kF32, kF16, kBF16 };
enum Scales : int { kFp16, kFp16Min, kSuperMin, kSuper16, kSuperMin16, kFloat, kFloat16, kNone };

constexpr int kPanelRows = 16, kGroup = 32;
constexpr int kTallest = 16;  // tokens of the tallest tile that any instruction set takes

constexpr int kPlaneBytes[] = {256, 320, 384, 512, 256, 0, 0, 0};  // 0: float weights are not cut into groups
// bytes of scales per `kScaleGroups` groups
constexpr int kScaleBytes[] = {32, 64, 64 + 8 * 32, 32 + 16 * 16, 64 + 16 * 32, 64, 128, 0};
constexpr int kScaleGroups[] = {1, 1, 8, 8, 8, 1, 1, 1};
// Groups of a unit: as many as make its scales whole lines.
constexpr int kUnitGroups[] = {2, 1, 8, 16, 8, 1, 1, 1};
constexpr int unit_scales(int scales) {
    return kUnitGroups[scales] / kScaleGroups[scales] * kScaleBytes[scales];
}  // bytes
constexpr int kHighLines[] = {0, 1, 2, 0, 0, 0, 0, 0};  // before the nibbles

// What is subtracted from every code, a power of two or nothing.
constexpr int offset_of(int codes, int scales) {
    switch (codes) {
        case kNibble: return scales == kFp16 ? 8 : scales == kSuper16 ? 4 : 0;
        case kFive: return scales == kFp16 ? 16 : 0;
        case kSix: return 32;
        case kByte:
        case kTable: return 128;
        default: return 0;
    }
}

// How one matrix is stored.
struct Layout {
    Codes codes;
    Scales scales;

    bool is_float() const { return codes >= kF32; }
    size_t align64(size_t n) const { return (n + 63) / 64 * 64; }
    size_t groups(size_t inputs) const { return (inputs + kGroup - 1) / kGroup; }
    // Where a group's unit lies in its panel, its codes, and its scales (of the groups that share them: the first's).
    size_t unit_at(size_t g) const {
        return g / kUnitGroups[scales] * (unit_scales(scales) + kUnitGroups[scales] * (size_t)kPlaneBytes[codes]);
    }
    size_t codes_at(size_t g) const {
        return unit_at(g) + unit_scales(scales) + g % kUnitGroups[scales] * kPlaneBytes[codes];
    }
    size_t scales_at(size_t g) const {
        return unit_at(g) + g % kUnitGroups[scales] / kScaleGroups[scales] * kScaleBytes[scales];
    }
    size_t panel(size_t inputs) const {
        if (codes == kF32) return inputs * 64;
        if (codes == kF16) return align64(inputs * 32);
        if (codes == kBF16) return (inputs + 1) / 2 * 64;
        return codes_at(groups(inputs) - 1) + kPlaneBytes[codes];
    }
};

template <int M> struct ActGroup {
    int8_t codes[M][kGroup];
    float scale[M];  // value = code * scale
    float sum[M];    // scale * (sum of the 32 codes), for the minima
    // Exact sums of the codes, negated: where an accumulator starts, times the weights' offset.
    int32_t minus[M];          // over all 32
    int32_t minus_half[2][M];  // over inputs 0..15 and 16..31
};

// Tiles of `count` rows, from the first: as many of the widest as fit or are worth it, then 8, 4, 2, 1 (a tile may have
// rows to spare).
struct Tiling {
    int widest, least;  // rows of the tallest tile; from how many on one is taken for what is left
};
struct Place {
    int first, height;  // the tile that holds a row
};
constexpr int next_height(int left, Tiling t) {
    return left >= t.least ? t.widest : left >= 5 ? 8 : left >= 3 ? 4 : left;
}
constexpr Place place_of(int row, int count, Tiling t) {
    for (int first = row / t.widest * t.widest;;) {
        const int height = next_height(count - first, t);
        if (row < first + height) return {first, height};
        first += height;
    }
}
constexpr size_t tile_bytes(size_t groups, int rows) { return groups * (size_t)rows * sizeof(ActGroup<1>); }
static_assert(sizeof(ActGroup<16>) == 16 * sizeof(ActGroup<1>));

constexpr int kGemvTokens = 2;  // tokens at most that wait for memory alone

// Float parts of `count` tokens: how many of them make a tile, and the bytes of all in whole tiles.
constexpr int split_rows(int count) { return count <= kGemvTokens ? count : 8; }
constexpr size_t split_bytes(size_t inputs, int count) {
    const int padded = count <= kGemvTokens ? count : (count + 7) / 8 * 8;
    return (inputs + 31) / 32 * (size_t)padded * 2 * 64;
}

enum KV : int { kKVF32, kKVBF16, kKVInt8, kKVFp8 };
constexpr int kKVBytes[] = {4, 2, 1, 1};

}  // namespace cutaway
