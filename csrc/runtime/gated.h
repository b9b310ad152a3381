// The first half of a feed-forward, block by block.
#pragma once
#include <optional>

#include "product.h"

namespace cutaway {

// activation(gate @ x) * (up @ x), or activation(up @ x), for one block of rows and each tile of tokens: to(token) is
// where the token's row goes.
template <class To> void gated(const Kernels& k, Worker& worker, const Weight* gate, const Weight& up, const Cut& cut,
                               int64_t block, const Activations& a, Tokens tokens, int activation, To&& to) {
    BlockOut g, u;
    const Block ups(k, worker, up, cut, block);
    std::optional<Block> gates;
    if (gate) gates.emplace(k, worker, *gate, cut, block, 1);
    for (int token = tokens.begin, height; token < tokens.end; token += height) {
        height = next_height(a.count - token, k.tiling(a.count));
        const int real = std::min(height, a.count - token);
        for (int m = 0; height >= 8 && m < real; m++) ask(ups, to(token + m));
        ups.multiply(k, a, token, height, u);
        if (gate) gates->multiply(k, a, token, height, g);
        for (size_t i = 0; i < ups.size; i++)
            k.gate_up(activation, gate ? g[i] : nullptr, u[i], u[i], kPanelRows * real);
        for (int m = 0; m < real; m++)
            ups.each_run([&](size_t i, size_t row, int rows) {
                put_row(to(token + m) + row, u[i] + kPanelRows * m, u.apart, rows);
            });
    }
}

}  // namespace cutaway
