// Keys and values into pages, and attention over them.
#include <algorithm>

#include "product.h"

namespace cutaway {
namespace {

void normalize_heads(const Kernels& k, const Norm& n, float* row, int heads, int head_dim) {
    for (int h = 0; h < heads; h++) n.apply(k, row + h * head_dim, row + h * head_dim);
}

struct Attend;

struct RotateStore final : Op {
    int q, k, v;
    std::shared_ptr<Pages> pages;
    Attention a;
    Rope rope;
    NormPtr q_norm, k_norm;
    const Attend* after = nullptr;  // the attention that does this op's work where it can

    bool whole(const NormPtr& n) const { return n && (int)n->weight.size() != a.head_dim; }

    void run(Program& p, Worker& worker, const Step& step) const override;

    // One token and kv head, and the queries that read it: turned in place, and stored.
    void turn(Program& p, const Step& step, int t, int head) const {
        const Kernels& kern = *p.kernels;
        const int d = a.head_dim, per = a.heads / a.kv_heads, position = step.position[t];
        float *qh = p.at(q).row(t) + head * per * d, *kh = p.at(k).row(t) + head * d;
        if (q_norm && !whole(q_norm)) normalize_heads(kern, *q_norm, qh, per, d);
        if (k_norm && !whole(k_norm)) normalize_heads(kern, *k_norm, kh, 1, d);
        if (rope.half) {
            const float *c = rope.cosine->data() + (size_t)position * rope.half,
                        *s = rope.sine->data() + (size_t)position * rope.half;
            for (int h = 0; h < per; h++) kern.rotate(qh + h * d, c, s, rope.half, rope.interleaved);
            kern.rotate(kh, c, s, rope.half, rope.interleaved);
        }
        const Step::PageTable& table = step.tables[pages->group];
        const int page = table.pages[(size_t)step.request[t] * table.width + position / pages->view.page_size];
        kern.store_kv(pages->view, page, head, position % pages->view.page_size, kh, p.at(v).row(t) + head * d);
    }
};

constexpr int kMostRows = 240;  // query rows that share widened keys and values: whole tiles of 12 or 16

// Query rows of one request and kv head: row = token * (heads per kv head) + head.
struct Item {
    int begin, kv_head, first_row, count;  // begin: the request's first token in the step
};

struct Range {
    int first, last;
};

// The tiles of an item: their rows, and what is known of them after the segments so far.
struct Tiles {
    int count = 0;
    AttendRows rows[kMostRows / kVectorRows];
    float M[kMostRows], L[kMostRows];
    float *O, *o, *p, *room;  // [rows][pad]; of one tile and segment: [kRowTile][pad], [kRowTile][kSegment]; widened
                              // keys and values, or pairs

    static Range visible(const AttendRows& r) {
        return {*std::min_element(r.first, r.first + r.count), *std::max_element(r.position, r.position + r.count)};
    }
    Range visible() const {
        Range all = visible(rows[0]);
        for (int i = 1; i < count; i++) {
            const Range one = visible(rows[i]);
            all = {std::min(all.first, one.first), std::max(all.last, one.last)};
        }
        return all;
    }
};

struct Attend final : Op {
    int q;
    std::shared_ptr<Pages> pages;
    Attention a;
    const AttendWay* way = nullptr;
    const RotateStore* before = nullptr;  // whose work is done here where `takes_over` says so

    size_t pad() const { return (size_t)(a.head_dim + 31) / 32 * 32; }

    // Of an item, so that each thread has about eight.
    int most_rows(int tokens, int threads) const {
        const int fair = tokens * a.heads / (8 * threads) / way->rows * way->rows;
        return std::clamp(fair, way->rows, kMostRows / way->rows * way->rows);
    }

    // The longest first, as far as that is known: a request's last rows see the most.
    const std::vector<Item>& items(const Step& step, int threads) const {
        static thread_local std::vector<Item> out;  // kept, so that no step allocates
        out.clear();
        const int per = a.heads / a.kv_heads, most = most_rows(step.tokens, threads);
        for (const auto& r : step.requests)
            for (int row = ((r.end - r.begin) * per - 1) / most * most; row >= 0; row -= most)
                for (int head = 0; head < a.kv_heads; head++)
                    out.push_back({r.begin, head, row, std::min(most, (r.end - r.begin) * per - row)});
        return out;
    }

