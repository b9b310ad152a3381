// From a model file's blocks to panels, without loss. A block's words (4 codes each) are moved, never recomputed.
#pragma once
#include <cstdint>
#include <cstring>

#include "layout.h"

namespace cutaway {

// GGUF's numbers for tensor types (ggml.h); only those that the kernels read.
enum Type : int {
    kTypeF32 = 0,
    kTypeF16 = 1,
    kTypeQ4_0 = 2,
    kTypeQ4_1 = 3,
    kTypeQ5_0 = 6,
    kTypeQ5_1 = 7,
    kTypeQ8_0 = 8,
    kTypeQ2_K = 10,
    kTypeQ3_K = 11,
    kTypeQ4_K = 12,
    kTypeQ5_K = 13,
    kTypeQ6_K = 14,
    kTypeBF16 = 30,
};

struct TypeInfo {
    int type, elements, bytes;  // of one block
    Layout layout;
};

constexpr TypeInfo kTypes[] = {
    {kTypeF32, 1, 4, {kF32, kNone}},
    {kTypeF16, 1, 2, {kF16, kNone}},
    {kTypeBF16, 1, 2, {kBF16, kNone}},
    {kTypeQ4_0, 32, 18, {kNibble, kFp16}},
    {kTypeQ4_1, 32, 20, {kNibble, kFp16Min}},
    {kTypeQ5_0, 32, 22, {kFive, kFp16}},
    {kTypeQ5_1, 32, 24, {kFive, kFp16Min}},
    {kTypeQ8_0, 32, 34, {kByte, kFp16}},
    {kTypeQ2_K, 256, 84, {kNibble, kSuperMin16}},
    {kTypeQ3_K, 256, 110, {kNibble, kSuper16}},
    {kTypeQ4_K, 256, 144, {kNibble, kSuperMin}},
    {kTypeQ5_K, 256, 176, {kFive, kSuperMin}},
    {kTypeQ6_K, 256, 210, {kSix, kSuper16}},
};

inline const TypeInfo* find_type(int type) {
    for (const TypeInfo& t : kTypes)
        if (t.type == type) return &t;
    return nullptr;
}

inline uint32_t word(const uint8_t* p) {
    uint32_t w;
    std::memcpy(&w, p, 4);
    return w;
}
inline void put(uint8_t* p, uint32_t w) { std::memcpy(p, &w, 4); }

constexpr uint32_t kLow4 = 0x0f0f0f0f;

// The codes of one row's group as eight words of four, and the plane bits, to their places in the group's lines.
inline void put_nibbles(uint8_t* group, int row, const uint32_t* n) {
    for (int j = 0; j < 4; j++) put(group + 64 * j + 4 * row, n[j] | n[j + 4] << 4);
}
inline void put_codes(int codes, uint8_t* group, int row, const uint8_t* c) {
    uint32_t n[8];
    for (int j = 0; j < 8; j++) n[j] = word(c + 4 * j);
    if (codes == kByte) {
        for (int j = 0; j < 8; j++) put(group + 64 * j + 4 * row, n[j]);
        return;
    }
    uint32_t low[8], fifth = 0, sixth[2] = {0, 0};
    for (int j = 0; j < 8; j++) {
        low[j] = n[j] & kLow4;
        fifth |= (n[j] >> 4 & 0x01010101) << j;
        sixth[j / 4] |= (n[j] >> 4 & 0x03030303) << 2 * (j % 4);
    }
    put_nibbles(group + 64 * kHighLines[codes], row, low);
    if (codes == kFive) put(group + 4 * row, fifth);
    if (codes == kSix) put(group + 4 * row, sixth[0]), put(group + 64 + 4 * row, sixth[1]);
}

// bit 4j + i of x to bit j of byte i
inline uint32_t spread_bits(uint32_t x) {
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t b = x >> i & 0x11111111;
        b = (b | b >> 3) & 0x03030303;
        b = (b | b >> 6) & 0x000f000f;
        b = (b | b >> 12) & 0xff;
        out |= b << 8 * i;
    }
    return out;
}

