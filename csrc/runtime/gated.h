// The first half of a feed-forward, block by block, as floats or as the next product's activations.
#pragma once
#include <optional>

#include "product.h"

namespace cutaway {

// activation(gate @ x) * (up @ x), or activation(up @ x), for one block of rows and each tile of tokens:
// done(block, first token, how many, height of its tile, values as Block::multiply has them). Before a tile of many: soon(block, token).
template <class Done, class Soon>
void gated(const Kernels& k, Worker& worker, const Weight* gate, const Weight& up, const Cut& cut, int64_t block, const Activations& a, Tokens tokens, int activation, Done&& done,
           Soon&& soon) {
    BlockOut g, u;
    const Block ups(k, worker, up, cut, block);
    std::optional<Block> gates;
    if (gate) gates.emplace(k, worker, *gate, cut, block, 1);
    for (int token = tokens.begin, height; token < tokens.end; token += height) {
        height = next_height(a.count - token, k.tiling(a.count));
        const int real = std::min(height, a.count - token);
        for (int m = 0; height >= 8 && m < real; m++) soon(ups, token + m);
        ups.multiply(k, a, token, height, u);
        if (gate) gates->multiply(k, a, token, height, g);
        for (size_t i = 0; i < ups.size; i++) k.gate_up(activation, gate ? g[i] : nullptr, u[i], u[i], kPanelRows * real);
        done(ups, token, real, height, u);
    }
}

// The same into rows of floats: to(token) is where the token's row goes.
template <class To>
void gated(const Kernels& k, Worker& worker, const Weight* gate, const Weight& up, const Cut& cut, int64_t block, const Activations& a, Tokens tokens, int activation, To&& to) {
    const auto put = [&](const Block& ups, int token, int real, int, const BlockOut& u) {
        for (int m = 0; m < real; m++)
            ups.each_run([&](size_t i, size_t row, int rows) { put_row(to(token + m) + row, u[i] + kPanelRows * m, u.apart, rows); });
    };
    gated(k, worker, gate, up, cut, block, a, tokens, activation, put, [&](const Block& ups, int token) { ask(ups, to(token)); });
}

// Where a product's outputs are the next one's activations, a block's panels come in twos of each reader: 32 outputs are a group.
static_assert(kBlock % (2 * kReaders) == 0);
inline bool fits_groups(const Weight& w) { return w.rows % (2 * kReaders * kPanelRows) == 0; }

// A block's values of a tile of tokens as int8, to their places in `tiles` of so many groups. What lies in a panel's
// rows is a token's next to each other only within a panel.
inline void put_groups(const Kernels& k, const Block& block, int token, int real, int height, const BlockOut& values, uint8_t* tiles, size_t groups) {
    constexpr size_t kMost = kRoom / 2;  // groups in a block of few tokens, of all
    alignas(64) float few[kMost][kGroup], many[kTallest][kGroup];
    const auto gather = [&](size_t n, int m, float* to) {
        const size_t i = block.even(n), both[] = {i, block.next(i)};
        for (int h = 0; h < 2; h++) std::memcpy(to + kPanelRows * h, values[both[h]] + kPanelRows * m, sizeof(float) * kPanelRows);
    };
    const size_t bytes = (size_t)height * sizeof(ActGroup<1>);
    uint8_t* tile = tiles + tile_bytes(groups, token);
    const auto place = [&](size_t n) { return tile + block.panel(block.even(n)) / 2 * bytes; };
    const float* rows[kTallest];
    if (real <= kFew) {  // all groups at once
        alignas(64) uint8_t made[kMost * sizeof(ActGroup<1>)];
        const size_t each = block.size / 2;
        for (int m = 0; m < real; m++) rows[m] = few[m * each];
        for (size_t n = 0; n < each; n++)
            for (int m = 0; m < real; m++) gather(n, m, few[m * each + n]);
        k.quantize(rows, real, (int)(each * kGroup), made, height, 0);
        for (size_t n = 0; n < each; n++) std::memcpy(place(n), made + n * bytes, bytes);
        return;
    }
    for (int m = 0; m < real; m++) rows[m] = many[m];
    for (size_t n = 0; n < block.size / 2; n++) {
        for (int m = 0; m < real; m++) gather(n, m, many[m]);
        k.quantize(rows, real, kGroup, place(n), height, 0);
    }
}

}  // namespace cutaway
