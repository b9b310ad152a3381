// Candidate selection over a row of logits: what the sampler needs of 152,000 numbers without sorting them.
//
// Order: logit descending, then id ascending (-0 equals +0). Odds and their sums: see fixed_point.h.
// No Python in here. One Scratch serves one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "fixed_point.h"

#if defined(CUTAWAY_PLAIN)
#define CUTAWAY_CLONES
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
// The same source three times, chosen when the extension is loaded; a lane computes what the plain code computes.
#define CUTAWAY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CUTAWAY_CLONES
#endif

#if defined(__GNUC__) && !defined(__clang__)
// An extension built for size would run these loops ten times slower.
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif

namespace cutaway::select {

// What is wrong with a row, as returned in place of a token.
enum Fault : int64_t { HOLDS_NAN = -1, HOLDS_INFINITY = -2, ALL_BANNED = -3 };

// ---------------------------------------------------------------- passes over the row

// blocks[b] = largest key of block b; returns the largest magnitude's bits, which shows a NaN.
CUTAWAY_CLONES static int32_t block_maxima(const float* row, int64_t n, int32_t* blocks) {
    int32_t magnitude = 0;
    int64_t whole = n / BLOCK;
    for (int64_t b = 0; b < whole; ++b) {
        int32_t top = INT32_MIN, most = 0;
        for (int64_t i = 0; i < BLOCK; ++i) {
            float x = row[b * BLOCK + i];
            int32_t key = key_of(x), m = std::bit_cast<int32_t>(x) & 0x7fffffff;
            top = key > top ? key : top;
            most = m > most ? m : most;
        }
        blocks[b] = top;
        magnitude = most > magnitude ? most : magnitude;
    }
    if (whole * BLOCK < n) {
        int32_t top = INT32_MIN;
        for (int64_t i = whole * BLOCK; i < n; ++i) {
            top = std::max(top, key_of(row[i]));
            magnitude = std::max(magnitude, std::bit_cast<int32_t>(row[i]) & 0x7fffffff);
        }
        blocks[whole] = top;
    }
    return magnitude;
}

struct Mass {
    int64_t total = 0;   // sum of odds
    int64_t spread = 0;  // sum of odds * -y, y = (logit - max) * inverse: entropy = ln(total) + spread / total
    int64_t finite = 0;  // tokens above -infinity
};

// After block_maxima. A block whose best token is e^-32 times as likely as the row's holds no odds above 0.
CUTAWAY_CLONES static int64_t sum_odds(const float* row, int64_t n, const int32_t* blocks, double top, double inverse) {
    int64_t total = 0;
    for (int64_t b = 0; b * BLOCK < n; ++b) {
        if ((static_cast<double>(value_of(blocks[b])) - top) * inverse < -32.0) continue;
        const float* x = row + b * BLOCK;
        if ((b + 1) * BLOCK <= n) {
            for (int64_t i = 0; i < BLOCK; ++i)
                total += to_units(exp_nonpositive((static_cast<double>(x[i]) - top) * inverse));
        } else {
            for (int64_t i = 0; i < n - b * BLOCK; ++i)
                total += to_units(exp_nonpositive((static_cast<double>(x[i]) - top) * inverse));
        }
    }
    return total;
}

CUTAWAY_CLONES static Mass measure(const float* row, int64_t n, double top, double inverse) {
    int64_t total = 0, spread = 0, finite = 0;
    for (int64_t i = 0; i < n; ++i) {
        double y = (static_cast<double>(row[i]) - top) * inverse;
        y = y < -40.0 ? -40.0 : y;
        double w = exp_nonpositive(y);
        total += to_units(w);
        spread += to_units(w * -y);
        finite += key_of(row[i]) > KEY_MINUS_INFINITY ? 1 : 0;
    }
    return {total, spread, finite};
}

CUTAWAY_CLONES static void odds(const float* logits, int64_t n, double top, double inverse, int64_t* out) {
    for (int64_t i = 0; i < n; ++i)
        out[i] = to_units(exp_nonpositive((static_cast<double>(logits[i]) - top) * inverse));
}

// How many tokens come before `token` in the order.
CUTAWAY_CLONES static int64_t count_before(const float* row, int64_t n, int64_t token) {
    float x = row[token];
    int64_t above = 0, ties = 0;
    for (int64_t i = 0; i < n; ++i) above += row[i] > x ? 1 : 0;
    for (int64_t i = 0; i < token; ++i) ties += row[i] == x ? 1 : 0;
    return above + ties;
}

// ---------------------------------------------------------------- selection

struct Scratch {
    std::vector<int32_t> blocks, ranked;
    std::vector<uint64_t> entries, spare;
};

// Fills scratch.blocks. Returns the best token, or a Fault.
inline int64_t best_token(const float* row, int64_t n, Scratch& s) {
    s.blocks.resize((n + BLOCK - 1) / BLOCK);
    int32_t magnitude = block_maxima(row, n, s.blocks.data());
    if (magnitude > KEY_INFINITY) return HOLDS_NAN;
    int64_t b = std::max_element(s.blocks.begin(), s.blocks.end()) - s.blocks.begin();
    int32_t top = s.blocks[b];
    if (top == KEY_INFINITY) return HOLDS_INFINITY;
    if (top == KEY_MINUS_INFINITY) return ALL_BANNED;
    int64_t i = b * BLOCK;
    while (key_of(row[i]) != top) ++i;
    return i;
}

// Entries are unique and come in ascending id order, so a stable sort by the upper half is the whole order.
inline void radix_sort(std::vector<uint64_t>& a, std::vector<uint64_t>& spare) {
    constexpr int PASSES = 3, BITS = 11, BINS = 1 << BITS;
    std::vector<uint32_t> counts(PASSES * BINS, 0);
    for (uint64_t e : a)
        for (int p = 0; p < PASSES; ++p) ++counts[p * BINS + ((e >> (32 + p * BITS)) & (BINS - 1))];
    spare.resize(a.size());
    for (int p = 0; p < PASSES; ++p) {
        uint32_t* at = counts.data() + p * BINS;
        uint32_t sum = 0;
        for (int i = 0; i < BINS; ++i) {
            uint32_t c = at[i];
            at[i] = sum;
            sum += c;
        }
        for (uint64_t e : a) spare[at[(e >> (32 + p * BITS)) & (BINS - 1)]++] = e;
        a.swap(spare);
    }
}

// After best_token: scratch.entries = the k best above -infinity (fewer where there are fewer), in order.
// The k-th largest block maximum bounds the k-th best logit from below, so few blocks are looked into.
inline void select_top(const float* row, int64_t n, int64_t k, Scratch& s) {
    s.entries.clear();
    int64_t blocks = static_cast<int64_t>(s.blocks.size());
    int32_t least = KEY_MINUS_INFINITY + 1;
    if (k < blocks) {
        s.ranked = s.blocks;
        std::nth_element(s.ranked.begin(), s.ranked.begin() + (k - 1), s.ranked.end(), std::greater<>());
        least = std::max(least, s.ranked[k - 1]);
    }
    for (int64_t b = 0; b < blocks; ++b) {
        if (s.blocks[b] < least) continue;
        int64_t end = std::min(n, (b + 1) * BLOCK);
        for (int64_t i = b * BLOCK; i < end; ++i) {
            int32_t key = key_of(row[i]);
            if (key >= least) s.entries.push_back(entry_of(key, static_cast<uint32_t>(i)));
        }
    }
    if (s.entries.size() > 8192 && k > 1024) {
        radix_sort(s.entries, s.spare);
    } else {
        auto end = s.entries.begin() + std::min<int64_t>(k, s.entries.size());
        if (end != s.entries.end()) std::nth_element(s.entries.begin(), end, s.entries.end());
        std::sort(s.entries.begin(), end);
    }
    if (static_cast<int64_t>(s.entries.size()) > k) s.entries.resize(k);
}

// The k best in order, as ids: how many there were, or a Fault.
inline int64_t order(const float* row, int64_t n, int64_t k, int32_t* out, Scratch& s) {
    if (int64_t best = best_token(row, n, s); best < 0) return best;
    if (k < 1) return 0;
    select_top(row, n, k, s);
    for (uint64_t entry : s.entries) *out++ = static_cast<int32_t>(id_of(entry));
    return static_cast<int64_t>(s.entries.size());
}

// ---------------------------------------------------------------- the fused draw

struct Truncation {
    double inverse;  // 1 / temperature
    int64_t top_k;   // 0: off
    double top_p;    // 1: off
    double min_p;    // 0: off
};

// The stages temperature, top_k, top_p, min_p and the draw, in that order, over as few of the best as settle it.
// `total`: the odds of everything before top_p (all tokens, or those of top_k). Returns the place in `entries`, or -1
// where these entries do not settle it (more must be selected).
inline int64_t draw_among(const std::vector<uint64_t>& entries, const std::vector<int64_t>& w, bool all, int64_t total,
                          const Truncation& t, uint64_t uniform53) {
    int64_t kept = static_cast<int64_t>(entries.size());
    bool settled = all;
    int64_t mass = total;
    if (t.top_p < 1.0) {
        double wanted = t.top_p * static_cast<double>(total);
        int64_t sum = 0;
        for (int64_t i = 0; i < kept; ++i) {
            sum += w[i];
            if (static_cast<double>(sum) >= wanted) {
                kept = i + 1, mass = sum, settled = true;
                break;
            }
        }
    }
    if (t.min_p > 0.0) {
        double least = t.min_p * UNIT;
        int64_t sum = 0, i = 0;
        while (i < kept && static_cast<double>(w[i]) >= least) sum += w[i++];
        if (i < kept || settled) kept = i, mass = sum, settled = true;
    }
    if (!settled && (t.top_p < 1.0 || t.min_p > 0.0)) return -1;
    auto target = static_cast<int64_t>((static_cast<unsigned __int128>(uniform53) * static_cast<uint64_t>(mass)) >> 53);
    int64_t sum = 0;
    for (int64_t i = 0; i < kept; ++i) {
        sum += w[i];
        if (sum > target) return i;
    }
    return -1;
}

// Returns a token or a Fault. uniform53: 53 random bits.
inline int64_t draw(const float* row, int64_t n, const Truncation& t, uint64_t uniform53, Scratch& s) {
    int64_t best = best_token(row, n, s);
    if (best < 0) return best;
    double top = static_cast<double>(row[best]);
    bool limited = t.top_k > 0 && t.top_k < n;
    bool min_p_alone = t.top_p >= 1.0 && t.min_p > 0.0;  // then only what is kept is summed
    int64_t total = limited || min_p_alone ? 0 : sum_odds(row, n, s.blocks.data(), top, t.inverse);
    std::vector<int64_t> w;
    const int64_t blocks = static_cast<int64_t>(s.blocks.size());
    // where block maxima no longer narrow the search, everything is sorted once
    for (int64_t k = limited ? t.top_k : std::min<int64_t>(n, 256);; k = k * 8 < blocks ? k * 8 : n) {
        select_top(row, n, k, s);
        w.resize(s.entries.size());
        for (size_t i = 0; i < w.size(); ++i)
            w[i] = to_units(exp_nonpositive((static_cast<double>(logit_of(s.entries[i])) - top) * t.inverse));
        if (limited) total = std::accumulate(w.begin(), w.end(), int64_t{0});
        bool all = limited || k >= n || static_cast<int64_t>(s.entries.size()) < k;
        int64_t at = draw_among(s.entries, w, all, total, t, uniform53);
        if (at >= 0) return id_of(s.entries[at]);
    }
}

}  // namespace cutaway::select

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
