// A packed matrix, an embedding table, a layer's pages: what a program's ops point at.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../kernels/kernel_table.h"
#include "../kernels/dequantize_row.h"
#include "memory.h"
#include "team.h"

namespace cutaway {

// Maps a stretch of a file at once: a fault for every few pages costs as much as the packing. A hint, may fail.
inline void fetch(const uint8_t* from, size_t bytes) {
#if defined(MADV_POPULATE_READ)
    const uintptr_t page = 4096, begin = (uintptr_t)from / page * page,
                    end = ((uintptr_t)from + bytes + page - 1) / page * page;
    madvise((void*)begin, end - begin, MADV_POPULATE_READ);
#else
    (void)from, (void)bytes;
#endif
}

struct Weight {
    Layout layout{};
    int type = 0;
    size_t rows = 0, inputs = 0, panel_bytes = 0;
    Arena::Piece data;
    std::vector<float> bias;  // empty, or padded to whole panels
    uint8_t table[16] = {};

    size_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
    const uint8_t* panel(size_t p) const { return data.data() + p * panel_bytes; }
    // What a product reads.
    size_t nbytes() const { return panels() * layout.panel(inputs) + bias.size() * sizeof(float); }

    // Panels in each of the four parts of a thread's run, which are read side by side (see Cut). 32 make whole pages of
    // lines.
    static size_t part_panels(size_t run) {
        const size_t units = run / kReaders;
        return units % 32 == 0 && units > 1 ? units - 1 : units;
    }
    // From a panel to the next. Readers that come to the ends of their pages at the same time get a tenth less of
    // memory: a few lines between panels bring them apart: as few as do so for all of the threads, and for most numbers
    // below.
    static size_t stride(size_t bytes, size_t panels, int threads) {
        bytes = (bytes + 63) / 64 * 64;
        size_t best = bytes, most = 0;
        for (size_t more = 0; more < 2048; more += 64) {
            size_t good = 0;
            for (int n = 1; n <= threads; n++) {
                const size_t apart = part_panels(panels / (size_t)n) * (bytes + more) % 2048;
                if (256 <= apart && apart <= 2048 - 256) good += n == threads ? (size_t)threads : 1;
            }
            if (good > most) best = bytes + more, most = good;
        }
        return best;
    }

    // Everything but the data: what a plan needs, and a recording of ops that is never run.
    void outline(const Team& team, const Layout& l, int t, size_t r, size_t k, bool biased) {
        layout = l, type = t, rows = r, inputs = k,
        panel_bytes = stride(l.panel(k), (r + kPanelRows - 1) / kPanelRows, team.threads());
        if (biased) bias.assign(panels() * kPanelRows, 0.0f);
    }
    // Of the arena, with the lines between panels.
    size_t held() const { return Arena::lines(panels() * panel_bytes + 64); }

    void shape(const Team& team, Arena& arena, const Layout& l, int t, size_t r, size_t k, const float* b) {
        outline(team, l, t, r, k, b);
        data = arena.take(held());
        if (b) std::memcpy(bias.data(), b, r * sizeof(float));
    }

    static std::shared_ptr<Weight> pack(Team& team, int type, const uint8_t* raw, size_t raw_bytes, size_t rows,
                                        size_t inputs, const float* bias) {
        const TypeInfo* t = find_type(type);
        if (!t) throw std::invalid_argument("no kernel layout for tensor type " + std::to_string(type));
        if (!rows || !inputs || inputs % t->elements || raw_bytes != rows * (inputs / t->elements) * t->bytes)
            throw std::invalid_argument("a matrix of type " + std::to_string(type) + " with " + std::to_string(rows) +
                                        " x " + std::to_string(inputs) + " does not hold " + std::to_string(raw_bytes) +
                                        " bytes");
        auto w = std::make_shared<Weight>();
        w->shape(team, team.weights, t->layout, type, rows, inputs, bias);
        const size_t stretch = raw_bytes / rows * kPanelRows;  // of the source, per panel
        const int64_t chunk = std::max<int64_t>(1, (int64_t)((1 << 20) / stretch));
        team.run([&](Worker& worker) {
            worker.parallel((int64_t)w->panels(), chunk, [&](int64_t p) {
                if (p % chunk == 0)
                    fetch(raw + p * stretch, std::min(raw_bytes - p * stretch, (size_t)chunk * stretch));
                pack_panel(*t, raw, rows, inputs, p, w->data.data() + p * w->panel_bytes);
            });
        });
        return w;
    }

