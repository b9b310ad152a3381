// Keys and values into pages, and attention over pages.
//
// A row (one query head of one token) sees the context in fixed segments of 256 tokens. In a segment: scores, their
// maximum m, p = exp(score - m), l = sum of p (lane by lane over blocks of 16, then the fixed tree), o = sum of p * v in
// ascending token order. Segments are merged in ascending order:
//
//   M' = max(M, m);  L' = L e^(M - M') + l e^(m - M');  O' = O e^(M - M') + o e^(m - M');   at last O / L
//
// Masked keys have p = 0 exactly, and a segment that is masked whole is skipped, so a row's bits do not depend on the
// rows beside it, on the chunk it came in, or on who computed which segment.
#pragma once
#include "elementwise.h"
#include "kernels.h"
#include "layout.h"

namespace cutaway::CUTAWAY_ISA {

constexpr float kMasked = -__builtin_inff();

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
    if (a < 0x1p-6f) return (uint8_t)(sign | (uint8_t)((a + 0x1p14f) - 0x1p14f == 0.0f ? 0 : (int)(((a + 0x1p14f) - 0x1p14f) * 512.0f)));
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
        case kKVBF16: { const uint16_t h = bf16_of(x); std::memcpy(to, &h, 2); return; }
        case kKVInt8: {
            const float scaled = x * inverse, low = scaled > -127.0f ? scaled : -127.0f, code = low < 127.0f ? low : 127.0f;
            *(int8_t*)to = (int8_t)((code + 12582912.0f) - 12582912.0f);
            return;
        }
        default: *(uint8_t*)to = fp8_of(x * inverse);
    }
}

// Writes one token's key and value of one head into slot `slot` of page `page`. The first slot of a page clears the rest
// of it: what a page held before is never seen, not even multiplied by zero.
static void store_kv(const KVView& kv, int page, int head, int slot, const float* k, const float* v) {
    const int d = kv.head_dim, block = slot / 16, lane = slot % 16;
    const int kb = kKVBytes[kv.key_type], vb = kKVBytes[kv.value_type];
    uint8_t* keys = kv.keys + ((size_t)page * kv.kv_heads + head) * kv.page_size * d * kb;
    uint8_t* values = kv.values + ((size_t)page * kv.kv_heads + head) * kv.page_size * d * vb;
    const size_t scale_at = ((size_t)page * kv.kv_heads + head) * kv.page_size;
    if (slot == 0) {
        std::memset(keys, 0, (size_t)kv.page_size * d * kb);
        std::memset(values, 0, (size_t)kv.page_size * d * vb);
        if (kv.key_scales) std::memset(kv.key_scales + scale_at, 0, sizeof(float) * kv.page_size);
        if (kv.value_scales) std::memset(kv.value_scales + scale_at, 0, sizeof(float) * kv.page_size);
    }
    const HeadScale k_head(k, d, kv.key_type), v_head(v, d, kv.value_type);
    uint8_t* kp = keys + (size_t)block * 16 * d * kb;
    for (int i = 0; i < d; i++) {
        const int at = kv.key_type == kKVBF16 ? (i / 2) * 32 + lane * 2 + i % 2 : i * 16 + lane;
        encode(k[i], k_head.inverse, kv.key_type, kp + (size_t)at * kb);
        encode(v[i], v_head.inverse, kv.value_type, values + ((size_t)slot * d + i) * vb);
    }
    if (kv.key_scales) kv.key_scales[scale_at + slot] = k_head.scale;
    if (kv.value_scales) kv.value_scales[scale_at + slot] = v_head.scale;
}

