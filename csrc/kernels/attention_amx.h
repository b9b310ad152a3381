// Attention (see attention.h) on a matrix unit, for keys and values in bf16: 16 rows at a time.
//
//   scores  C [16 rows][16 tokens]  = sum over 32 inputs of Q x K; a block of keys is B as it lies
//   values  C [16 rows][16 inputs]  = sum over 32 tokens of P x V; V in pairs of tokens is B
//
// Of each sum, the high parts come first, then the low ones.
//
// A segment's scores lie block by block, [16 rows][16], and turn into parts of p in place: two blocks' 2 KB of scores
// are 1 KB of high parts, [16 rows][32], and 1 KB of low ones. What a row sees of 32 tokens is always summed in one
// pass, and p is 0 where it sees nothing, so its bits depend on nothing else.
#pragma once
#include "attention.h"
#include "bf16_amx.h"

namespace cutaway::CUTAWAY_ISA {

// A unit that did nothing for 0.65 us sleeps, and all the core waits 0.33 us for it when it is next used.
INLINE void stay_awake() { _tile_dpbf16ps(0, 4, 6); }

// Values in pairs, for every two blocks [head_dim / 16] tiles: the token i of one beside the token i of the other.
// Inputs come in the order in which registers pair up: of 32, 0..3, 8..11, 16..19, 24..27 in one tile, the rest in the
// next.
INLINE void pair_lines(const uint8_t* x, const uint8_t* y, uint8_t* to) {
    const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(y);
    _mm512_store_si512(to, _mm512_unpacklo_epi16(a, b));
    _mm512_store_si512(to + kTileBytes, _mm512_unpackhi_epi16(a, b));
}

// Where N blocks lie; in the place of one that is not there, another: p is 0.
template <int N> struct Runs {
    const uint8_t *keys[N] = {}, *values[N] = {};
    Runs() = default;
    Runs(const AttendBlocks& blocks, int first) {
        for (int i = 0; i < N; i++) keys[i] = blocks.keys[first + i], values[i] = blocks.values[first + i];
        for (int i = 0; i < N; i++)
            for (int j = 0; !keys[i] && j < N; j++) keys[i] = keys[j], values[i] = values[j];
    }
};

// Those of a segment to `room`, for several tiles of rows. Meanwhile the keys are prefetched.
static void pair_values(AttendBlocks& blocks, float* room) {
    const size_t d = blocks.head_dim;
    for (int b = 0; b < kBlocks; b += 4) {
        const Runs<4> runs(blocks, b);
        if (!runs.keys[0]) continue;
        const auto &k = runs.keys, &v = runs.values;
        stay_awake();
        uint8_t* to = (uint8_t*)room + b * d * kDepth;
        for (size_t at = 0, end = 32 * d; at < end; to += 64)
            for (uint8_t* line = to; line < to + 64 * d; line += 2 * kTileBytes, at += 64)
                for (int i = 0; i < 4; i += 2) {
                    prefetch(k[i] + at), prefetch(k[i + 1] + at);
                    pair_lines(v[i] + at, v[i + 1] + at, line + i * d * kDepth);
                }
    }
    blocks.pairs = (const uint8_t*)room;
}

// Those of two blocks, for one tile of rows: 16 N inputs from `at` bytes on, to N tiles.
template <int N> INLINE void pair_two(const uint8_t* x, const uint8_t* y, size_t at, size_t d, uint8_t* to) {
    if (!x) x = y;  // p is 0
    if (!y) y = x;
    for (int t = 0; t < 16; t++, at += 2 * d, to += 64)
        for (int i = 0; i < N; i += 2) pair_lines(x + at + 32 * i, y + at + 32 * i, to + kTileBytes * i);
}

// One tile of rows waits for memory, which gives most to eight runs that are read in step: the keys of eight blocks,
// then their values, which lie behind them in a page.
class Eight {
    Runs<8> runs_;
    size_t at_ = 0, end_ = 0;

  public:
    Eight() = default;
    Eight(const AttendBlocks& blocks, int first)
        : runs_(blocks, first), end_(runs_.keys[0] ? 32 * (size_t)blocks.head_dim : 0) {}
    void ask_keys(size_t from, size_t lines) const {
        for (size_t at = 64 * from, end = std::min(end_, at + 64 * lines); at < end; at += 64)
            for (const uint8_t* k : runs_.keys) prefetch(k + at);
    }
    void ask_values(size_t lines) {  // so many more
        for (size_t end = std::min(end_, at_ + 64 * lines); at_ < end; at_ += 64)
            for (const uint8_t* v : runs_.values) __builtin_prefetch(v + at_, 0, 2);
    }
};

// O / L, the inputs in order again.
static void finish_pairs(const float* O, float L, float* out, int d) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                  second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    for (int i = 0; i < d; i += kDepth) {
        const F a = div(load(O + i), set(L)), b = div(load(O + i + 16), set(L));
        store(out + i, {_mm512_permutex2var_ps(a.v, first, b.v)}),
            store(out + i + 16, {_mm512_permutex2var_ps(a.v, second, b.v)});
    }
}