    // Floats of an item's tiles, and of what all of them read widened.
    size_t tile_floats(size_t rows) const {
        const size_t widened = 2 * kSegment * a.head_dim + 64;
        return rows * (a.head_dim + pad()) + kRowTile * (pad() + kSegment) + widened;
    }
    Room room(const Program& p) const override {
        const int per = a.heads / a.kv_heads;
        const size_t rows =
            (size_t)std::min(most_rows(p.max_tokens, 1), (p.max_tokens * per + way->rows - 1) / way->rows * way->rows);
        return {tile_floats(rows) * sizeof(float), {0, 0}};
    }

    // An item's tiles, in this worker's scratch.
    void open(Program& p, Worker& worker, const Step& step, const Item& item, Tiles& tiles) const {
        const int per = a.heads / a.kv_heads, d = a.head_dim, tile = way->rows;
        if (way->split) shape(*p.kernels, worker, kBf16Shapes);
        const size_t rows = (size_t)(item.count + tile - 1) / tile * tile;
        float* scaled = worker.scratch<float>(tile_floats(rows));
        tiles.O = scaled + rows * d, tiles.o = tiles.O + rows * pad(), tiles.p = tiles.o + kRowTile * pad(),
        tiles.room = tiles.p + kRowTile * kSegment;
        tiles.count = 0;
        const float scale = a.softcap > 0.0f ? a.scale : a.scale * kLog2E;
        for (int first = 0; first < item.count; first += tile, scaled += tile * d) {
            AttendRows& r = tiles.rows[tiles.count++];
            r.count = std::min(tile, item.count - first), r.q = scaled;
            for (int i = 0; i < r.count; i++) {
                const int row = item.first_row + first + i, t = item.begin + row / per,
                          head = item.kv_head * per + row % per;
                const float* x = p.at(q).row(t) + head * d;
                float* to = way->split ? tiles.o : scaled + i * d;
                for (int j = 0; j < d; j++) to[j] = x[j] * scale;
                if (way->split)
                    p.kernels->split_bf16->split(to, d, (uint8_t*)scaled + 64 * i, 64 * kRowTile, 2 * 64 * kRowTile);
                r.position[i] = step.position[t];
                r.first[i] = a.window ? std::max(0, step.position[t] - a.window + 1) : 0;
                r.slope[i] = a.slopes.empty() ? 0.0f : a.slopes[head];
                tiles.M[first + i] = -__builtin_inff(), tiles.L[first + i] = 0.0f;
            }
        }
    }

    AttendBlocks locate(const Step& step, const Item& item, int segment, Range visible) const {
        const Step::PageTable& table = step.tables[pages->group];
        const int32_t* row = table.pages + (size_t)step.request[item.begin] * table.width;
        const KVView& kv = pages->view;
        AttendBlocks out{kv.key_type, kv.value_type, a.head_dim, segment * kSegment, nullptr, {}, {}, {}, {}};
        // Block by block, without a division for each.
        int at = out.start / kv.page_size;
        size_t place = out.start % kv.page_size;
        for (int b = 0; b < kBlocks; b++, place += 16) {
            if (place == (size_t)kv.page_size) at++, place = 0;
            const int token = out.start + 16 * b,
                      page = token > visible.last || token + 15 < visible.first ? -1 : row[at];
            if (page < 0) continue;
            const uint8_t* head = kv.head(page, item.kv_head);
            out.keys[b] = head + place * a.head_dim * kKVBytes[kv.key_type],
            out.values[b] = head + kv.values_at() + place * a.head_dim * kKVBytes[kv.value_type];
            if (kv.scaled(kv.key_type)) out.key_scales[b] = (const float*)(head + kv.key_scales_at()) + place;
            if (kv.scaled(kv.value_type)) out.value_scales[b] = (const float*)(head + kv.value_scales_at()) + place;
        }
        return out;
    }

    float* output(Program& p, const Item& item, int i) const {
        const int per = a.heads / a.kv_heads, row = item.first_row + i;
        return p.at(outputs[0]).row(item.begin + row / per) + (item.kv_head * per + row % per) * a.head_dim;
    }