    // codes: uint8 [rows, inputs]: signed code + 128, or an index into `table` (signed values + 128) where there is
    // one.
    static std::shared_ptr<Weight> from_codes(Team& team, int type, const uint8_t* codes, const float* scales, int sub,
                                              const uint8_t* table, size_t rows, size_t inputs, const float* bias) {
        auto w = std::make_shared<Weight>();
        w->shape(team, team.weights, {table ? kTable : kByte, sub == 16 ? kFloat16 : kFloat}, type, rows, inputs, bias);
        if (table) std::memcpy(w->table, table, 16);
        team.run([&](Worker& worker) {
            worker.parallel((int64_t)w->panels(), 1, [&](int64_t p) {
                pack_panel_codes(w->layout, codes, scales, sub, rows, inputs, p, w->data.data() + p * w->panel_bytes);
            });
        });
        return w;
    }

    // One row back as floats; only for what from_codes made.
    void row(size_t r, float* out) const {
        const uint8_t* p = panel(r / kPanelRows);
        const size_t lane = r % kPanelRows, per_group = layout.scales == kFloat16 ? 2 : 1;
        for (size_t k = 0; k < inputs; k++) {
            const size_t g = k / kGroup, in = k % kGroup, j = in / 4;
            const uint8_t* line =
                p + layout.codes_at(g) + 64 * (layout.codes == kTable ? j % 4 : j) + 4 * lane + in % 4;
            const int code = layout.codes == kTable ? table[j < 4 ? *line & 15 : *line >> 4] : *line;
            const float* scale = (const float*)(p + layout.scales_at(g));
            out[k] = (float)(code - 128) * scale[in / (kGroup / per_group) * kPanelRows + lane];
        }
    }
};

// Embedding rows, read where they lie: in the file, or in a weight made from codes.
struct Table {
    const TypeInfo* type = nullptr;
    const uint8_t* raw = nullptr;
    size_t rows = 0, inputs = 0;
    std::shared_ptr<Weight> packed;

    void row(size_t r, float* out) const {
        if (packed) return packed->row(r, out);
        decode_row(*type, raw + r * (inputs / type->elements * type->bytes), inputs, out);
    }
};

// The pages of some layers that share a page table. A page lies beside the same page of the other layers, so that few
// huge pages hold what a step reads, and memory is taken as tokens come.
struct PagePool {
    int group, pages, layers;
    KVView view{};  // of the first layer
    Memory memory{kPages};

    PagePool(int group, int pages, int layers, int kv_heads, int head_dim, int page_size, int key_type, int value_type)
        : group(group), pages(pages), layers(layers) {
        view = {nullptr, 0, 0, kv_heads, head_dim, page_size, key_type, value_type};
        view.head_bytes = (view.end() + 63) / 64 * 64, view.page_bytes = layers * kv_heads * view.head_bytes;
        memory = Memory(pages * view.page_bytes + 64, kPages);
        view.base = memory.data();
    }
};

// One layer's part of a pool.
struct Pages {
    std::shared_ptr<PagePool> pool;
    KVView view;
    int group, count;

    Pages(std::shared_ptr<PagePool> from, int layer)
        : pool(std::move(from)), view(pool->view), group(pool->group), count(pool->pages) {
        view.base += (size_t)layer * view.kv_heads * view.head_bytes;
    }
};

}  // namespace cutaway