// q . k of two blocks for 16 rows, to s [2][16][16].
INLINE void score_two(const uint8_t* q, int d, const uint8_t* k0, const uint8_t* k1, float* s) {
    _tile_zero(0);
    _tile_zero(1);
    for (int i = 0; i < d; i += kDepth, q += 2 * kTileBytes, k0 += kTileBytes, k1 += kTileBytes) {
        _tile_loadd(2, q, 64);
        _tile_loadd(6, k0, 64);
        _tile_dpbf16ps(0, 2, 6);
        _tile_loadd(7, k1, 64);
        _tile_dpbf16ps(1, 2, 7);
        _tile_loadd(3, q + kTileBytes, 64);
        _tile_dpbf16ps(0, 3, 6);
        _tile_dpbf16ps(1, 3, 7);
    }
    _tile_stored(0, s, 64);
    _tile_stored(1, s + 256, 64);
}

// 2^x for x <= 0 (and NaN): the fraction's power by a polynomial of degree 4, within 3e-6; below -126: 0.
INLINE F power_of_2(F x) {
    const F r = {_mm512_reduce_ps(x.v, 0x09)};  // x - floor(x)
    F p = fma(r, set(1.353414559e-2f), set(5.201149204e-2f));
    p = fma(p, r, set(2.414427465e-1f));
    p = fma(p, r, set(6.930038342e-1f));
    p = fma(p, r, set(1.000002594e+0f));
    return {_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, set(-126.0f).v, _CMP_NLT_UQ), p.v, x.v)};
}

// The parts of a and b >= 0, a's and b's by turns, cut off and not rounded: 16 bits of the mantissa are left.
INLINE void cut_pair(F a, F b, float* high, float* low) {
    const __m512i top = _mm512_set1_epi32((int)0xffff0000);
    const auto cut = [&](F x) { return F{_mm512_castsi512_ps(_mm512_and_si512(as_int(x).v, top))}; };
    const auto join = [&](F x, F y) {
        return _mm512_ternarylogic_epi32(_mm512_srli_epi32(as_int(x).v, 16), as_int(y).v, top, 0xf8);
    };  // x | y & top
    _mm512_store_si512(high, join(a, b));
    _mm512_store_si512(low, join(sub(a, cut(a)), sub(b, cut(b))));
}

// Scores of R rows to parts of p; their maxima m, and l = the sums of p. s: the first row's line in the segment's first
// block. Several rows at a time, for every row is chains.
template <int R> INLINE void soften(float* s, int begin, int end, const bool* masked, float* m, float* l) {
    F most[R][2], total[R][2];
    for (int r = 0; r < R; r++) most[r][0] = most[r][1] = set(kMasked), total[r][0] = total[r][1] = zero();
    for (int b = 2 * begin; b < 2 * end; b += 2)
        for (int r = 0; r < R; r++)
            for (int h = 0; h < 2; h++)
                most[r][h] = max(load(s + 256 * (b + h) + 16 * r),
                                 most[r][h]);  // passes over a NaN score; 2^ of it carries it on
    F top[R];
    for (int r = 0; r < R; r++) {
        const float x = largest(max(most[r][0], most[r][1]));
        m[r] = masked[r] ? kMasked : x == kMasked ? 0.0f : x;  // 0: nothing but NaN
        top[r] = set(masked[r] ? __builtin_inff() : m[r]);
    }
    for (float* at = s + 512 * begin; at < s + 512 * end; at += 512)
        for (int r = 0; r < R; r++) {
            const F a = power_of_2(sub(load(at + 16 * r), top[r])),
                    b = power_of_2(sub(load(at + 16 * r + 256), top[r]));
            total[r][0] = add(total[r][0], a), total[r][1] = add(total[r][1], b);
            cut_pair(a, b, at + 16 * r, at + 16 * r + 256);
        }
    for (int r = 0; r < R; r++) l[r] = sum(add(total[r][0], total[r][1]));
}

