// How a weight is cut into blocks, and a block's product with a tile of tokens.
#pragma once
#include <algorithm>

#include "activations.h"

namespace cutaway {

// Sets this thread's matrix unit up, if there is one.
inline void shape(const Kernels& k, Worker& worker, Shapes shapes) {
    if (k.shape && worker.shapes != shapes) k.shape(worker.shapes = shapes);
}

// Panels at most that a tile of tokens meets one after the other.
constexpr int kBlock = 8;
constexpr int kStretch = 32, kGemmStretch = 16;  // groups that stay in the first cache meanwhile, beside a panel's

// How a weight is cut into blocks. For many tokens: so many panels after each other. For few: into a run for each
// thread, equal to a panel; a run into four parts, which are read side by side, so a unit is a panel of each; a block
// is some units, and the last one what is left of the run.
//
//   run | part 0: 0 1 2 3 4 5 | part 1: 6 .. 11 | part 2: 12 .. 17 | part 3: 18 .. 23 | left: 24 25 |
//   unit 1 = panels 1, 7, 13, 19
struct Cut {
    const Weight& weight;
    int count;
    size_t runs, each, per_run;  // each: panels or units of a block; per_run: blocks

    Cut(const Weight& w, int panels, int count, int threads = 1) : weight(w), count(count), runs(gemv() ? threads : 1) {
        each = gemv() ? std::max(1, panels / kReaders) : panels;
        const size_t longest = (w.panels() + runs - 1) / runs, parts = gemv() ? longest / kReaders : w.panels();
        per_run = std::max<size_t>(1, (parts + each - 1) / each);
    }
    bool gemv() const { return count <= kGemvTokens; }
    int64_t blocks() const { return (int64_t)(runs * per_run); }

    struct Part {
        size_t first, apart, units, rest,
            left;  // panels: the first unit's first, from one reader's to the next; `left` from `rest` on
    };
    Part part(int64_t block) const {
        if (!gemv()) return {0, 0, 0, block * each, std::min(each, weight.panels() - block * each)};
        const size_t run = block / per_run, at = block % per_run, begin = start(run), panels = start(run + 1) - begin,
                     units = Weight::part_panels(panels);
        const size_t from = units * at / per_run, to = units * (at + 1) / per_run;
        return {begin + from, units, to - from, begin + kReaders * units,
                at + 1 == per_run ? panels - kReaders * units : 0};
    }

  private:
    size_t start(size_t run) const { return weight.panels() * run / runs; }
};

// Panels that a block of one token may have, and what a block of `count` may be cut to: what is left of a run, eight
// panels at most, comes on top of its last block's units.
constexpr int kRoom = 2 * kBlock * kTallest;
constexpr int most_panels(int count) { return kRoom / count - 16; }

// The usual cut. Many tokens: blocks that stay in a cache, four a thread or more. Few: blocks as large as their room,
// if possible a run, for they lose a little wherever one ends; where a thread may have to wait for its core, a quarter
// of it, so that others can take what it has not begun. An op takes the cuts before its first barrier, and once.
inline Cut cut_of(const Weight& w, Worker::Cuts cuts, int count) {
    const int piece = (int)w.panels() / (4 * cuts.runs);
    if (count <= kGemvTokens)
        return {w, cuts.fine ? std::clamp(piece, kReaders, most_panels(count)) : most_panels(count), count, cuts.runs};
    return {w, std::clamp(std::min(262144 / (int)w.panel_bytes, piece), 1, kBlock), count, cuts.runs};
}

constexpr size_t kComing = 131072;  // bytes that a thread prefetches before the op

// What is read first, from a block on.
inline Prefetch prefetch_of(const Cut& cut, int64_t block) {
    Prefetch c;
    const Cut::Part part = cut.part(block);
    if (!part.units) return c;
    for (; c.readers < kReaders; c.readers++) c.at[c.readers] = cut.weight.panel(part.first + c.readers * part.apart);
    c.left = std::min(kComing / kReaders, part.units * cut.weight.panel_bytes);
    return c;
}

// What a block gives: for each panel [height][16], `apart` floats from one to the next.
struct BlockOut {
    alignas(64) float values[kRoom * kPanelRows];
    size_t apart = kTallest * kPanelRows;
    float* operator[](size_t i) { return values + i * apart; }
    const float* operator[](size_t i) const { return values + i * apart; }
};

// Some panels of a weight, ready to be multiplied: unpacked once where tiles are wide.
class Block {
  public:
    const Weight& weight;
    size_t size;  // panels

