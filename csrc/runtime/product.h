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

// Activations ready for products: int8 tiles, float rows, float parts, or several of them, as the weights need.
struct Activations {
    const uint8_t* tiles = nullptr;
    const float* floats = nullptr;
    size_t stride = 0;  // of floats
    int count = 0;
    size_t groups = 0;
    const uint8_t* halves = nullptr;

    const void* tile(int first) const { return tiles + tile_bytes(groups, first); }
};

struct Needs {
    bool tiles = false, floats = false, halves = false;
    void of(const Kernels& k, const Weight& w) { (k.halves && w.layout.codes == kBF16 ? halves : w.layout.is_float() ? floats : tiles) = true; }
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
    const bool alone = s.count <= kAlone && p.team->threads() > 1, normed = s.norm != nullptr;
    const size_t bytes = tile_bytes(a.groups, s.count + kTallest);  // the last tile may have rows to spare
    const size_t padded = (s.width + 15) / 16 * 16;
    const size_t float_bytes = (size_t)s.count * padded * sizeof(float), parts = needs.halves ? half_bytes(s.width, s.count) : 0;
    uint8_t *tiles, *halves;
    float* floats;
    if (alone) {
        halves = worker.scratch<uint8_t>(parts + bytes + float_bytes), tiles = halves + parts;
        floats = reinterpret_cast<float*>(tiles + bytes);
    } else {
        halves = p.halves(parts), tiles = p.tiles(bytes), floats = p.floats((size_t)s.count * padded);
    }
    a.tiles = tiles, a.halves = needs.halves ? halves : nullptr;
    if (normed || s.index || needs.floats) a.floats = floats, a.stride = padded;
    // Rows first .. first + n - 1, all of one tile.
    const auto some = [&](int first, int n) {
        const float* rows[kTallest];
        for (int i = 0; i < n; i++) {
            const float* x = rows[i] = s.row(first + i);
            float* to = floats + (size_t)(first + i) * padded;
            if (normed) s.norm->apply(*p.kernels, x, to), rows[i] = to;
            else if (needs.floats) std::memcpy(to, x, s.width * sizeof(float));
            if (!needs.halves) continue;
            const size_t t = first + i, tile = t / kHalfRows, place = t % kHalfRows;
            p.kernels->halves->split(rows[i], (int)s.width, halves + half_bytes(s.width, tile * kHalfRows) + 64 * place, kHalfTile / 2, kHalfTile);
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

// Buffers of `prepare` grow only here, before the threads start.
inline void reserve(Program& p, int count, size_t width, Needs needs = {}) {
    const size_t groups = (width + kGroup - 1) / kGroup;
    if (needs.halves) p.halves(half_bytes(width, count));
    p.tiles(tile_bytes(groups, count + kTallest));
    p.floats((size_t)count * ((width + 15) / 16 * 16));
}

inline int panel_rows(const Weight& w, size_t panel) { return (int)std::min<size_t>(kPanelRows, w.rows - panel * kPanelRows); }

// Sets this thread's matrix unit up, if there is one.
inline void shape(const Kernels& k, Worker& worker, Shapes shapes) {
    if (k.shape && worker.shapes != shapes) k.shape(worker.shapes = shapes);
}

constexpr int kBlock = 8;      // panels at most that a tile of tokens meets one after the other
constexpr int kStretch = 32, kWideStretch = 16;  // groups of it that stay in the first cache meanwhile, beside a panel's
using BlockOut = float[kBlock][kTallest * kPanelRows];

// How many panels of a weight are one thread's item.
inline int block_panels(const Weight& w, int threads) {
    const int64_t by_size = 262144 / (int64_t)w.panel_bytes, by_share = (int64_t)w.panels() / (threads * 4);
    return (int)std::clamp<int64_t>(std::min(by_size, by_share), 1, kBlock);
}

// One or two tokens wait for memory alone, and memory gives more to a thread that reads in a few places: their units are
// a panel of each quarter of the weight, or of each half.
constexpr int kReaders = 4;
struct Cut {
    size_t readers, part, units, each;  // panels of a reader's part; units in all, `each` of them a block
    Cut(const Weight& w, int panels, int count)
        : readers(count > 2 ? 1 : w.panels() % kReaders ? 2 : kReaders), part((w.panels() + readers - 1) / readers), units(part),
          each(std::max<size_t>(1, panels / readers)) {}
};
inline int64_t blocks_of(const Weight& w, int panels, int count) {
    const Cut cut(w, panels, count);
    return (int64_t)((cut.units + cut.each - 1) / cut.each);
}

constexpr size_t kComing = 131072;  // bytes that a thread asks for before the op

// What is read first, from a block on, of weights of one shape that are read side by side.
inline Coming coming_of(std::initializer_list<const Weight*> weights, int64_t block, int panels, int count) {
    Coming c;
    for (const Weight* w : weights) {
        const Cut cut(*w, panels, count);
        const size_t first = (size_t)block * cut.each;
        for (size_t r = 0; r < cut.readers; r++) c.at[c.readers++] = w->panel(first + r * cut.part);
        c.left = std::min(kComing / (weights.size() * cut.readers), (cut.units - first) * w->panel_bytes);
    }
    return c;
}

// Some panels of a weight, ready to be multiplied: unpacked once where tiles are wide.
class Block {
  public:
    const Weight& weight;
    size_t size;  // panels

    // `which`: blocks that are in use at once have buffers of their own.
    Block(const Kernels& k, Worker& worker, const Weight& w, int64_t block, int panels, int count, int which = 0)
        : weight(w), worker_(worker) {
        const Cut cut(w, panels, count);
        readers_ = cut.readers, part_ = cut.part, first_ = (size_t)block * cut.each, size = std::min(cut.each, cut.units - first_);
        size = readers_ * size - (readers_ == 2 && first_ + size + part_ > w.panels());  // the last panel of an odd number is alone
        const int groups = (int)w.layout.groups(w.inputs), least = k.tiling(count).least;
        kept_ = count >= k.widest + least;
        // To unpack for one tile pays on a matrix unit only.
        if (k.wide && !w.layout.is_float() && (kept_ || (k.halves && count >= least))) wide_ = k.wide(w.layout.codes, w.layout.scales);
        if (!wide_.multiply) return;
        stride_ = (kept_ ? groups : kPiece) * wide_.bytes;
        unpacked_ = worker.lines(which, kept_ ? size * stride_ : stride_);
        if (!kept_) return;
        for (size_t i = 0; i < size; i++) wide_.unpack(panel_at(i), w.table, 0, groups, unpacked_ + i * stride_);
    }

    size_t readers() const { return readers_; }
    // The i-th panel's place in the weight.
    size_t panel(size_t i) const { return first_ + i / readers_ + i % readers_ * part_; }

    // Times the tokens token .. token + height - 1, and the bias: out[i] is [height][16] of the i-th panel.
    void multiply(const Kernels& k, const Activations& a, int token, int height, BlockOut& out) const {
        const Layout& l = weight.layout;
        const int real = std::min(height, a.count - token), groups = (int)a.groups;
        if (a.halves && l.codes == kBF16) {
            multiply_halves(k, a, token, real, out);
        } else if (l.is_float()) {
            multiply_floats(k, a, token, real, out);
        } else if (readers_ > 1) {
            multiply_few(k, a, token, height, out);
        } else {
            const bool wide = wide_.multiply && height == k.widest;
            if (wide) shape(k, worker_, kCodeShapes);
            const Tile tile = wide ? nullptr : k.tile(l.codes, l.scales, height);
            const int stretch = a.count <= k.widest ? groups : wide ? kWideStretch : kStretch;
            for (int from = 0; from < groups; from += stretch)
                for (size_t i = 0; i < size; i++) {
                    const int to = std::min(groups, from + stretch);
                    if (!wide) tile(panel_at(i), weight.table, from, to, a.tile(token), out[i]);
                    else if (kept_) {
                        const int panels = (int)std::min<size_t>(2, size - i);
                        wide_.multiply(unpacked_ + i * stride_ + from * wide_.bytes, stride_, panels, from, to, a.tile(token), out[i]);
                        i += panels - 1;
                    } else multiply_pieces(i, from, to, a.tile(token), out[i]);
                }
        }
        if (weight.bias.empty()) return;
        for (size_t i = 0; i < size; i++)
            for (int m = 0; m < real; m++)
                for (int j = 0; j < kPanelRows; j++) out[i][kPanelRows * m + j] += weight.bias[panel(i) * kPanelRows + j];
    }

  private:
    const uint8_t* panel_at(size_t i) const { return weight.panel(panel(i)); }

    void multiply_few(const Kernels& k, const Activations& a, int token, int height, BlockOut& out) const {
        const Layout& l = weight.layout;
        const int groups = (int)a.groups;
        for (size_t i = 0, n; i < size; i += n) {
            n = std::min(readers_, size - i);
            const uint8_t* panels[kReaders];
            for (size_t r = 0; r < n; r++) panels[r] = panel_at(i + r);
            if (n == 1) k.tile(l.codes, l.scales, height)(panels[0], weight.table, 0, groups, a.tile(token), out[i]);
            else k.few(l.codes, l.scales, height, (int)n)(panels, weight.table, groups, a.tile(token), out[i]);
        }
    }

    void multiply_halves(const Kernels& k, const Activations& a, int token, int count, BlockOut& out) const {
        shape(k, worker_, kHalfShapes);
        const uint8_t* tiles = a.halves + half_bytes(weight.inputs, token);
        const size_t bytes = weight.panel_bytes;
        if (readers_ == 1) return k.halves->multiply(panel_at(0), bytes, 2 * bytes, (int)size, (int)weight.inputs, tiles, count, out[0]);
        for (size_t i = 0; i < size; i += readers_)
            k.halves->few(panel_at(i), part_ * bytes, (int)std::min(readers_, size - i), (int)weight.inputs, tiles, count, out[i]);
    }

    void multiply_floats(const Kernels& k, const Activations& a, int token, int count, BlockOut& out) const {
        const auto tiles = [&](size_t i, size_t n, int m, int height) {
            k.tile_float(weight.layout.codes, height, (int)n)(panel_at(i), (readers_ > 1 ? part_ : 1) * weight.panel_bytes, (int)weight.inputs,
                                                              a.floats + (size_t)(token + m) * a.stride, (int)a.stride, out[i] + kPanelRows * m);
        };
        if (readers_ > 1) {
            for (size_t i = 0; i < size; i += readers_) tiles(i, std::min(readers_, size - i), 0, count);
            return;
        }
        for (size_t i = 0, n; i < size; i += n) {
            n = std::min<size_t>(k.float_panels, size - i);
            int m = 0;
            for (; count - m >= 8; m += 8) tiles(i, n, m, 8);
            for (int height = 4; height; height /= 2)
                for (; count - m >= height; m += height)
                    for (size_t j = 0; j < n; j++) tiles(i + j, 1, m, height);
        }
    }

    // For one tile of tokens: unpacked piece by piece, which stay in the first cache.
    void multiply_pieces(size_t i, int from, int to, const void* tile, float* out) const {
        for (int g = from; g < to; g += kPiece) {
            const int end = std::min(to, g + kPiece);
            wide_.unpack(panel_at(i), weight.table, g, end, unpacked_);
            wide_.multiply(unpacked_, 0, 1, g, end, tile, out);
        }
    }

    static constexpr int kPiece = 8;  // groups
    Worker& worker_;
    size_t readers_, part_, first_;
    Wide wide_ = {};
    bool kept_ = false;  // all panels are unpacked at once, for several tiles of tokens
    uint8_t* unpacked_ = nullptr;
    size_t stride_ = 0;
};

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

// Asks for a block's part of a row of outputs: it comes while the block is multiplied.
inline void ask(const Block& block, const float* row) {
    for (size_t i = 0; i < block.size; i++) __builtin_prefetch(row + block.panel(i) * kPanelRows, 1, 3);
}

// For every token and panel of a block: sink(token, panel, 16 outputs, how many of them are rows). Before, for every
// token of a tile of many: soon(token).
template <class Sink, class Soon> void product(const Kernels& k, const Block& block, const Activations& a, Tokens tokens, Sink&& sink, Soon&& soon) {
    alignas(64) BlockOut out;
    for (int token = tokens.begin, height; token < tokens.end; token += height) {
        height = next_height(a.count - token, k.tiling(a.count));
        const int real = std::min(height, a.count - token);
        for (int m = 0; height >= 8 && m < real; m++) soon(token + m);
        block.multiply(k, a, token, height, out);
        for (int m = 0; m < real; m++)
            for (size_t i = 0; i < block.size; i++) sink(token + m, block.panel(i), out[i] + kPanelRows * m, panel_rows(block.weight, block.panel(i)));
    }
}
template <class Sink> void product(const Kernels& k, const Block& block, const Activations& a, Tokens tokens, Sink&& sink) {
    product(k, block, a, tokens, sink, [](int) {});
}

// n (at most 16) outputs of a panel to their row.
inline void put_row(float* to, const float* from, int n) {
    if (n == kPanelRows) std::memcpy(to, from, sizeof(float) * kPanelRows);
    else std::memcpy(to, from, sizeof(float) * (size_t)n);
}

}  // namespace cutaway