// o [16][stride], the inputs i .. i + 16 N - 1: N tiles of them. The next segment's first keys are prefetched.
template <int N> INLINE void weigh_pairs(const uint8_t* p, const AttendBlocks& blocks, const Eight& next, int i,
                                         int begin, int end, float* o, int stride) {
    constexpr int kNextLines = 2;
    const size_t d = blocks.head_dim;
    alignas(64) uint8_t
        room[2][N * kTileBytes];  // stays in the first cache, where a segment's pairs would push other things out
    const auto pairs_of = [&](int c) { return blocks.pairs ? blocks.pairs + c * d * 64 + 64 * i : room[c % 2]; };
    const auto pair = [&](int c) {
        if (!blocks.pairs && c < end)
            pair_two<N>(blocks.values[2 * c], blocks.values[2 * c + 1], 2 * i, d, room[c % 2]);
    };
    pair(begin);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int c = begin; c < end; c++) {
        const uint8_t *parts = p + 2 * kTileBytes * c, *pairs = pairs_of(c);
        pair(c + 1);
        if (!i) next.ask_keys(kNextLines * c, kNextLines);
        settle();
        _tile_loadd(4, parts, 64);
        _tile_loadd(5, parts + kTileBytes, 64);
        _tile_loadd(6, pairs, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, pairs + kTileBytes, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(0, 5, 6);
        _tile_dpbf16ps(1, 5, 7);
        if constexpr (N == 4) {
            _tile_loadd(6, pairs + 2 * kTileBytes, 64);
            _tile_dpbf16ps(2, 4, 6);
            _tile_loadd(7, pairs + 3 * kTileBytes, 64);
            _tile_dpbf16ps(3, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, o, stride * sizeof(float));
    _tile_stored(1, o + 16, stride * sizeof(float));
    if constexpr (N == 4) {
        _tile_stored(2, o + 32, stride * sizeof(float));
        _tile_stored(3, o + 48, stride * sizeof(float));
    }
}

// As `segment`. p: [kBlocks][16][16] of scratch. blocks: with its pairs, where several tiles read them.
static void matrix_segment(const AttendBlocks& blocks, const AttendBlocks* next, const AttendView& at,
                           const AttendRows& rows, float* p, float* m, float* l, float* o, int stride) {
    const Seen seen(blocks, at, rows);
    const int d = blocks.head_dim, begin = seen.from / kDepth,
              end = (seen.to + kDepth - 1) / kDepth;  // in twos of blocks
    const uint8_t* q = (const uint8_t*)rows.q;
    settle();
    Eight eight;
    for (int b = 2 * begin; b < 2 * end; b += 2) {
        if (!blocks.pairs && (b == 2 * begin || b % 8 == 0)) {
            eight = Eight(blocks, b / 8 * 8);
            eight.ask_keys(0, d / 2);
            stay_awake();
        }
        eight.ask_values(d / 8);
        const uint8_t *k0 = blocks.keys[b], *k1 = blocks.keys[b + 1];
        if (!k0) k0 = k1;
        if (!k1) k1 = k0;
        score_two(q, d, k0, k1, p + 256 * b);
    }
    const Part part{blocks, at, rows, 0, 0, 0, 0, 0, 0, 0, p};
    for (int b = 2 * begin; b < 2 * end; b++) {
        if (seen.clear <= 16 * b && 16 * b + 16 <= seen.dim) continue;
        for (int r = 0; r < rows.count; r++) {
            float* x = p + 256 * b + 16 * r;
            store(x, blocks.keys[b] ? finish_score(part, b, r, load(x)) : set(kMasked));
        }
    }
    bool masked[kRowTile];
    for (int r = 0; r < rows.count; r++)
        masked[r] = rows.position[r] < blocks.start || rows.first[r] >= blocks.start + kSegment;
    int r = 0;
    for (; r + 4 <= rows.count; r += 4) {
        soften<4>(p + 16 * r, begin, end, masked + r, m + r, l + r);
        if (r % 8) stay_awake();
    }
    for (; r < rows.count; r++) soften<1>(p + 16 * r, begin, end, masked + r, m + r, l + r);
    settle();
    const uint8_t* parts = (const uint8_t*)p;
    const Eight soon = next && !blocks.pairs ? Eight(*next, 0) : Eight();
    int i = 0;
    for (; i + 64 <= d; i += 64) weigh_pairs<4>(parts, blocks, soon, i, begin, end, o + i, stride);
    if (i < d) weigh_pairs<2>(parts, blocks, soon, i, begin, end, o + i, stride);
}

}  // namespace
