// A half-precision float, without the processor's help.
#pragma once
#include <cstdint>
#include <cstring>

namespace cutaway {

// Static: a copy of each instruction set's own, so that none runs where its processor is another.
static inline float fp16_to_float(uint16_t h) {
    const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    float f;
    if (exponent == 0) {
        f = (float)mantissa * 0x1p-24f;
    } else {
        const uint32_t bits = (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
        std::memcpy(&f, &bits, 4);
    }
    return h & 0x8000 ? -f : f;
}

}  // namespace cutaway