inline void k4_scale(const uint8_t* s, int j, uint8_t* scale, uint8_t* minimum) {
    if (j < 4) {
        *scale = s[j] & 63, *minimum = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *minimum = (uint8_t)(s[j + 4] >> 4 | (s[j] >> 6) << 4);
    }
}

inline int8_t q3_scale(const uint8_t* s, int i) {
    const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + i % 4] >> 2 * (i / 4) & 3;
    return (int8_t)((low | high << 4) - 32);
}

// One row's block of a legacy type (32 inputs) or super-block (256 inputs) into the panel. `scales`: the panel's scales
// for this group or super-group.
inline void pack_block(int type, const uint8_t* b, uint8_t* group, uint8_t* scales, int row) {
    uint32_t n[8];
    auto fp16_at = [&](int place, const uint8_t* from) { std::memcpy(scales + 32 * place + 2 * row, from, 2); };
    auto negative_at = [&](int place, const uint8_t* from) {
        uint16_t h;
        std::memcpy(&h, from, 2);
        h ^= 0x8000;
        std::memcpy(scales + 32 * place + 2 * row, &h, 2);
    };
    switch (type) {
        case kTypeQ4_0:
        case kTypeQ4_1: {
            fp16_at(0, b);
            if (type == kTypeQ4_1) fp16_at(1, b + 2);
            const uint8_t* qs = b + (type == kTypeQ4_1 ? 4 : 2);
            for (int j = 0; j < 4; j++) put(group + 64 * j + 4 * row, word(qs + 4 * j));
            return;
        }
        case kTypeQ5_0:
        case kTypeQ5_1: {
            fp16_at(0, b);
            if (type == kTypeQ5_1) fp16_at(1, b + 2);
            const uint8_t* qh = b + (type == kTypeQ5_1 ? 4 : 2);
            put(group + 4 * row, spread_bits(word(qh)));
            for (int j = 0; j < 4; j++) put(group + 64 + 64 * j + 4 * row, word(qh + 4 + 4 * j));
            return;
        }
        case kTypeQ8_0:
            fp16_at(0, b);
            for (int j = 0; j < 8; j++) put(group + 64 * j + 4 * row, word(b + 2 + 4 * j) ^ 0x80808080);
            return;
        case kTypeQ4_K:
        case kTypeQ5_K: {
            fp16_at(0, b), negative_at(1, b + 2);
            const bool five = type == kTypeQ5_K;
            const uint8_t *qh = b + 16, *qs = b + (five ? 48 : 16);
            for (int g = 0; g < 8; g++, group += five ? 320 : 256) {
                k4_scale(b + 4, g, scales + 64 + 32 * g + row, scales + 80 + 32 * g + row);
                uint32_t fifth = 0;
                for (int j = 0; j < 8; j++) {
                    n[j] = word(qs + 32 * (g / 2) + 4 * j) >> 4 * (g % 2) & kLow4;
                    if (five) fifth |= (word(qh + 4 * j) >> g & 0x01010101) << j;
                }
                put_nibbles(group + (five ? 64 : 0), row, n);
                if (five) put(group + 4 * row, fifth);
            }
            return;
        }
        case kTypeQ6_K:
            fp16_at(0, b + 208);
            for (int g = 0; g < 8; g++, group += 384) {
                const uint8_t *ql = b + 64 * (g / 4) + 32 * (g % 2), *qh = b + 128 + 32 * (g / 4);
                uint32_t high[2] = {0, 0};
                for (int j = 0; j < 8; j++) {
                    n[j] = word(ql + 4 * j) >> 4 * (g % 4 / 2) & kLow4;
                    high[j / 4] |= (word(qh + 4 * j) >> 2 * (g % 4) & 0x03030303) << 2 * (j % 4);
                }
                put_nibbles(group + 128, row, n);
                put(group + 4 * row, high[0]), put(group + 64 + 4 * row, high[1]);
                for (int h = 0; h < 2; h++) scales[32 + 16 * (2 * g + h) + row] = b[192 + 2 * g + h];
            }
            return;
        case kTypeQ2_K:
            fp16_at(0, b + 80), negative_at(1, b + 82);
            for (int g = 0; g < 8; g++, group += 256) {
                for (int j = 0; j < 8; j++) n[j] = word(b + 16 + 32 * (g / 4) + 4 * j) >> 2 * (g % 4) & 0x03030303;
                put_nibbles(group, row, n);
                for (int h = 0; h < 2; h++) {
                    scales[64 + 32 * (2 * g + h) + row] = b[2 * g + h] & 15;
                    scales[80 + 32 * (2 * g + h) + row] = b[2 * g + h] >> 4;
                }
            }
            return;
        case kTypeQ3_K:
            fp16_at(0, b + 108);
            for (int g = 0; g < 8; g++, group += 256) {
                for (int j = 0; j < 8; j++)
                    n[j] = (word(b + 32 + 32 * (g / 4) + 4 * j) >> 2 * (g % 4) & 0x03030303) |
                           (word(b + 4 * j) >> g & 0x01010101) << 2;
                put_nibbles(group, row, n);
                for (int h = 0; h < 2; h++) scales[32 + 16 * (2 * g + h) + row] = (uint8_t)q3_scale(b + 96, 2 * g + h);
            }
            return;
    }
}

