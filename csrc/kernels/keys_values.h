// Keys and values into pages. Where they lie: see layout.h.
#pragma once
#include "elementwise.h"
#include "kernel_table.h"
#include "layout.h"

namespace cutaway::CUTAWAY_ISA {

INLINE uint16_t bf16_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 0x40);  // NaN stays NaN
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// e4m3 (finite only): 1 sign, 4 exponent (bias 7), 3 mantissa bits; 448 is the largest, 0x7f is NaN. |x| <= 448 here.
INLINE uint8_t fp8_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    const float a = std::fabs(x);
    if (!(a <= 464.0f)) return (uint8_t)(sign | 0x7f);
    if (a < 0x1p-6f)
        return (uint8_t)(sign |
                         (uint8_t)((a + 0x1p14f) - 0x1p14f == 0.0f ? 0 : (int)(((a + 0x1p14f) - 0x1p14f) * 512.0f)));
    std::memcpy(&bits, &a, 4);
    const uint32_t rounded = bits + 0x7ffff + ((bits >> 20) & 1);
    return (uint8_t)(sign | ((rounded >> 20) - (120u << 3)));
}

INLINE F fp8_to_float(I bytes) {
    const I magnitude = iand(bytes, iset(0x7f)), sign = ishl<24>(iand(bytes, iset(0x80)));
    const I wide = ishl<20>(magnitude);
    const F normal = as_float(iadd(wide, iset(120 << 23)));
    const F tiny = mul(to_float(magnitude), set(0x1p-9f));
    const F value = where_less(to_float(magnitude), set(8.0f), tiny, normal);
    return as_float(iadd(as_int(value), sign));  // the sign bit is free, adding sets it
}

// What one token's head is multiplied by when it is stored, and when it is read (1 where the type has no scale). A NaN
// or an infinity makes the scale NaN, so that it survives.
struct HeadScale {
    float inverse = 1.0f, scale = 1.0f;
    HeadScale(const float* x, int n, int type) {
        if (type == kKVF32 || type == kKVBF16) return;
        const float limit = type == kKVInt8 ? 127.0f : 448.0f;
        float top = 0.0f, poison = 0.0f;
        for (int i = 0; i < n; i++) {
            const float a = std::fabs(x[i]);
            top = a > top ? a : top;
            poison += x[i] * 0.0f;
        }
        inverse = finite_or_0(limit / top), scale = top / limit + poison;
    }
};

INLINE void encode(float x, float inverse, int type, void* to) {
    switch (type) {
        case kKVF32: std::memcpy(to, &x, 4); return;
        case kKVBF16: {
            const uint16_t h = bf16_of(x);
            std::memcpy(to, &h, 2);
            return;
        }
        case kKVInt8: {
            const float scaled = x * inverse, low = scaled > -127.0f ? scaled : -127.0f,
                        code = low < 127.0f ? low : 127.0f;
            *(int8_t*)to = (int8_t)((code + 12582912.0f) - 12582912.0f);
            return;
        }
        default: *(uint8_t*)to = fp8_of(x * inverse);
    }
}

// bf16 of 16 floats as int32, none of them NaN.
INLINE I bf16_of(F x) {
    const I bits = as_int(x);
    return ishr<16>(iadd(bits, iadd(iset(0x7fff), iand(ishr<16>(bits), iset(1)))));
}

// A head in bf16, as above but sixteen at a time: false, and nothing is written, where there is a NaN. keys: a token's
// place in a block; values: [n].
INLINE bool store_bf16(const float* k, const float* v, int n, uint8_t* keys, uint8_t* values) {
    F poison = zero();
    if (n % 16) return false;
    for (int i = 0; i < n; i += 16) poison = fma(load(k + i), zero(), fma(load(v + i), zero(), poison));
    if (!(sum(poison) == 0.0f)) return false;
    for (int i = 0; i < n; i += 16) {
        int32_t codes[16];
        istore(codes, bf16_of(load(k + i)));
        for (int j = 0; j < 16; j += 2) {
            const uint32_t pair = (uint32_t)codes[j] | (uint32_t)codes[j + 1] << 16;
            std::memcpy(keys + (size_t)(i + j) / 2 * 64, &pair, 4);
        }
        istore(codes, bf16_of(load(v + i)));
        for (int j = 0; j < 16; j += 2) {
            const uint32_t pair = (uint32_t)codes[j] | (uint32_t)codes[j + 1] << 16;
            std::memcpy(values + (size_t)(i + j) * 2, &pair, 4);
        }
    }
    return true;
}

// Writes one token's key and value of one head into slot `slot` of page `page`. The first slot of a page clears the
// rest of it: what a page held before is never seen, not even multiplied by zero.
static void store_kv(const KVView& kv, int page, int head, int slot, const float* k, const float* v) {
    const int d = kv.head_dim, block = slot / 16, lane = slot % 16;
    const int kb = kKVBytes[kv.key_type], vb = kKVBytes[kv.value_type];
    uint8_t* keys = kv.head(page, head);
    uint8_t* values = keys + kv.values_at();
    if (slot == 0) std::memset(keys, 0, kv.end());
    if (kv.key_type == kKVBF16 && kv.value_type == kKVBF16 &&
        store_bf16(k, v, d, keys + (size_t)block * 16 * d * kb + lane * 4, values + (size_t)slot * d * vb))
        return;
    const HeadScale k_head(k, d, kv.key_type), v_head(v, d, kv.value_type);
    uint8_t* kp = keys + (size_t)block * 16 * d * kb;
    for (int i = 0; i < d; i++) {
        const int at = kv.key_type == kKVBF16 ? (i / 2) * 32 + lane * 2 + i % 2 : i * 16 + lane;
        encode(k[i], k_head.inverse, kv.key_type, kp + (size_t)at * kb);
        encode(v[i], v_head.inverse, kv.value_type, values + ((size_t)slot * d + i) * vb);
    }
    if (kv.scaled(kv.key_type)) ((float*)(keys + kv.key_scales_at()))[slot] = k_head.scale;
    if (kv.scaled(kv.value_type)) ((float*)(keys + kv.value_scales_at()))[slot] = v_head.scale;
}

}  // namespace
