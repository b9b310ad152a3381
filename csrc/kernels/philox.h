// Random numbers without a state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", 2011).
#pragma once

#include <array>
#include <cstdint>

namespace cutaway::select {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

inline Counter philox(Counter c, Key k) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t left = uint64_t{0xD2511F53} * c[0], right = uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<uint32_t>(right >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(right),
             static_cast<uint32_t>(left >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(left)};
        k = {k[0] + 0x9E3779B9, k[1] + 0xBB67AE85};
    }
    return c;
}

// 53 bits: the first output word and the upper 21 bits of the second.
inline uint64_t uniform53(uint64_t seed, uint32_t choice, uint64_t position, uint32_t use) {
    const Counter counter{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, use};
    const Counter words = philox(counter, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    return uint64_t{words[0]} << 21 | words[1] >> 11;
}

}  // namespace cutaway::select