    static int longest(const Step& step) {
        return *std::max_element(step.position, step.position + step.tokens) / kSegment + 1;
    }

    // Whether threads share what one row sees.
    bool splits(const Step& step, int items, int threads) const {
        const bool even = step.requests.size() == 1 && items % threads == 0;
        return !even && items < 2 * threads && longest(step) > 1 && threads > 1;
    }

    // A token or two, each of a request of its own: an item turns and stores what it reads, and a barrier is saved.
    // With many it costs more than that to read a line again that was just written. Both ops ask this, so `threads` is
    // what there may be: how many there are can change between them.
    bool takes_over(const Step& step, int threads) const {
        const int requests = (int)step.requests.size();
        return before && requests == step.tokens && requests <= kAlone && a.heads / a.kv_heads <= kVectorRows &&
               !splits(step, requests * a.kv_heads, threads);
    }

    void run(Program& p, Worker& worker, const Step& step) const override {
        const std::vector<Item>& list = items(step, worker.runs());
        const bool turning = takes_over(step, p.team->threads());
        if (!turning && splits(step, (int)list.size(), worker.runs()))
            return run_split(p, worker, step, list, longest(step));
        worker.parallel((int64_t)list.size(), 1, [&](int64_t i) {
            if (turning) before->turn(p, step, list[i].begin, list[i].kv_head);
            Tiles tiles;
            open(p, worker, step, list[i], tiles);
            run_item(p, step, list[i], tiles);
        });
    }

    void run_item(Program& p, const Step& step, const Item& item, Tiles& tiles) const {
        const Range visible = tiles.visible();
        const AttendView view{a.softcap};
        const int tile = way->rows;
        const int last = visible.last / kSegment;
        AttendBlocks blocks = locate(step, item, visible.first / kSegment, visible), next;
        for (int at = visible.first / kSegment; at <= last; at++, blocks = next) {
            const bool ahead = at < last;
            if (ahead) next = locate(step, item, at + 1, visible);
            if (tiles.count >= way->worth) way->prepare(blocks, tiles.room);
            for (int i = 0; i < tiles.count; i++) {
                const AttendRows& r = tiles.rows[i];
                const Range seen = Tiles::visible(r);
                if (at < seen.first / kSegment || at > seen.last / kSegment) continue;
                float m[kRowTile], l[kRowTile];
                way->segment(blocks, ahead && i + 1 == tiles.count ? &next : nullptr, view, r, tiles.p, m, l, tiles.o,
                             (int)pad());
                p.kernels->merge(r.count, tiles.M + i * tile, tiles.L + i * tile, tiles.O + i * tile * pad(), m, l,
                                 tiles.o, (int)pad(), a.head_dim);
            }
        }
        for (int j = 0; j < item.count; j++)
            way->finish(tiles.O + j * pad(), tiles.L[j], output(p, item, j), a.head_dim);
    }

