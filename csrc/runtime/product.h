// A block's product with many tiles of tokens, as the ops share it.
#pragma once
#include "block.h"

namespace cutaway {

// Many tokens are two or more items, so that threads end together. Whole tiles of the widest.
struct Tokens {
    int begin, end;
};
constexpr int kTokens = 256;
inline int64_t token_items(int count) { return std::max(1, count / kTokens); }
inline Tokens tokens_of(int64_t item, int64_t blocks, int count) {
    const int n = (int)token_items(count), i = (int)(item / blocks);
    return {i * kTokens, i == n - 1 ? count : (i + 1) * kTokens};
}

// Prefetches a block's part of a row of outputs, which arrives while the block is multiplied.
inline void ask(const Block& block, const float* row) {
    for (size_t i = 0; i < block.size; i++) __builtin_prefetch(row + block.panel(i) * kPanelRows, 1, 3);
}

// For every token and run of neighbouring panels of a block: sink(token, first row, outputs, from 16 of them to the
// next, how many are rows). Before, for every token of a tile of many: soon(token).
template <class Sink, class Soon>
void product(const Kernels& k, const Block& block, const Activations& a, Tokens tokens, Sink&& sink, Soon&& soon) {
    BlockOut out;
    for (int token = tokens.begin, height; token < tokens.end; token += height) {
        height = next_height(a.count - token, k.tiling(a.count));
        const int real = std::min(height, a.count - token);
        for (int m = 0; height >= 8 && m < real; m++) soon(token + m);
        block.multiply(k, a, token, height, out);
        for (int m = 0; m < real; m++)
            block.each_run([&](size_t i, size_t row, int rows) {
                sink(token + m, row, out[i] + kPanelRows * m, out.apart, rows);
            });
    }
}
template <class Sink>
void product(const Kernels& k, const Block& block, const Activations& a, Tokens tokens, Sink&& sink) {
    product(k, block, a, tokens, sink, [](int) {});
}

// What a thread needs to multiply weights with up to `count` rows, each cut as the first is; `gate`: beside the last of
// them.
inline Room product_room(const Program& p, int count, size_t width, Needs needs,
                         std::initializer_list<const Weight*> weights, const Weight* gate = nullptr) {
    Room room{prepare_room(width, needs), {0, 0}};
    for (const Weight* w : weights) {
        const size_t panels = cut_of(*w, {}, count).each;
        room.cover(
            {0,
             {Block::lines(*p.kernels, *w, panels, count), gate ? Block::lines(*p.kernels, *gate, panels, count) : 0}});
    }
    return room;
}

// n outputs, 16 of each panel, to their row.
inline void put_row(float* to, const float* from, size_t apart, int n) {
    for (; n >= kPanelRows; n -= kPanelRows, to += kPanelRows, from += apart)
        std::memcpy(to, from, sizeof(float) * kPanelRows);
    std::memcpy(to, from, sizeof(float) * (size_t)n);
}

}  // namespace cutaway