    // `which`: blocks that are in use at once have buffers of their own.
    Block(const Kernels& k, Worker& worker, const Weight& w, const Cut& cut, int64_t block, int which = 0)
        : weight(w), worker_(worker), part_(cut.part(block)), quads_(kReaders * part_.units), gemv_(cut.gemv()) {
        size = quads_ + part_.left;
        const int count = cut.count, groups = (int)w.layout.groups(w.inputs), least = k.tiling(count).least;
        kept_ = count >= k.widest + least;
        // To unpack for one tile pays on a matrix unit only.
        if (k.gemm && !w.layout.is_float() && (kept_ || (k.split_bf16 && count >= least)))
            gemm_ = k.gemm(w.layout.codes, w.layout.scales);
        if (!gemm_.multiply) return;
        stride_ = (kept_ ? groups : kPiece) * gemm_.bytes;
        unpacked_ = worker.lines(which, kept_ ? size * stride_ : stride_);
        if (!kept_) return;
        for (size_t i = 0; i < size; i++) gemm_.unpack(panel_at(i), w.table, 0, groups, unpacked_ + i * stride_);
    }

    // The i-th panel's place in the weight.
    size_t panel(size_t i) const {
        return i < quads_ ? part_.first + i / kReaders + i % kReaders * part_.apart : part_.rest + i - quads_;
    }
    // f(i, row, rows): `rows` rows of the weight from `row` on, those of the i-th panel and of its neighbours behind
    // it.
    template <class F> void each_run(F&& f) const {
        for (size_t i = 0, n = gemv_ ? 1 : size; i < size; i += n) {
            const size_t row = panel(i) * kPanelRows;
            f(i, row, (int)std::min(n * kPanelRows, weight.rows - row));
        }
    }

    // Times the tokens token .. token + height - 1, and the bias: out[i] is [height][16] of the i-th panel.
    void multiply(const Kernels& k, const Activations& a, int token, int height, BlockOut& out) const {
        const Layout& l = weight.layout;
        const int real = std::min(height, a.count - token), groups = (int)a.groups;
        out.apart = (gemv_ ? height : kTallest) * kPanelRows;
        if (a.split && l.codes == kBF16) {
            multiply_parts(k, a, token, real, out);
        } else if (l.is_float()) {
            multiply_floats(k, a, token, real, out);
        } else if (gemv_) {
            gemv(k, a, token, height, out);
        } else {
            const bool wide = gemm_.multiply && height == k.widest;
            if (wide) shape(k, worker_, kCodeShapes);
            const Tile tile = wide ? nullptr : k.tile(l.codes, l.scales, height);
            const int stretch = a.count <= k.widest ? groups : wide ? kGemmStretch : kStretch;
            for (int from = 0; from < groups; from += stretch)
                for (size_t i = 0; i < size; i++) {
                    const int to = std::min(groups, from + stretch);
                    if (!wide)
                        tile(panel_at(i), weight.table, from, to, a.tile(token), out[i]);
                    else if (kept_) {
                        const int panels = (int)std::min<size_t>(2, size - i);
                        gemm_.multiply(unpacked_ + i * stride_ + from * gemm_.bytes, stride_, panels, from, to,
                                       a.tile(token), out[i]);
                        i += panels - 1;
                    } else
                        multiply_pieces(i, from, to, a.tile(token), out[i]);
                }
        }
        if (weight.bias.empty()) return;
        for (size_t i = 0; i < size; i++)
            for (int m = 0; m < real; m++)
                for (int j = 0; j < kPanelRows; j++)
                    out[i][kPanelRows * m + j] += weight.bias[panel(i) * kPanelRows + j];
    }