    // Few rows and a long context: threads share the segments of a row, a few neighbours at a time, and the same merge
    // follows. Items are single tiles here.
    void run_split(Program& p, Worker& worker, const Step& step, const std::vector<Item>& list, int longest) const {
        const size_t per_tile = kRowTile * (2 + pad());
        float* partial = p.partial(list.size() * longest * per_tile);
        const int64_t units = (int64_t)list.size() * longest, chunk = std::max<int64_t>(1, units / (8 * worker.runs()));
        worker.parallel(units, chunk, [&](int64_t unit) {
            const Item& item = list[unit / longest];
            const int at = (int)(unit % longest);
            Tiles tiles;
            open(p, worker, step, item, tiles);
            const Range visible = tiles.visible();
            if (at < visible.first / kSegment || at > visible.last / kSegment) return;
            const bool ahead = (unit + 1) % chunk != 0 && at < visible.last / kSegment;
            AttendBlocks blocks = locate(step, item, at, visible),
                         next = ahead ? locate(step, item, at + 1, visible) : AttendBlocks{};
            float* to = partial + unit * per_tile;
            if (tiles.count >= way->worth) way->prepare(blocks, tiles.room);
            way->segment(blocks, ahead ? &next : nullptr, AttendView{a.softcap}, tiles.rows[0], tiles.p, to,
                         to + kRowTile, to + 2 * kRowTile, (int)pad());
        });
        worker.parallel((int64_t)list.size(), 1, [&](int64_t i) {
            Tiles tiles;
            open(p, worker, step, list[i], tiles);
            const Range visible = tiles.visible();
            for (int at = visible.first / kSegment; at <= visible.last / kSegment; at++) {
                const float* from = partial + (i * longest + at) * per_tile;
                p.kernels->merge(list[i].count, tiles.M, tiles.L, tiles.O, from, from + kRowTile, from + 2 * kRowTile,
                                 (int)pad(), a.head_dim);
            }
            for (int j = 0; j < list[i].count; j++)
                way->finish(tiles.O + j * pad(), tiles.L[j], output(p, list[i], j), a.head_dim);
        });
    }
};

void RotateStore::run(Program& p, Worker& worker, const Step& step) const {
    if (after && after->takes_over(step, p.team->threads())) return;
    if (whole(q_norm) || whole(k_norm))
        worker.parallel(step.tokens, 1, [&](int64_t t) {
            if (whole(q_norm)) q_norm->apply(*p.kernels, p.at(q).row(t), p.at(q).row(t));
            if (whole(k_norm)) k_norm->apply(*p.kernels, p.at(k).row(t), p.at(k).row(t));
        });
    // One item is one page's tokens of one kv head: the page's first slot clears it before the others are written.
    worker.parallel((int64_t)step.pages.size() * a.kv_heads, 1, [&](int64_t item) {
        const Step::Run run = step.pages[item / a.kv_heads];
        for (int t = run.begin; t < run.end; t++) turn(p, step, t, (int)(item % a.kv_heads));
    });
}

}  // namespace

size_t add_rotate_store(Program& p, int q, int k, int v, std::shared_ptr<Pages> pages, const Attention& a,
                        const Rope& rope, NormPtr q_norm, NormPtr k_norm) {
    check(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "heads are not a multiple of kv_heads");
    check(p.at(q).width == (size_t)a.heads * a.head_dim && p.at(k).width == (size_t)a.kv_heads * a.head_dim &&
              p.at(v).width == p.at(k).width,
          "queries, keys and values do not have the attention's shape");
    check(pages->view.kv_heads == a.kv_heads && pages->view.head_dim == a.head_dim,
          "the pages do not have the attention's shape");
    check(2 * rope.half <= a.head_dim, "the rope is wider than a head");
    const auto fits = [&](const NormPtr& n, int buffer) {
        return !n || n->weight.size() == (size_t)a.head_dim || n->weight.size() == p.at(buffer).width;
    };
    check(fits(q_norm, q) && fits(k_norm, k), "a query or key norm is as wide as neither a head nor a row");
    p.page_size = pages->view.page_size;
    if (rope.half) p.context = std::min(p.context, rope.cosine->size() / rope.half);
    if ((size_t)pages->group >= p.pages_of_group.size()) p.pages_of_group.resize(pages->group + 1, INT32_MAX);
    p.pages_of_group[pages->group] = std::min(p.pages_of_group[pages->group], pages->count);
    auto op = std::make_unique<RotateStore>();
    op->name = "rotate_store", op->outputs = {q};
    op->q = q, op->k = k, op->v = v, op->pages = std::move(pages), op->a = a, op->rope = rope,
    op->q_norm = std::move(q_norm), op->k_norm = std::move(k_norm);
    return p.add(std::move(op));
}

size_t add_attend(Program& p, int q, std::shared_ptr<Pages> pages, const Attention& a) {
    p.attention_pad = std::max(p.attention_pad, (size_t)(a.head_dim + 31) / 32 * 32);
    auto op = std::make_unique<Attend>();
    op->name = "attend", op->outputs = {p.buffer((size_t)a.heads * a.head_dim, p.max_tokens)};
    op->q = q, op->pages = std::move(pages), op->a = a;
    op->way = p.kernels->attend(op->pages->view.key_type, op->pages->view.value_type, a.head_dim);
    RotateStore* before = p.stepwise || p.ops.empty() ? nullptr : dynamic_cast<RotateStore*>(p.ops.back().get());
    if (before && before->q == q && before->pages == op->pages && !before->whole(before->q_norm) &&
        !before->whole(before->k_norm))
        op->before = before, before->after = op.get();
    return p.add(std::move(op));
}

}  // namespace cutaway
