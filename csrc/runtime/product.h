// Norm, quantization of activations and the product, as the ops share them.
#pragma once
#include <algorithm>

#include "program.h"

namespace cutaway {

// Where a product's activations come from: row(t) of `count` rows, through a norm if there is one.
struct Source {
    const float* base;
    size_t width;
    const int32_t* index = nullptr;  // row t is base row index[t]
    const Norm* norm = nullptr;
    int count = 0;
    const float* row(int t) const { return base + (size_t)(index ? index[t] : t) * width; }
};

// Activations ready for products: int8 tiles, float rows, or both, as the weights need.
struct Activations {
    const uint8_t* tiles = nullptr;
    const float* floats = nullptr;
    size_t stride = 0;  // of floats
    int count = 0;
    size_t groups = 0;

    const void* tile(int first) const { return tiles + tile_bytes(groups, first); }
};

struct Needs {
    bool tiles = false, floats = false;
    void of(const Weight& w) { (w.layout.is_float() ? floats : tiles) = true; }
};

// How many rows each thread prepares for itself, to save a barrier.
constexpr int kAlone = 2;

// All threads call this. After it, each may read what it returns.
inline Activations prepare(Program& p, Worker& worker, const Source& s, Needs needs) {
    Activations a;
    a.count = s.count, a.groups = (s.width + kGroup - 1) / kGroup;
    const bool alone = s.count <= kAlone && p.team->threads() > 1, normed = s.norm != nullptr;
    const size_t bytes = tile_bytes(a.groups, s.count + kTallest);  // the last tile may have rows to spare
    const size_t padded = (s.width + 15) / 16 * 16;
    uint8_t* tiles;
    float* floats;
    if (alone) {
        tiles = worker.scratch<uint8_t>(bytes + (size_t)s.count * padded * sizeof(float));
        floats = reinterpret_cast<float*>(tiles + bytes);
    } else {
        tiles = p.tiles(bytes), floats = p.floats((size_t)s.count * padded);
    }
    a.tiles = tiles;
    if (normed || s.index || needs.floats) a.floats = floats, a.stride = padded;
    const auto one = [&](int64_t t) {
        const float* x = s.row((int)t);
        float* to = floats + (size_t)t * padded;
        if (normed) {
            p.kernels->normalize(x, (int)s.width, s.norm->layer, s.norm->weight.data(), s.norm->bias.empty() ? nullptr : s.norm->bias.data(), s.norm->eps, to);
            x = to;
        } else if (needs.floats) {
            std::memcpy(to, x, s.width * sizeof(float));
        }
        if (needs.tiles) {
            const Place at = place_of((int)t, s.count, p.kernels->widest);
            p.kernels->quantize_row(x, (int)s.width, tiles + tile_bytes(a.groups, at.first), at.height, (int)t - at.first);
        }
    };
    if (alone) {
        for (int t = 0; t < s.count; t++) one(t);
    } else {
        worker.parallel(s.count, 1, one);
    }
    return a;
}

// Buffers of `prepare` grow only here, before the threads start.
inline void reserve(Program& p, int count, size_t width) {
    const size_t groups = (width + kGroup - 1) / kGroup;
    p.tiles(tile_bytes(groups, count + kTallest));
    p.floats((size_t)count * ((width + 15) / 16 * 16));
}

// One panel of a weight, ready to be multiplied: unpacked once where the tiles are wide.
struct Panel {
    const Weight& weight;
    const uint8_t* data;
    Wide wide = nullptr;
    uint8_t* lines = nullptr;

    // `which`: the panels that are in use at once have buffers of their own.
    Panel(const Kernels& k, Worker& worker, const Weight& w, size_t panel, int count, int which = 0) : weight(w), data(w.panel(panel)) {
        if (k.wide && count >= k.widest && !w.layout.is_float()) wide = k.wide(w.layout.codes, w.layout.scales);
        if (!wide) return;
        const size_t groups = w.layout.groups(w.inputs);
        lines = worker.lines(which, groups * 512);
        k.unpack_panel(w.layout.codes, data, w.table, (int)groups, lines);
    }

