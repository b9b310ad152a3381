// Attention over pages.
//
// A row (one query head of one token) sees the context in fixed segments of 256 tokens. In a segment: scores in units
// of ln 2, their maximum m, p = 2^(score - m), l = sum of p (lane by lane over blocks of 16, then the fixed tree), o =
// sum of p * v in ascending token order. Segments are merged in ascending order:
//
//   M' = max(M, m);  L' = L 2^(M - M') + l 2^(m - M');  O' = O 2^(M - M') + o 2^(m - M');   at last O / L
//
// Masked keys have p = 0 exactly, and a segment that is masked whole is skipped, so a row's bits do not depend on the
// rows beside it, on the chunk it came in, or on who computed which segment. Neither do they on how many rows and
// blocks are computed at a time, which is each instruction set's choice.
#pragma once
#include "functions.h"
#include "keys_values.h"

namespace cutaway::CUTAWAY_ISA {

constexpr float kMasked = -__builtin_inff();

// Rows at a time, and accumulators beside what they are multiplied by: as the registers allow. Widening takes some.
#if defined(__AVX512F__)
constexpr int kRegisterRows = 8;
template <int T> constexpr int kAccumulators = T == kKVF32 ? 24 : 16;
#elif defined(__AVX2__)
constexpr int kRegisterRows = 4;
template <int T> constexpr int kAccumulators = 4;
#else
constexpr int kRegisterRows = 1;
template <int T> constexpr int kAccumulators = 1;
#endif
// Vectors (of blocks, of a head) at a time, for R rows.
template <int T, int R> constexpr int kVectors = 4 * R <= kAccumulators<T> ? 4 : 2 * R <= kAccumulators<T> ? 2 : 1;

// 2^x for x <= 0 (and NaN): x = n + r, |r| <= 1/2, a degree-5 polynomial in r, times 2^n. Within 1.4 ulp; below -126:
// 0.
INLINE F exp2_negative(F x) {
    const F magic = set(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    const F shifted = add(x, magic), r = sub(x, sub(shifted, magic));
    F p = fma(r, set(1.32647273e-3f), set(9.67151299e-3f));
    p = fma(p, r, set(5.55073358e-2f));
    p = fma(p, r, set(2.40222424e-1f));
    p = fma(p, r, set(6.93147004e-1f));
    p = fma(p, r, set(1.0f));
    const I power = iadd(ishl<23>(as_int(shifted)), iset(127 << 23));
    return where_less(x, set(-126.0f), zero(), mul(p, as_float(power)));
}

// How many inputs of a block of keys fill a cache line.
template <int T> constexpr int kLineInputs = T == kKVF32 ? 1 : T == kKVBF16 ? 2 : 4;

template <int T> INLINE F load_keys(const uint8_t* p) {
    if constexpr (T == kKVF32) return load((const float*)p);
    if constexpr (T == kKVInt8) return to_float(load_i8((const int8_t*)p));
    return fp8_to_float(load_u8(p));
}

template <int T> INLINE void load_line(const uint8_t* p, F* k) {
    if constexpr (T == kKVBF16) {
        const I pair = iload((const int*)p);
        k[0] = as_float(ishl<16>(pair)), k[1] = as_float(iand(pair, iset((int)0xffff0000)));
    } else {
        for (int i = 0; i < kLineInputs<T>; i++) k[i] = load_keys<T>(p + i * 16 * kKVBytes[T]);
    }
}

// q . k for N blocks of 16 tokens and R rows, inputs in ascending order. q: [R][d]. Meanwhile the lines at `ahead` are
// prefetched.
template <int T, int R, int N> INLINE void dot_blocks(const uint8_t* const* keys, const uint8_t* const* ahead,
                                                      const float* const q, int d, F (*s)[R]) {
    constexpr int D = kLineInputs<T>;
    for (int n = 0; n < N; n++)
        for (int r = 0; r < R; r++) s[n][r] = zero();
    int i = 0;
#pragma GCC unroll 4
    for (size_t at = 0; i + D <= d; i += D, at += 64) {
        F k[N][D];
        for (int n = 0; n < N; n++) load_line<T>(keys[n] + at, k[n]);
        if constexpr (T != kKVF32)
            for (int n = 0; n < N; n++) prefetch(ahead[n] + at);
        for (int e = 0; e < D; e++)
            for (int r = 0; r < R; r++)
                for (int n = 0; n < N; n++) s[n][r] = fma(k[n][e], set(q[r * d + i + e]), s[n][r]);
    }
    if constexpr (D == 4)
        for (; i < d; i++)
            for (int n = 0; n < N; n++)
                for (int r = 0; r < R; r++)
                    s[n][r] = fma(load_keys<T>(keys[n] + i * 16 * kKVBytes[T]), set(q[r * d + i]), s[n][r]);
}

// What one call of the kernel works on: some rows of a tile, in one segment.
struct Part {
    const AttendBlocks& blocks;
    const AttendView& at;
    const AttendRows& rows;
    int row;         // the first of the rows
    int begin, end;  // blocks that any of the tile's rows sees
    int from, to;    // tokens, from the segment's start
    int clear, dim;  // tokens clear .. dim - 1 are seen by all rows; none where scores need more than a product
    float* p;        // [rows][kSegment]
};

// Scores of block b for row r: scaled, capped, biased and masked. x: q . k.
INLINE F finish_score(const Part& part, int b, int r, F x) {
    const AttendBlocks& blocks = part.blocks;
    const int token = blocks.start + 16 * b, first = part.rows.first[r], position = part.rows.position[r];
    if (blocks.key_scales[b]) x = mul(x, load(blocks.key_scales[b]));
    if (part.at.softcap > 0.0f) x = mul(set(part.at.softcap * kLog2E), tanh(div(x, set(part.at.softcap))));
    if (part.rows.slope[r] == 0.0f && token >= first && token + 15 <= position) return x;
    const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F tokens = add(load(lanes), set((float)token)), last = set((float)position);
    if (part.rows.slope[r] != 0.0f) x = fma(set(part.rows.slope[r] * kLog2E), sub(tokens, last), x);
    x = where_less(tokens, set((float)first), set(kMasked), x);
    return where_less(last, tokens, set(kMasked), x);
}

template <int T, int R, int N> INLINE void score_blocks(const Part& part, int b, F* top) {
    const AttendBlocks& blocks = part.blocks;
    const uint8_t *keys[N], *ahead[N];
    for (int n = 0; n < N; n++) {
        keys[n] = blocks.keys[b + n] ? blocks.keys[b + n] : blocks.keys[part.end - 1];
        ahead[n] = blocks.values[b + n] ? blocks.values[b + n] : keys[n];
    }
    F s[N][R];
    dot_blocks<T, R, N>(keys, ahead, (const float*)part.rows.q + (size_t)part.row * blocks.head_dim, blocks.head_dim,
                        s);
    if (part.clear <= 16 * b && 16 * (b + N) <= part.dim) {
        for (int r = 0; r < R; r++)
            for (int n = 0; n < N; n++) {
                store(part.p + r * kSegment + (b + n) * 16, s[n][r]);
                top[r] = max(s[n][r], top[r]);
            }
        return;
    }
    for (int n = 0; n < N; n++)
        for (int r = 0; r < R; r++) {
            const F x = blocks.keys[b + n] ? finish_score(part, b + n, part.row + r, s[n][r]) : set(kMasked);
            store(part.p + r * kSegment + (b + n) * 16, x);
            top[r] = max(x, top[r]);  // passes over a NaN score; 2^ of it carries it on
        }
}

// Scores of all blocks, and their maxima.
template <int T, int R> static void score(const Part& part, float* m) {
    constexpr int N = kVectors<T, R>;
    F top[R];
    for (int r = 0; r < R; r++) top[r] = set(kMasked);
    int b = part.begin;
    for (; b + N <= part.end; b += N) score_blocks<T, R, N>(part, b, top);
    for (; b < part.end; b++) score_blocks<T, R, 1>(part, b, top);
    for (int r = 0; r < R; r++) m[r] = largest(top[r]);
}

// Scores to p, and l = sum of p. Then p takes on the values' scales, so that the codes are what is left to multiply.
static void softmax_row(const Part& part, int r, float* m, float* l) {
    const bool masked = part.rows.position[part.row + r] < part.blocks.start + part.from ||
                        part.rows.first[part.row + r] >= part.blocks.start + part.to;
    m[r] = masked ? kMasked : m[r] == kMasked ? 0.0f : m[r];  // 0: nothing but NaN
    const F top = set(m[r]);
    F total = zero();
    for (int b = part.begin; b < part.end; b++) {
        float* p = part.p + r * kSegment + b * 16;
        const F e = masked ? zero() : exp2_negative(sub(load(p), top));
        total = add(total, e);
        store(p, part.blocks.value_scales[b] ? mul(e, load(part.blocks.value_scales[b])) : e);
    }
    l[r] = sum(total);
}

// W vectors of a token's values. bf16 comes in pairs: even inputs, then odd ones.
template <int T, int W> INLINE void load_values(const uint8_t* p, F* v) {
    if constexpr (T == kKVBF16 && W == 1)
        v[0] = as_float(ishl<16>(load_u16((const uint16_t*)p)));
    else if constexpr (T == kKVBF16)
        for (int w = 0; w < W; w += 2) load_line<T>(p + 32 * w, v + w);
    else
        for (int w = 0; w < W; w++) v[w] = load_keys<T>(p + w * 16 * kKVBytes[T]);
}

// o[r][i ..] = sum over tokens of p[r][token] * value, in ascending order, for W vectors of a head.
template <int T, int R, int W>
static void weigh_values(const Part& part, int i, const AttendBlocks* next, float* o, int stride) {
    const int d = part.blocks.head_dim, bytes = 16 * kKVBytes[next ? next->key_type : kKVF32];
    F acc[R][W];
    for (int r = 0; r < R; r++)
        for (int w = 0; w < W; w++) acc[r][w] = zero();
    for (int b = part.begin; b < part.end; b++) {
        if (!part.blocks.values[b]) continue;
        if (next && next->keys[b])  // as much of the next segment's keys as is read here of the values
            for (int line = i * bytes, end = line + 16 * W * bytes; line < end; line += 64)
                prefetch(next->keys[b] + line);
        const int begin = part.from > 16 * b ? part.from : 16 * b, end = part.to < 16 * b + 16 ? part.to : 16 * b + 16;
        const uint8_t* values = part.blocks.values[b] + ((size_t)(begin - 16 * b) * d + i) * kKVBytes[T];
        const float* p = part.p + begin;
#pragma GCC unroll 4
        for (const float* stop = part.p + end; p < stop; p++, values += d * kKVBytes[T]) {
            F v[W];
            load_values<T, W>(values, v);
            for (int r = 0; r < R; r++) {
                const F weight = set(p[r * kSegment]);
                for (int w = 0; w < W; w++) acc[r][w] = fma(weight, v[w], acc[r][w]);
            }
        }
    }
    for (int r = 0; r < R; r++)
        if constexpr (T == kKVBF16 && W > 1)
            for (int w = 0; w < W; w += 2) store_pairs(o + r * stride + i + 16 * w, acc[r][w], acc[r][w + 1]);
        else
            for (int w = 0; w < W; w++) store(o + r * stride + i + 16 * w, acc[r][w]);
}

template <int T, int R> static void weigh(const Part& part, const AttendBlocks* next, float* o, int stride) {
    const int d = part.blocks.head_dim;
    int i = 0;
    if constexpr (kVectors<T, R> >= 4)
        for (; d - i > 48; i += 64) weigh_values<T, R, 4>(part, i, next, o, stride);
    if constexpr (kVectors<T, R> >= 2)
        for (; d - i > 16; i += 32) weigh_values<T, R, 2>(part, i, next, o, stride);
    for (; i < d; i += 16) weigh_values<T, R, 1>(part, i, next, o, stride);
}

template <int R>
static void part_rows(const Part& part, const AttendBlocks* next, float* m, float* l, float* o, int stride) {
    switch (part.blocks.key_type) {
        case kKVF32: score<kKVF32, R>(part, m); break;
        case kKVBF16: score<kKVBF16, R>(part, m); break;
        case kKVInt8: score<kKVInt8, R>(part, m); break;
        default: score<kKVFp8, R>(part, m);
    }
    for (int r = 0; r < R; r++) softmax_row(part, r, m, l);
    switch (part.blocks.value_type) {
        case kKVF32: return weigh<kKVF32, R>(part, next, o, stride);
        case kKVBF16: return weigh<kKVBF16, R>(part, next, o, stride);
        case kKVInt8: return weigh<kKVInt8, R>(part, next, o, stride);
        default: return weigh<kKVFp8, R>(part, next, o, stride);
    }
}

template <int R>
static void some_rows(int count, const Part& part, const AttendBlocks* next, float* m, float* l, float* o, int stride) {
    if constexpr (R > 1)
        if (count < R) return some_rows<R - 1>(count, part, next, m, l, o, stride);
    part_rows<R>(part, next, m, l, o, stride);
}

// What a tile's rows see of a segment, in tokens from its start: from .. to - 1 by any row, clear .. dim - 1 by all,
// where scores need no more than a product.
struct Seen {
    int from, to, clear, dim;
    Seen(const AttendBlocks& blocks, const AttendView& at, const AttendRows& rows) {
        int first = rows.first[0], last = rows.position[0];
        clear = first, dim = last;
        bool bare = at.softcap == 0.0f &&
                    !blocks.key_scales[(last < blocks.start + kSegment ? last - blocks.start : kSegment - 1) / 16];
        for (int r = 0; r < rows.count; r++) {
            first = rows.first[r] < first ? rows.first[r] : first,
            clear = rows.first[r] > clear ? rows.first[r] : clear;
            last = rows.position[r] > last ? rows.position[r] : last,
            dim = rows.position[r] < dim ? rows.position[r] : dim;
            bare = bare && rows.slope[r] == 0.0f;
        }
        from = first > blocks.start ? first - blocks.start : 0,
        to = last + 1 < blocks.start + kSegment ? last + 1 - blocks.start : kSegment;
        clear -= blocks.start, dim = bare ? dim + 1 - blocks.start : 0;
    }
};

// A tile of rows over one segment. p: [kVectorRows][kSegment] of scratch. Leaves m, l [rows], o [rows][stride]. next:
// whose keys to ask for meanwhile, or null.
static void segment(const AttendBlocks& blocks, const AttendBlocks* next, const AttendView& at, const AttendRows& rows,
                    float* p, float* m, float* l, float* o, int stride) {
    const Seen seen(blocks, at, rows);
    const int most = blocks.value_type == kKVF32 || rows.count > kRegisterRows ? kVectorRows / 2 : kRegisterRows,
              step = most < kRegisterRows ? most : kRegisterRows;
    for (int r = 0; r < rows.count; r += step) {
        const int count = rows.count - r < step ? rows.count - r : step;
        const Part part{blocks,  at,         rows,     r, seen.from / 16, (seen.to + 15) / 16, seen.from,
                        seen.to, seen.clear, seen.dim, p};
        some_rows<kRegisterRows>(count, part, r + count < rows.count ? nullptr : next, m + r, l + r, o + r * stride,
                                 stride);
    }
}

template <int T> static void widen_block(const uint8_t* keys, int count, float* out) {
    for (int i = 0; i < count; i++) store(out + 16 * i, load_keys<T>(keys + i * 16 * kKVBytes[T]));
}

static void widen_block(int type, bool keys, const uint8_t* from, int d, float* out) {
    switch (type) {
        case kKVBF16:
            for (int i = 0; i + 2 <= d && keys; i += 2) {
                F line[2];
                load_line<kKVBF16>(from + 32 * i, line);
                store(out + 16 * i, line[0]), store(out + 16 * i + 16, line[1]);
            }
            for (int i = 0; i < d && !keys; i++)
                store(out + 16 * i, as_float(ishl<16>(load_u16((const uint16_t*)from + 16 * i))));
            return;
        case kKVInt8: return widen_block<kKVInt8>(from, d, out);
        case kKVFp8: return widen_block<kKVFp8>(from, d, out);
    }
}

// Makes floats of a segment's keys and values, for many rows to read. room: floats for both, kSegment * head_dim each.
static void widen(AttendBlocks& blocks, float* room) {
    const int d = blocks.head_dim;
    for (int b = 0; b < kBlocks; b++, room += 32 * d) {
        if (!blocks.keys[b]) continue;
        if (blocks.key_type != kKVF32)
            widen_block(blocks.key_type, true, blocks.keys[b], d, room), blocks.keys[b] = (const uint8_t*)room;
        if (blocks.value_type != kKVF32)
            widen_block(blocks.value_type, false, blocks.values[b], d, room + 16 * d),
                blocks.values[b] = (const uint8_t*)(room + 16 * d);
    }
    blocks.key_type = blocks.value_type = kKVF32;
}

// (M, L, O) <- merge of (M, L, O) and (m, l, o), row by row. M, L, m, l: [kRowTile].
static void merge(int count, float* M, float* L, float* O, const float* m, const float* l, const float* o, int stride,
                  int d) {
    float below[32] = {}, e[32];
    for (int r = 0; r < count; r++) {
        const float top = m[r] > M[r] ? m[r] : M[r];
        below[r] = M[r] - top, below[16 + r] = m[r] - top;
    }
    store(e, exp2_negative(load(below))), store(e + 16, exp2_negative(load(below + 16)));
    for (int r = 0; r < count; r++, O += stride, o += stride) {
        if (m[r] == kMasked) continue;
        if (M[r] == kMasked) {
            M[r] = m[r], L[r] = l[r];
            for (int i = 0; i < d; i += 16) store(O + i, load(o + i));
            continue;
        }
        const float old = e[r], fresh = e[16 + r];
        M[r] = m[r] > M[r] ? m[r] : M[r];
        L[r] = std::fma(l[r], fresh, L[r] * old);
        for (int i = 0; i < d; i += 16) store(O + i, fma(load(o + i), set(fresh), mul(load(O + i), set(old))));
    }
}

static void finish(const float* O, float L, float* out, int d) {
    for (int i = 0; i < d; i += 16) store_part(out + i, div(load(O + i), set(L)), d - i);
}

}  // namespace