// q . k for 16 tokens of one block, for R rows. Inputs in ascending order.
template <int T, int R> INLINE void score_block(const uint8_t* keys, const float* const* q, int d, F* s) {
    for (int r = 0; r < R; r++) s[r] = zero();
    if constexpr (T == kKVBF16) {
        const I high = iset((int)0xffff0000);
        for (int i = 0; i < d; i += 2, keys += 64) {
            const I pair = iload((const int*)keys);
            const F even = as_float(ishl<16>(pair)), odd = as_float(iand(pair, high));
            for (int r = 0; r < R; r++) s[r] = fma(odd, set(q[r][i + 1]), fma(even, set(q[r][i]), s[r]));
        }
    } else {
        for (int i = 0; i < d; i++, keys += 16 * kKVBytes[T]) {
            F k;
            if constexpr (T == kKVF32) k = load((const float*)keys);
            if constexpr (T == kKVInt8) k = to_float(load_i8((const int8_t*)keys));
            if constexpr (T == kKVFp8) k = fp8_to_float(load_u8(keys));
            for (int r = 0; r < R; r++) s[r] = fma(k, set(q[r][i]), s[r]);
        }
    }
}

template <int T> INLINE F load_values(const uint8_t* p) {
    if constexpr (T == kKVF32) return load((const float*)p);
    if constexpr (T == kKVBF16) return as_float(ishl<16>(load_u16((const uint16_t*)p)));
    if constexpr (T == kKVInt8) return to_float(load_i8((const int8_t*)p));
    return fp8_to_float(load_u8(p));
}

// Scores of one block of 16 tokens at `keys`, scaled, capped, biased and masked.
template <int R>
INLINE void block_scores(const KVView& kv, const AttendView& at, const AttendRows& rows, size_t head, int slot, int t, F* s) {
    const uint8_t* keys = kv.keys + (head * kv.page_size + slot) * kv.head_dim * kKVBytes[kv.key_type];
    switch (kv.key_type) {
        case kKVF32: score_block<kKVF32, R>(keys, rows.q, kv.head_dim, s); break;
        case kKVBF16: score_block<kKVBF16, R>(keys, rows.q, kv.head_dim, s); break;
        case kKVInt8: score_block<kKVInt8, R>(keys, rows.q, kv.head_dim, s); break;
        default: score_block<kKVFp8, R>(keys, rows.q, kv.head_dim, s);
    }
    const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F token = add(load(lanes), set((float)t));
    for (int r = 0; r < R; r++) {
        F x = mul(s[r], set(at.scale));
        if (kv.key_scales) x = mul(x, load(kv.key_scales + head * kv.page_size + slot));
        if (at.softcap > 0.0f) x = mul(set(at.softcap), tanh(div(x, set(at.softcap))));
        const F position = set((float)rows.position[r]);
        if (rows.slope[r] != 0.0f) x = fma(set(rows.slope[r]), sub(token, position), x);
        x = where_less(token, set((float)rows.first[r]), set(kMasked), x);
        s[r] = where_less(position, token, set(kMasked), x);
    }
}

// o[r] = sum over tokens from .. end - 1 of p[r][token] * value, in ascending order. p: [R][kSegment].
template <int T, int R>
static void weigh_values(const KVView& kv, const AttendRows& rows, int segment_start, int from, int end, const float* p, float* const* o) {
    constexpr int kWide = 2;  // vectors of a head at a time: R * kWide accumulators stay in registers
    const int d = kv.head_dim, ps = kv.page_size;
    for (int i = 0; i < d; i += 16 * kWide) {
        const bool second = d - i > 16;
        F acc[R][kWide];
        for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = zero();
        for (int t = from; t < end;) {
            const int page = rows.table[t / ps], stop = (t / ps + 1) * ps < end ? (t / ps + 1) * ps : end;
            if (page < 0) {
                t = stop;
                continue;
            }
            const size_t head = (size_t)page * kv.kv_heads + rows.kv_head;
            const uint8_t* values = kv.values + ((head * ps + t % ps) * d + i) * kKVBytes[T];
            for (; t < stop; t++, values += d * kKVBytes[T]) {
                const F v0 = load_values<T>(values), v1 = second ? load_values<T>(values + 16 * kKVBytes[T]) : zero();
                for (int r = 0; r < R; r++) {
                    float weight = p[r * kSegment + (t - segment_start)];
                    if constexpr (T == kKVInt8 || T == kKVFp8) weight *= kv.value_scales[head * ps + t % ps];
                    acc[r][0] = fma(set(weight), v0, acc[r][0]);
                    acc[r][1] = fma(set(weight), v1, acc[r][1]);
                }
            }
        }
        for (int r = 0; r < R; r++) {
            store(o[r] + i, acc[r][0]);
            if (second) store(o[r] + i + 16, acc[r][1]);
        }
    }
}

