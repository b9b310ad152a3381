// What happens to one token's row: norms, quantization of activations, rope, activations, soft caps.
#pragma once
#include "functions.h"
#include "layout.h"

namespace cutaway::CUTAWAY_ISA {

// RMS: x / sqrt(mean(x^2) + eps) * weight. Layer: (x - mean) / sqrt(var + eps) * weight + bias. Sums: lane i takes the
// inputs i, i + 16, ... in order, then the fixed tree.
static void normalize(const float* x, int width, bool layer, const float* weight, const float* bias, float eps,
                      float* out) {
    const float n = (float)width;
    float mean = 0.0f;
    if (layer) {
        F s = zero();
        for (int i = 0; i < width; i += 16) s = add(s, load_part(x + i, width - i));
        mean = sum(s) / n;
    }
    F squares = zero();
    for (int i = 0; i < width; i += 16) {
        F v = load_part(x + i, width - i);
        if (layer) {
            v = sub(v, set(mean));
            if (width - i < 16) {  // the padding is not part of the variance
                float t[16];
                store(t, v);
                for (int j = width - i; j < 16; j++) t[j] = 0.0f;
                v = load(t);
            }
        }
        squares = fma(v, v, squares);
    }
    const F inverse = set(1.0f / std::sqrt(sum(squares) / n + eps));
    for (int i = 0; i < width; i += 16) {
        const int left = width - i;
        F v = load_part(x + i, left);
        if (layer) v = sub(v, set(mean));
        v = mul(mul(v, inverse), load_part(weight + i, left));
        if (bias) v = add(v, load_part(bias + i, left));
        store_part(out + i, v, left);
    }
}

// 0 where all is 0, or so small that the quotient is infinite, or not a number.
INLINE float finite_or_0(float x) { return std::fabs(x) <= __FLT_MAX__ ? x : 0.0f; }

INLINE F round_codes(F x, float inverse) {
    const F magic = set(12582912.0f), scaled = min(max(mul(x, set(inverse)), set(-127.0f)), set(127.0f));
    return sub(add(scaled, magic), magic);
}

// Where a group of a token goes.
template <int M> struct Slot {
    ActGroup<M>* group;
    int place;
};

// Up to 16 groups of 32 floats to int8, side by side: scale = max|x| / 127, code = round-half-even(x * (127 / max|x|)).
// A NaN or an infinity makes the scale NaN, so that it survives. half(n, h): half of the n-th, 16 floats; to(n): its
// slot.
template <int M, class Half, class To> INLINE void quantize_sixteen(int count, const Half& half, const To& to) {
    const F limit = set(127.0f), infinity = set(__builtin_inff());
    alignas(64) float inverse[16], scale[16];
    I rows[16];
    for (int n = 0; n < 16; n++) rows[n] = n < count ? imax(as_int(abs(half(n, 0))), as_int(abs(half(n, 1)))) : iset(0);
    const F top = as_float(largest_each(rows)), quotient = div(limit, top);
    store(inverse, where_less(abs(quotient), infinity, quotient, zero()));
    store(scale, where_less(top, infinity, div(top, limit), set(__builtin_nanf(""))));
    int32_t total[2][16];
    for (int h = 0; h < 2; h++) {
        for (int n = 0; n < 16; n++) rows[n] = n < count ? to_int(round_codes(half(n, h), inverse[n])) : iset(0);
        for (int n = 0; n < count; n++) {
            const Slot<M> s = to(n);
            store_i8(s.group->codes[s.place] + 16 * h, rows[n]);
        }
        istore(total[h], sum_each(rows));
    }
    for (int n = 0; n < count; n++) {
        const Slot<M> s = to(n);
        s.group->scale[s.place] = scale[n];
        s.group->sum[s.place] = scale[n] * (float)(total[0][n] + total[1][n]);
        s.group->minus[s.place] = -(total[0][n] + total[1][n]);
        s.group->minus_half[0][s.place] = -total[0][n];
        s.group->minus_half[1][s.place] = -total[1][n];
    }
}

// Rows of tokens into the places place .. of a tile of M. inputs is padded with zeros to whole groups. Side by side are
// the same group of many tokens, or neighbouring groups of one.
template <int M> static void quantize_rows(const float* const* x, int count, int inputs, void* tile, int place) {
    ActGroup<M>* out = (ActGroup<M>*)tile;
    const auto half = [&](int m, int at) { return at < inputs ? load_part(x[m] + at, inputs - at) : zero(); };
    if (count > 2) {
        for (int i = 0; i < inputs; i += kGroup, out++)
            quantize_sixteen<M>(
                count, [&](int m, int h) { return half(m, i + 16 * h); },
                [&](int m) { return Slot<M>{out, place + m}; });
        return;
    }
    for (int m = 0; m < count; m++)
        for (int i = 0, left; (left = (inputs - i + kGroup - 1) / kGroup) > 0; i += 16 * kGroup)
            quantize_sixteen<M>(
                left < 16 ? left : 16, [&](int g, int h) { return half(m, i + kGroup * g + 16 * h); },
                [&](int g) { return Slot<M>{out + i / kGroup + g, place + m}; });
}

// Turns one head in place. half: i with i + half; interleaved: 2i with 2i + 1. cos, sin: [half].
static void rotate(float* x, const float* cosine, const float* sine, int half, bool interleaved) {
    if (interleaved) {
        for (int i = 0; i < half; i++) {
            const float a = x[2 * i], b = x[2 * i + 1];
            x[2 * i] = a * cosine[i] - b * sine[i];
            x[2 * i + 1] = b * cosine[i] + a * sine[i];
        }
        return;
    }
    for (int i = 0; i < half; i += 16) {
        const int left = half - i;
        const F a = load_part(x + i, left), b = load_part(x + half + i, left);
        const F c = load_part(cosine + i, left), s = load_part(sine + i, left);
        store_part(x + i, sub(mul(a, c), mul(b, s)), left);
        store_part(x + half + i, add(mul(b, c), mul(a, s)), left);
    }
}

// out = activation(gate) * up, or activation(up) where gate is null.
static void gate_up(int kind, const float* gate, const float* up, float* out, int n) {
    for (int i = 0; i < n; i += 16) {
        const int left = n - i;
        const F u = load_part(up + i, left);
        store_part(out + i, gate ? mul(activate(kind, load_part(gate + i, left)), u) : activate(kind, u), left);
    }
}

static void add_scaled(float* to, const float* from, float scale, const float* x, size_t apart, int n) {
    for (int i = 0; i < n; i += 16, x += apart)
        store_part(to + i, add(load_part(from + i, n - i), mul(set(scale), load(x))), n - i);
}

static void soft_cap(float* x, int n, float cap) {
    for (int i = 0; i < n; i += 16) {
        const int left = n - i;
        store_part(x + i, mul(set(cap), tanh(div(load_part(x + i, left), set(cap)))), left);
    }
}

// Softmax over n values, in place; the sum runs in index order.
static void softmax(float* x, int n) {
    float top = x[0];
    for (int i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
    float total = 0.0f;
    for (int i = 0; i < n; i += 16) {
        const int left = n - i;
        store_part(x + i, exp(sub(load_part(x + i, left), set(top))), left);
    }
    for (int i = 0; i < n; i++) total += x[i];
    for (int i = 0; i < n; i++) x[i] /= total;
}

}  // namespace