    // Bytes of unpacked panels that blocks of so many need, for up to `count` tokens.
    static size_t lines(const Kernels& k, const Weight& w, size_t panels, int count) {
        const Gemm wide = k.gemm && !w.layout.is_float() ? k.gemm(w.layout.codes, w.layout.scales) : Gemm{};
        const int least = k.tiling(count).least;
        if (!wide.multiply || (count < k.widest + least && !(k.split_bf16 && count >= least))) return 0;
        return std::max(count < k.widest + least ? 0 : panels * w.layout.groups(w.inputs), (size_t)kPiece) * wide.bytes;
    }

  private:
    const uint8_t* panel_at(size_t i) const { return weight.panel(panel(i)); }

    // f(i, n): the panels i .. i + n - 1 are read side by side.
    template <class F> void each_gemv(F&& f) const {
        for (size_t i = 0, n; i < size; i += n) {
            n = i < quads_ ? kReaders : std::min<size_t>(2, size - i);
            f(i, n);
        }
    }
    size_t apart(size_t i, size_t n) const { return n > 1 ? (panel(i + 1) - panel(i)) * weight.panel_bytes : 0; }

    void gemv(const Kernels& k, const Activations& a, int token, int height, BlockOut& out) const {
        const Layout& l = weight.layout;
        const int groups = (int)a.groups;
        each_gemv([&](size_t i, size_t n) {
            const uint8_t* panels[kReaders];
            for (size_t r = 0; r < n; r++) panels[r] = panel_at(i + r);
            if (n == 1)
                k.tile(l.codes, l.scales, height)(panels[0], weight.table, 0, groups, a.tile(token), out[i]);
            else
                k.gemv(l.codes, l.scales, height, (int)n)(panels, weight.table, groups, a.tile(token), out[i]);
        });
    }

    void multiply_parts(const Kernels& k, const Activations& a, int token, int count, BlockOut& out) const {
        shape(k, worker_, kBf16Shapes);
        const uint8_t* tiles = a.split + split_bytes(weight.inputs, token);
        const size_t bytes = weight.panel_bytes;
        const int inputs = (int)weight.inputs;
        if (!gemv_)
            return k.split_bf16->multiply(panel_at(0), bytes, 2 * bytes, (int)size, inputs, tiles, count, out[0]);
        each_gemv([&](size_t i, size_t n) {
            k.split_bf16->gemv(panel_at(i), apart(i, n), (int)n, inputs, tiles, count, out[i]);
        });
    }

    void multiply_floats(const Kernels& k, const Activations& a, int token, int count, BlockOut& out) const {
        const auto tiles = [&](size_t i, size_t n, int m, int height) {
            k.tile_float(weight.layout.codes, height, (int)n)(panel_at(i), apart(i, n), (int)weight.inputs,
                                                              a.floats + (size_t)(token + m) * a.stride, (int)a.stride,
                                                              out[i] + kPanelRows * m);
        };
        if (gemv_) return each_gemv([&](size_t i, size_t n) { tiles(i, n, 0, count); });
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
            gemm_.unpack(panel_at(i), weight.table, g, end, unpacked_);
            gemm_.multiply(unpacked_, 0, 1, g, end, tile, out);
        }
    }

    static constexpr int kPiece = 8;  // groups
    Worker& worker_;
    const Cut::Part part_;
    const size_t quads_;  // panels of its units
    const bool gemv_;
    Gemm gemm_ = {};
    bool kept_ = false;  // all panels are unpacked at once, for several tiles of tokens
    uint8_t* unpacked_ = nullptr;
    size_t stride_ = 0;
};

}  // namespace cutaway