// A tile of R rows over one segment. p: [R][kSegment] scratch. Leaves m[r], l[r], o[r][head_dim, padded to 16].
template <int R>
static void segment_rows(const KVView& kv, const AttendView& at, const AttendRows& rows, int segment_start, float* p, float* m, float* l, float* const* o) {
    int first = rows.first[0], last = rows.position[0];
    for (int r = 1; r < R; r++) {
        first = rows.first[r] < first ? rows.first[r] : first;
        last = rows.position[r] > last ? rows.position[r] : last;
    }
    const int from = first > segment_start ? first : segment_start, begin = from / 16 * 16;
    const int end = last + 1 < segment_start + kSegment ? last + 1 : segment_start + kSegment;
    F top[R], s[R];
    for (int r = 0; r < R; r++) top[r] = set(kMasked);
    for (int t = begin; t < end; t += 16) {
        const int page = rows.table[t / kv.page_size], slot = t % kv.page_size;
        if (page >= 0) block_scores<R>(kv, at, rows, (size_t)page * kv.kv_heads + rows.kv_head, slot, t, s);
        for (int r = 0; r < R; r++) {
            if (page < 0) s[r] = set(kMasked);
            store(p + r * kSegment + (t - segment_start), s[r]);
            top[r] = max(s[r], top[r]);  // passes over a NaN score; exp() of it carries it on
        }
    }
    for (int r = 0; r < R; r++) {
        const bool masked = rows.position[r] < from || rows.first[r] >= end;
        m[r] = masked ? kMasked : largest(top[r]);
        if (!masked && m[r] == kMasked) m[r] = 0.0f;  // nothing but NaN
        F total = zero();
        for (int t = begin; t < end; t += 16) {
            float* at_t = p + r * kSegment + (t - segment_start);
            const F e = masked ? zero() : exp(sub(load(at_t), set(m[r])));
            store(at_t, e);
            total = add(total, e);
        }
        l[r] = sum(total);
    }
    switch (kv.value_type) {
        case kKVF32: return weigh_values<kKVF32, R>(kv, rows, segment_start, from, end, p, o);
        case kKVBF16: return weigh_values<kKVBF16, R>(kv, rows, segment_start, from, end, p, o);
        case kKVInt8: return weigh_values<kKVInt8, R>(kv, rows, segment_start, from, end, p, o);
        default: return weigh_values<kKVFp8, R>(kv, rows, segment_start, from, end, p, o);
    }
}

// (M, L, O) <- merge of (M, L, O) and (m, l, o).
static void merge(float* M, float* L, float* O, float m, float l, const float* o, int d) {
    if (m == kMasked) return;
    if (*M == kMasked) {
        *M = m, *L = l;
        for (int i = 0; i < d; i += 16) store(O + i, load(o + i));
        return;
    }
    const float top = m > *M ? m : *M;
    float e[16];
    store(e, exp(sub(set(*M), set(top))));
    const float old = e[0];
    store(e, exp(sub(set(m), set(top))));
    const float fresh = e[0];
    *M = top;
    *L = std::fma(l, fresh, *L * old);
    for (int i = 0; i < d; i += 16) store(O + i, fma(load(o + i), set(fresh), mul(load(O + i), set(old))));
}

static void finish(const float* O, float L, float* out, int d) {
    for (int i = 0; i < d; i += 16) store_part(out + i, div(load(O + i), set(L)), d - i);
}

// rows.count is 1, 2, 4 or 8.
static void segment(const KVView& kv, const AttendView& at, const AttendRows& rows, int start, float* p, float* m, float* l, float* const* o) {
    switch (rows.count) {
        case 1: return segment_rows<1>(kv, at, rows, start, p, m, l, o);
        case 2: return segment_rows<2>(kv, at, rows, start, p, m, l, o);
        case 4: return segment_rows<4>(kv, at, rows, start, p, m, l, o);
        default: return segment_rows<8>(kv, at, rows, start, p, m, l, o);
    }
}

}  // namespace
