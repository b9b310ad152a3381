// Our own exp and what rests on it, so that no libm decides a bit. Sixteen lanes at a time.
#pragma once
#include "vec.h"

namespace cutaway::CUTAWAY_ISA {

// e^x: x = n ln 2 + r, |r| <= ln 2 / 2, a degree-6 polynomial in r, times 2^n. Within 1.2 ulp on [-87, 88]; below: 0
// (also for -inf); NaN stays NaN.
INLINE F exp(F x) {
    const F clamped = max(set(-87.0f), min(set(88.0f), x));  // the second operand wins: NaN stays
    const F magic = set(12582912.0f);                        // 1.5 * 2^23: adding it rounds to an integer
    const F shifted = fma(clamped, set(1.44269504f), magic);
    const F n = sub(shifted, magic);
    F r = fma(n, set(-0.693359375f), clamped);
    r = fma(n, set(2.12194440e-4f), r);
    F p = set(1.98756915e-4f);
    p = fma(p, r, set(1.3981999e-3f));
    p = fma(p, r, set(8.3334519e-3f));
    p = fma(p, r, set(4.1665796e-2f));
    p = fma(p, r, set(1.6666665e-1f));
    p = fma(p, r, set(5.0e-1f));
    p = fma(p, mul(r, r), add(r, set(1.0f)));
    const I power = ishl<23>(iadd(as_int(shifted), iset(127 - 0x4b400000)));
    return where_less(x, set(-87.0f), zero(), mul(p, as_float(power)));
}

INLINE F sigmoid(F x) { return div(set(1.0f), add(set(1.0f), exp(sub(zero(), x)))); }

// 1 - 2 / (e^2x + 1): absolute error below 1e-7.
INLINE F tanh(F x) { return sub(set(1.0f), div(set(2.0f), add(exp(add(x, x)), set(1.0f)))); }

// Abramowitz and Stegun 7.1.26: absolute error below 2e-7.
INLINE F erf(F x) {
    const F a = abs(x), t = div(set(1.0f), fma(set(0.3275911f), a, set(1.0f)));
    F p = set(1.061405429f);
    p = fma(p, t, set(-1.453152027f));
    p = fma(p, t, set(1.421413741f));
    p = fma(p, t, set(-0.284496736f));
    p = fma(p, t, set(0.254829592f));
    const F y = sub(set(1.0f), mul(mul(p, t), exp(sub(zero(), mul(a, a)))));
    return where_less(x, zero(), sub(zero(), y), y);
}

enum Activation { kSilu = 0, kGelu = 1, kGeluTanh = 2, kRelu = 3 };

INLINE F activate(int kind, F x) {
    switch (kind) {
        case kSilu: return div(x, add(set(1.0f), exp(sub(zero(), x))));
        case kGelu: return mul(mul(set(0.5f), x), add(set(1.0f), erf(mul(x, set(0.70710678f)))));
        case kGeluTanh: {
            const F inner = mul(set(0.79788456f), fma(mul(set(0.044715f), mul(x, x)), x, x));
            return mul(mul(set(0.5f), x), add(set(1.0f), tanh(inner)));
        }
        default: return where_less(x, zero(), zero(), x);
    }
}

}  // namespace