// One panel of a matrix: rows first .. first + 15 of `raw`. `out` is zeroed.
inline void pack_panel(const TypeInfo& t, const uint8_t* raw, size_t rows, size_t inputs, size_t panel, uint8_t* out) {
    const size_t first = panel * kPanelRows, row_bytes = inputs / t.elements * t.bytes;
    const Layout& l = t.layout;
    for (int r = 0; r < kPanelRows && first + r < rows; r++) {
        const uint8_t* row = raw + (first + r) * row_bytes;
        if (l.codes == kF32) {
            for (size_t k = 0; k < inputs; k++) std::memcpy(out + 64 * k + 4 * r, row + 4 * k, 4);
        } else if (l.codes == kF16) {
            for (size_t k = 0; k < inputs; k++) std::memcpy(out + 32 * k + 2 * r, row + 2 * k, 2);
        } else if (l.codes == kBF16) {
            for (size_t k = 0; k < inputs; k++) std::memcpy(out + 64 * (k / 2) + 4 * r + 2 * (k % 2), row + 2 * k, 2);
        } else {
            const size_t groups = t.elements / kGroup;
            for (size_t b = 0; b < inputs / t.elements; b++)
                pack_block(t.type, row + b * t.bytes, out + l.codes_at(b * groups), out + l.scales_at(b * groups), r);
        }
    }
}

// One panel from plain codes (already offset to unsigned) [rows, inputs] and float scales [rows, inputs / sub].
inline void pack_panel_codes(const Layout& l, const uint8_t* codes, const float* scale, int sub, size_t rows,
                             size_t inputs, size_t panel, uint8_t* out) {
    const size_t first = panel * kPanelRows, groups = l.groups(inputs), per_group = kGroup / sub,
                 columns = inputs / sub;
    for (int r = 0; r < kPanelRows && first + r < rows; r++)
        for (size_t g = 0; g < groups; g++) {
            uint8_t c[kGroup] = {};
            const size_t n = inputs - g * kGroup < (size_t)kGroup ? inputs - g * kGroup : (size_t)kGroup;
            std::memcpy(c, codes + (first + r) * inputs + g * kGroup, n);
            put_codes(l.codes == kTable ? kNibble : l.codes, out + l.codes_at(g), r, c);
            float* scales = (float*)(out + l.scales_at(g));
            for (size_t h = 0; h < per_group && g * per_group + h < columns; h++)
                scales[h * kPanelRows + r] = scale[(first + r) * columns + g * per_group + h];
        }
}

}  // namespace cutaway
