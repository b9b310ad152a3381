// Norm and quantization of activations, as the products share them.
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

// Activations ready for products: int8 tiles, float rows, float parts, or several of them, as the weights need.
struct Activations {
    const uint8_t* tiles = nullptr;
    const float* floats = nullptr;
    size_t stride = 0;  // of floats
    int count = 0;
    size_t groups = 0;
    const uint8_t* split = nullptr;

    const void* tile(int first) const { return tiles + tile_bytes(groups, first); }
};

struct Needs {
    bool tiles = false, floats = false, split = false;
    void of(const Kernels& k, const Weight& w) {
        (k.split_bf16 && w.layout.codes == kBF16 ? split : w.layout.is_float() ? floats : tiles) = true;
    }
};

inline Needs needs_of(const Kernels& k, std::initializer_list<const Weight*> weights) {
    Needs needs;
    for (const Weight* w : weights)
        if (w) needs.of(k, *w);
    return needs;
}

// How many rows each thread prepares for itself, to save a barrier.
constexpr int kAlone = 2;

// All threads call this. After it, each may read what it returns.
inline Activations prepare(Program& p, Worker& worker, const Source& s, Needs needs) {
    Activations a;
    a.count = s.count, a.groups = (s.width + kGroup - 1) / kGroup;
    const bool alone = s.count <= kAlone && worker.runs() > 1, normed = s.norm != nullptr;
    const size_t bytes = tile_bytes(a.groups, s.count + kTallest);  // the last tile may have rows to spare
    const size_t padded = (s.width + 15) / 16 * 16;
    const size_t float_bytes = (size_t)s.count * padded * sizeof(float),
                 parts = needs.split ? split_bytes(s.width, s.count) : 0;
    uint8_t *tiles, *split;
    float* floats;
    if (alone) {
        split = worker.scratch<uint8_t>(parts + bytes + float_bytes), tiles = split + parts;
        floats = reinterpret_cast<float*>(tiles + bytes);
    } else {
        split = p.split(parts), tiles = p.tiles(bytes), floats = p.floats((size_t)s.count * padded);
    }
    a.tiles = tiles, a.split = needs.split ? split : nullptr;
    if (normed || s.index || needs.floats) a.floats = floats, a.stride = padded;
    // Rows first .. first + n - 1, all of one tile.
    const auto some = [&](int first, int n) {
        const float* rows[kTallest];
        for (int i = 0; i < n; i++) {
            const float* x = rows[i] = s.row(first + i);
            float* to = floats + (size_t)(first + i) * padded;
            if (normed)
                s.norm->apply(*p.kernels, x, to), rows[i] = to;
            else if (needs.floats)
                std::memcpy(to, x, s.width * sizeof(float));
            if (!needs.split) continue;
            const int t = first + i, height = split_rows(s.count), place = t % height;
            p.kernels->split_bf16->split(rows[i], (int)s.width, split + split_bytes(s.width, t - place) + 64 * place,
                                         64 * height, 2 * 64 * height);
        }
        if (!needs.tiles) return;
        const Place at = place_of(first, s.count, p.kernels->tiling(s.count));
        p.kernels->quantize(rows, n, (int)s.width, tiles + tile_bytes(a.groups, at.first), at.height, first - at.first);
    };
    if (alone) {
        for (int t = 0; t < s.count; t++) some(t, 1);
    } else {
        // Whole tiles: neighbours in a tile share cache lines, which two threads would pull back and forth.
        const int run = s.count > 2 * p.kernels->widest ? p.kernels->widest : 4;
        worker.parallel((s.count + run - 1) / run, 1, [&](int64_t i) {
            for (int t = (int)i * run, n, end = std::min(s.count, t + run); t < end; t += n) {
                const Place at = place_of(t, s.count, p.kernels->tiling(s.count));
                n = std::min(end, at.first + at.height) - t;
                some(t, n);
            }
        });
    }
    return a;
}

// What a thread needs that prepares rows for itself.
inline size_t prepare_room(size_t width, Needs needs) {
    const size_t groups = (width + kGroup - 1) / kGroup, padded = (width + 15) / 16 * 16;
    return (needs.split ? split_bytes(width, kAlone) : 0) + tile_bytes(groups, kAlone + kTallest) +
           kAlone * padded * sizeof(float);
}

// Buffers of `prepare` grow only here, before the threads start.
inline void reserve(Program& p, int count, size_t width, Needs needs = {}) {
    const size_t groups = (width + kGroup - 1) / kGroup;
    if (needs.split) p.split(split_bytes(width, count));
    p.tiles(tile_bytes(groups, count + kTallest));
    p.floats((size_t)count * ((width + 15) / 16 * 16));
}

}  // namespace cutaway
