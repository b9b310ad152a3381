// Norm, quantization of activations and the product, as the ops share them.
#pragma once
#include <algorithm>

#include "program.h"

namespace cutaway {

inline int tile_height(int tokens_left) { return tokens_left >= 5 ? 8 : tokens_left >= 3 ? 4 : tokens_left; }

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

    const void* tile(int first) const { return tiles + (size_t)(first / kTile) * groups * sizeof(ActGroup<kTile>); }
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
    const size_t tile_bytes = ((size_t)s.count + kTile - 1) / kTile * a.groups * sizeof(ActGroup<kTile>);
    const size_t padded = (s.width + 15) / 16 * 16;
    uint8_t* tiles;
    float* floats;
    if (alone) {
        tiles = worker.scratch<uint8_t>(tile_bytes + (size_t)s.count * padded * sizeof(float));
        floats = reinterpret_cast<float*>(tiles + tile_bytes);
    } else {
        tiles = p.tiles(tile_bytes), floats = p.floats((size_t)s.count * padded);
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
            const int first = (int)t / kTile * kTile;
            p.kernels->quantize_row(x, (int)s.width, tiles + (size_t)(first / kTile) * a.groups * sizeof(ActGroup<kTile>), tile_height(s.count - first), (int)t - first);
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
    p.tiles(((size_t)count + kTile - 1) / kTile * groups * sizeof(ActGroup<kTile>));
    p.floats((size_t)count * ((width + 15) / 16 * 16));
}

// One panel times the tokens first .. first + height - 1. out: [8][16].
inline void multiply(const Kernels& k, const Weight& w, size_t panel, const Activations& a, int first, int height, float* out) {
    const uint8_t* data = w.panel(panel);
    if (w.layout.is_float()) {
        const int real = std::min(height, a.count - first);
        if (real == height) return k.tile_float(w.layout.codes, height)(data, (int)w.inputs, a.floats + (size_t)first * a.stride, (int)a.stride, out);
        for (int m = 0; m < real; m++)
            k.tile_float(w.layout.codes, 1)(data, (int)w.inputs, a.floats + (size_t)(first + m) * a.stride, (int)a.stride, out + 16 * m);
        return;
    }
    k.tile(w.layout.codes, w.layout.scales, height)(data, data + w.layout.planes(w.inputs), w.table, (int)a.groups, w.layout.offset, a.tile(first), out);
}

inline int64_t panels_at_once(const Weight& w, int threads) {
    const int64_t by_size = std::max<int64_t>(1, (int64_t)(65536 / w.panel_bytes)), by_share = std::max<int64_t>(1, (int64_t)w.panels() / (threads * 4));
    return std::min(by_size, by_share);
}

// For every panel and token: sink(panel, token, out[16]). `first_panel` numbers panels over several weights.
template <class Sink> void product(const Kernels& k, const Weight& w, size_t panel, const Activations& a, Sink&& sink) {
    alignas(64) float out[kTile * kPanelRows];
    for (int first = 0; first < a.count; first += kTile) {
        const int height = tile_height(a.count - first);
        multiply(k, w, panel, a, first, height, out);
        for (int m = 0; m < height && first + m < a.count; m++) sink(first + m, out + kPanelRows * m);
    }
}

inline int panel_rows(const Weight& w, size_t panel) { return (int)std::min<size_t>(kPanelRows, w.rows - panel * kPanelRows); }

inline void add_bias(const Weight& w, size_t panel, float* x) {
    if (w.bias.empty()) return;
    for (int i = 0; i < kPanelRows; i++) x[i] += w.bias[panel * kPanelRows + i];
}

}  // namespace cutaway
