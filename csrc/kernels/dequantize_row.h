// One row of an embedding table, straight from the file's blocks to floats, in the file format's own float order.
#pragma once
#include <cmath>

#include "fp16.h"
#include "pack.h"

namespace cutaway {

inline float fp16_at(const uint8_t* p) {
    uint16_t h;
    std::memcpy(&h, p, 2);
    return fp16_to_float(h);
}

inline void decode_block(int type, const uint8_t* b, float* y) {
    switch (type) {
        case kTypeQ4_0:
        case kTypeQ4_1: {
            const float d = fp16_at(b), m = type == kTypeQ4_1 ? fp16_at(b + 2) : 0.0f;
            const uint8_t* q = b + (type == kTypeQ4_1 ? 4 : 2);
            for (int i = 0; i < 16; i++) {
                const int low = q[i] & 15, high = q[i] >> 4;
                y[i] = type == kTypeQ4_1 ? d * (float)low + m : d * (float)(low - 8);
                y[i + 16] = type == kTypeQ4_1 ? d * (float)high + m : d * (float)(high - 8);
            }
            return;
        }
        case kTypeQ5_0:
        case kTypeQ5_1: {
            const float d = fp16_at(b), m = type == kTypeQ5_1 ? fp16_at(b + 2) : 0.0f;
            const uint8_t* p = b + (type == kTypeQ5_1 ? 4 : 2);
            const uint32_t qh = word(p);
            for (int i = 0; i < 32; i++) {
                const int code = (i < 16 ? p[4 + i] & 15 : p[4 + i - 16] >> 4) | (int)(qh >> i & 1) << 4;
                y[i] = type == kTypeQ5_1 ? d * (float)code + m : d * (float)(code - 16);
            }
            return;
        }
        case kTypeQ8_0: {
            const float d = fp16_at(b);
            for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)b[2 + i];
            return;
        }
        case kTypeQ4_K:
        case kTypeQ5_K: {
            const float d = fp16_at(b), dmin = fp16_at(b + 2);
            const bool five = type == kTypeQ5_K;
            const uint8_t *qh = b + 16, *qs = b + (five ? 48 : 16);
            for (int g = 0; g < 8; g++) {
                uint8_t scale, minimum;
                k4_scale(b + 4, g, &scale, &minimum);
                const float s = d * (float)scale, m = dmin * (float)minimum;
                for (int l = 0; l < 32; l++) {
                    const int code = (qs[32 * (g / 2) + l] >> 4 * (g % 2) & 15) | (five ? (qh[l] >> g & 1) << 4 : 0);
                    y[32 * g + l] = s * (float)code - m;
                }
            }
            return;
        }
        case kTypeQ6_K: {
            const float d = fp16_at(b + 208);
            for (int g = 0; g < 8; g++) {
                const uint8_t *ql = b + 64 * (g / 4) + 32 * (g % 2), *qh = b + 128 + 32 * (g / 4);
                for (int l = 0; l < 32; l++) {
                    const int code = (ql[l] >> 4 * (g % 4 / 2) & 15) | (qh[l] >> 2 * (g % 4) & 3) << 4;
                    y[32 * g + l] = d * (float)(int8_t)b[192 + 2 * g + l / 16] * (float)(code - 32);
                }
            }
            return;
        }
        case kTypeQ2_K: {
            const float d = fp16_at(b + 80), dmin = fp16_at(b + 82);
            for (int i = 0; i < 256; i++) {
                const int g = i / 32, l = i % 32, s = b[2 * g + l / 16];
                y[i] =
                    d * (float)(s & 15) * (float)(b[16 + 32 * (g / 4) + l] >> 2 * (g % 4) & 3) - dmin * (float)(s >> 4);
            }
            return;
        }
        case kTypeQ3_K: {
            const float d = fp16_at(b + 108);
            for (int i = 0; i < 256; i++) {
                const int g = i / 32, l = i % 32;
                const int code = (b[32 + 32 * (g / 4) + l] >> 2 * (g % 4) & 3) | (b[l] >> g & 1) << 2;
                y[i] = d * (float)q3_scale(b + 96, 2 * g + l / 16) * (float)(code - 4);
            }
            return;
        }
    }
}

inline void decode_row(const TypeInfo& t, const uint8_t* row, size_t inputs, float* out) {
    for (size_t b = 0; b < inputs / t.elements; b++, row += t.bytes, out += t.elements) switch (t.type) {
            case kTypeF32: std::memcpy(out, row, 4); break;
            case kTypeF16: *out = fp16_at(row); break;
            case kTypeBF16: {
                const uint32_t bits = (uint32_t)(row[0] | row[1] << 8) << 16;
                std::memcpy(out, &bits, 4);
                break;
            }
            default: decode_block(t.type, row, out);
        }
}

}  // namespace cutaway
