// The codes of a group, unpacked, and their dots with the activations of a token: exact integers, in any order.
#pragma once
#include <algorithm>

#include "functions.h"
#include "layout.h"

namespace cutaway::CUTAWAY_ISA {

// Every loop over a tile's accumulators: one that stays a loop keeps them all in memory.
#if defined(__AVX2__)
#define UNROLL_TOKENS _Pragma("GCC unroll 16")
#else
#define UNROLL_TOKENS
#endif

template <int N> INLINE B shift(B x) {
    if constexpr (N > 0)
        return bshl<N>(x);
    else if constexpr (N < 0)
        return bshr<-N>(x);
    else
        return x;
}

// The quads J and J + 4 of a group, from its nibble line J and what bits it has above the nibbles.
template <int C, int J> INLINE void two_quads(B line, const B* high, const uint8_t* table, B& a, B& b) {
    const B mask = bset(15);
    a = band(line, mask), b = band(bshr<4>(line), mask);
    if constexpr (C == kTable) a = lookup(a, table), b = lookup(b, table);
    if constexpr (C == kFive)
        a = bor(a, band(shift<4 - J>(high[0]), bset(16))), b = bor(b, band(shift<-J>(high[0]), bset(16)));
    if constexpr (C == kSix)
        a = bor(a, band(shift<4 - 2 * J>(high[0]), bset(0x30))),
        b = bor(b, band(shift<4 - 2 * J>(high[1]), bset(0x30)));
}

// Codes of a group: eight lines, quad j in q[j].
template <int C> INLINE void unpack(const uint8_t* p, const uint8_t* table, B* q) {
    if constexpr (C == kByte) {
        for (int j = 0; j < 8; j++) q[j] = bload(p + 64 * j);
        return;
    }
    B high[2] = {};
    for (int i = 0; i < kHighLines[C]; i++) high[i] = bload(p + 64 * i);
    const uint8_t* n = p + 64 * kHighLines[C];
    two_quads<C, 0>(bload(n), high, table, q[0], q[4]);
    two_quads<C, 1>(bload(n + 64), high, table, q[1], q[5]);
    two_quads<C, 2>(bload(n + 128), high, table, q[2], q[6]);
    two_quads<C, 3>(bload(n + 192), high, table, q[3], q[7]);
}

template <int C> INLINE I dot_codes(I acc, B codes, int four) {
    if constexpr (C == kByte || C == kTable)
        return dot_byte(acc, codes, four);
    else
        return dot(acc, codes, four);
}

// Pair sums of codes that fit 16 bits together: 127 * 2 * (the largest code) * so many is below 2^15.
constexpr int kPairsThatFit[] = {8, 4, 2, 1, 1};
static_assert(127 * 2 * 15 * 8 < 32768 && 127 * 2 * 31 * 4 < 32768 && 127 * 2 * 63 * 2 < 32768);

constexpr int log2_of(int x) { return x <= 1 ? 0 : 1 + log2_of(x / 2); }

// Where the accumulator of a token's dot starts: -offset * (sum of its codes). Bytes that this instruction set makes
// signed again have lost their 128.
template <int C, int S> INLINE I start(const int32_t* minus) {
    constexpr int offset = offset_of(C, S) - (C == kByte || C == kTable ? 128 - kByteOffset : 0);
    if constexpr (offset == 0)
        return iset(0);
    else
        return ishl<log2_of(offset)>(iset(*minus));
}

// Tokens whose dots are computed side by side: a dot is a chain of eight, and a core looks ahead no further than one or
// two; and a line of codes is loaded once for all of them.
#if defined(__AVX512F__) || defined(CUTAWAY_PAIR_SUMS)
template <int M> constexpr int kTogether = M < 4 ? 1 : 4;
#else
template <int M> constexpr int kTogether = 1;
#endif

// Dots on top of what was before. Of N quads, the first of them the group's quad `first`, with T tokens; x:
// [T][kGroup].
template <int C, int N, int T> INLINE void dot_quads(const B* q, int first, const int8_t* x, I* d) {
#if defined(CUTAWAY_PAIR_SUMS)
    if constexpr (kPairsThatFit[C] > 1) {
        constexpr int fit = std::min(N, kPairsThatFit[C]);
        UNROLL_TOKENS
        for (int from = 0; from < N; from += fit) {
            Pairs s[T];
            UNROLL_TOKENS
            for (int j = from; j < from + fit; j++) UNROLL_TOKENS
            for (int i = 0; i < T; i++) {
                const Pairs p = pair_sums(q[j], int_at(x + kGroup * i + 4 * (first + j)));
                s[i] = j == from ? p : padd(s[i], p);
            }
            UNROLL_TOKENS
            for (int i = 0; i < T; i++) d[i] = widen(d[i], s[i]);
        }
        return;
    }
#endif
    for (int j = 0; j < N; j++)
        UNROLL_TOKENS
        for (int i = 0; i < T; i++) d[i] = dot_codes<C>(d[i], q[j], int_at(x + kGroup * i + 4 * (first + j)));
}

// The dots of both halves of a group with one or two tokens, d[half][token]. Two chains, for the latency of a dot.
template <int C, int M>
INLINE void dot_group(const uint8_t* codes, const uint8_t* table, const int8_t (*x)[kGroup], I (*d)[M]) {
#if defined(CUTAWAY_PAIR_SUMS)
    if constexpr (kPairsThatFit[C] > 1) {  // line by line: sixteen registers do not hold a group's codes
        B high[2] = {};
        for (int i = 0; i < kHighLines[C]; i++) high[i] = bload(codes + 64 * i);
        Pairs s[2][M];
        const auto line = [&]<int J>() __attribute__((always_inline)) {
            B quad[2];
            two_quads<C, J>(bload(codes + 64 * (kHighLines[C] + J)), high, table, quad[0], quad[1]);
            constexpr bool begins = J % kPairsThatFit[C] == 0, ends = J == 3 || (J + 1) % kPairsThatFit[C] == 0;
            UNROLL_TOKENS
            for (int h = 0; h < 2; h++)
                UNROLL_TOKENS
                for (int m = 0; m < M; m++) {
                    const Pairs p = pair_sums(quad[h], int_at(x[m] + 16 * h + 4 * J));
                    s[h][m] = begins ? p : padd(s[h][m], p);
                    if (ends) d[h][m] = widen(d[h][m], s[h][m]);
                }
        };
        line.template operator()<0>(), line.template operator()<1>(), line.template operator()<2>(),
            line.template operator()<3>();
        return;
    }
#endif
    B q[8];
    unpack<C>(codes, table, q);
    UNROLL_TOKENS
    for (int m = 0; m < M; m++)
        for (int j = 0; j < 4; j++)
            UNROLL_TOKENS
            for (int h = 0; h < 2; h++) d[h][m] = dot_codes<C>(d[h][m], q[4 * h + j], int_at(x[m] + 16 * h + 4 * j));
}

}  // namespace