    // Times the tokens first .. first + height - 1. out: [height][16].
    void multiply(const Kernels& k, const Activations& a, int first, int height, float* out) const {
        const Layout& l = weight.layout;
        if (l.is_float()) {
            const int real = std::min(height, a.count - first);  // no rows to spare here
            for (int m = 0, step; m < real; m += step) {
                step = real - m >= 8 ? 8 : 1;
                k.tile_float(l.codes, step)(data, (int)weight.inputs, a.floats + (size_t)(first + m) * a.stride, (int)a.stride, out + kPanelRows * m);
            }
        } else if (wide && height == k.widest) {
            wide(lines, data + l.planes(weight.inputs), (int)a.groups, a.tile(first), out);
        } else {
            k.tile(l.codes, l.scales, height)(data, data + l.planes(weight.inputs), weight.table, (int)a.groups, a.tile(first), out);
        }
    }
};

inline int64_t panels_at_once(const Weight& w, int threads) {
    const int64_t by_size = std::max<int64_t>(1, (int64_t)(65536 / w.panel_bytes)), by_share = std::max<int64_t>(1, (int64_t)w.panels() / (threads * 4));
    return std::min(by_size, by_share);
}

// For every token: sink(token, out[16]).
template <class Sink> void product(const Kernels& k, Worker& worker, const Weight& w, size_t panel, const Activations& a, Sink&& sink) {
    alignas(64) float out[kTallest * kPanelRows];
    const Panel ready(k, worker, w, panel, a.count);
    for (int first = 0, height; first < a.count; first += height) {
        height = next_height(a.count - first, k.widest);
        ready.multiply(k, a, first, height, out);
        for (int m = 0; m < height && first + m < a.count; m++) sink(first + m, out + kPanelRows * m);
    }
}

// n (at most 16) outputs of a panel to their row.
inline void put_row(float* to, const float* from, int n) {
    if (n == kPanelRows) std::memcpy(to, from, sizeof(float) * kPanelRows);
    else std::memcpy(to, from, sizeof(float) * (size_t)n);
}

inline int panel_rows(const Weight& w, size_t panel) { return (int)std::min<size_t>(kPanelRows, w.rows - panel * kPanelRows); }

inline void add_bias(const Weight& w, size_t panel, float* x, int tokens = 1) {
    if (w.bias.empty()) return;
    for (int m = 0; m < tokens; m++)
        for (int i = 0; i < kPanelRows; i++) x[kPanelRows * m + i] += w.bias[panel * kPanelRows + i];
}

// activation(gate @ x) * (up @ x), or activation(up @ x): to(token) is where a token's 16 outputs go.
template <class To>
void gated(const Kernels& k, Worker& worker, const Weight* gate, const Weight& up, size_t panel, const Activations& a, int activation, To&& to) {
    alignas(64) float g[kTallest * kPanelRows], u[kTallest * kPanelRows];
    const int rows = panel_rows(up, panel);
    const Panel up_panel(k, worker, up, panel, a.count), gate_panel(k, worker, gate ? *gate : up, panel, gate ? a.count : 0, 1);
    for (int first = 0, height; first < a.count; first += height) {
        height = next_height(a.count - first, k.widest);
        const int real = std::min(height, a.count - first);
        up_panel.multiply(k, a, first, height, u);
        add_bias(up, panel, u, real);
        if (gate) gate_panel.multiply(k, a, first, height, g), add_bias(*gate, panel, g, real);
        k.gate_up(activation, gate ? g : nullptr, u, u, kPanelRows * real);
        for (int m = 0; m < real; m++) put_row(to(first + m), u + kPanelRows * m, rows);
    }
}

}  // namespace cutaway
