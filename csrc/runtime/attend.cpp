// Keys and values into pages, and attention over them.
#include <algorithm>

#include "program.h"

namespace cutaway {
namespace {

void normalize_heads(const Kernels& k, const Norm& n, float* row, int heads, int head_dim) {
    for (int h = 0; h < heads; h++) n.apply(k, row + h * head_dim, row + h * head_dim);
}

struct RotateStore final : Op {
    int q, k, v;
    std::shared_ptr<Pages> pages;
    Attention a;
    Rope rope;
    NormPtr q_norm, k_norm;

    void run(Program& p, Worker& worker, const Step& step) const override {
        const Kernels& kern = *p.kernels;
        const Buffer &qs = p.at(q), &ks = p.at(k), &vs = p.at(v);
        const int d = a.head_dim, per = a.heads / a.kv_heads;
        const bool whole_q = q_norm && (int)q_norm->weight.size() != d, whole_k = k_norm && (int)k_norm->weight.size() != d;
        if (whole_q || whole_k)
            worker.parallel(step.tokens, 1, [&](int64_t t) {
                if (whole_q) q_norm->apply(kern, qs.row(t), qs.row(t));
                if (whole_k) k_norm->apply(kern, ks.row(t), ks.row(t));
            });
        const Step::PageTable& table = step.tables[pages->group];
        // One item is one page's tokens of one kv head: the page's first slot clears it before the others are written.
        worker.parallel((int64_t)step.pages.size() * a.kv_heads, 1, [&](int64_t item) {
            const Step::Run run = step.pages[item / a.kv_heads];
            const int head = (int)(item % a.kv_heads);
            for (int t = run.begin; t < run.end; t++) {
                const int position = step.position[t];
                float *qh = qs.row(t) + head * per * d, *kh = ks.row(t) + head * d;
                if (q_norm && !whole_q) normalize_heads(kern, *q_norm, qh, per, d);
                if (k_norm && !whole_k) normalize_heads(kern, *k_norm, kh, 1, d);
                if (rope.half) {
                    const float *c = rope.cosine->data() + (size_t)position * rope.half, *s = rope.sine->data() + (size_t)position * rope.half;
                    for (int h = 0; h < per; h++) kern.rotate(qh + h * d, c, s, rope.half, rope.interleaved);
                    kern.rotate(kh, c, s, rope.half, rope.interleaved);
                }
                const int page = table.pages[(size_t)step.request[t] * table.width + position / pages->view.page_size];
                kern.store_kv(pages->view, page, head, position % pages->view.page_size, kh, vs.row(t) + head * d);
            }
        });
    }
};

// A tile of query rows of one request and kv head.
struct Item {
    int begin, kv_head, first_row, count;  // begin: the request's first token in the step
};

struct Attend final : Op {
    int q;
    std::shared_ptr<Pages> pages;
    Attention a;

    std::vector<Item> items(const Step& step) const {
        std::vector<Item> out;
        const int per = a.heads / a.kv_heads;
        for (const auto& r : step.requests)
            for (int head = 0; head < a.kv_heads; head++)
                for (int row = 0; row < (r.end - r.begin) * per; row += kRowTile)
                    out.push_back({r.begin, head, row, std::min(kRowTile, (r.end - r.begin) * per - row)});
        return out;
    }

    // The rows of an item; the last one stands in for those that fill a tile of 1, 2, 4 or 8.
    AttendRows rows(Program& p, const Step& step, const Item& item) const {
        const int per = a.heads / a.kv_heads;
        const Step::PageTable& table = step.tables[pages->group];
        AttendRows r;
        r.count = item.count >= 5 ? 8 : item.count >= 3 ? 4 : item.count;
        r.kv_head = item.kv_head;
        r.table = table.pages + (size_t)step.request[item.begin] * table.width;
        for (int i = 0; i < r.count; i++) {
            const int row = item.first_row + std::min(i, item.count - 1), t = item.begin + row / per, head = item.kv_head * per + row % per;
            r.q[i] = p.at(q).row(t) + head * a.head_dim;
            r.position[i] = step.position[t];
            r.first[i] = a.window ? std::max(0, step.position[t] - a.window + 1) : 0;
            r.slope[i] = a.slopes.empty() ? 0.0f : a.slopes[head];
        }
        return r;
    }

    float* output(Program& p, const Item& item, int i) const {
        const int per = a.heads / a.kv_heads, row = item.first_row + i;
        return p.at(outputs[0]).row(item.begin + row / per) + (item.kv_head * per + row % per) * a.head_dim;
    }

    struct Range {
        int first, last;  // segments
    };
    static Range segments(const AttendRows& r) {
        const int low = *std::min_element(r.first, r.first + r.count), high = *std::max_element(r.position, r.position + r.count);
        return {low / kSegment, high / kSegment};
    }

    void run(Program& p, Worker& worker, const Step& step) const override {
        const std::vector<Item> list = items(step);
        const int longest = *std::max_element(step.position, step.position + step.tokens) / kSegment + 1;
        const size_t pad = (size_t)(a.head_dim + 31) / 32 * 32;
        if ((int)list.size() < 2 * p.team->threads() && longest > 1 && p.team->threads() > 1) return run_split(p, worker, step, list, longest, pad);
        const AttendView view{a.scale, a.softcap};
        worker.parallel((int64_t)list.size(), 1, [&](int64_t i) {
            const AttendRows r = rows(p, step, list[i]);
            float* scratch = worker.scratch<float>(kRowTile * (kSegment + 2 * pad));
            float *o[kRowTile], *O[kRowTile], m[kRowTile], l[kRowTile], M[kRowTile], L[kRowTile];
            for (int j = 0; j < kRowTile; j++) {
                o[j] = scratch + kRowTile * kSegment + j * pad, O[j] = o[j] + kRowTile * pad;
                M[j] = -__builtin_inff(), L[j] = 0.0f;
            }
            const Range s = segments(r);
            for (int at = s.first; at <= s.last; at++) {
                p.kernels->segment(pages->view, view, r, at * kSegment, scratch, m, l, o);
                for (int j = 0; j < list[i].count; j++) p.kernels->merge(M + j, L + j, O[j], m[j], l[j], o[j], a.head_dim);
            }
            for (int j = 0; j < list[i].count; j++) p.kernels->finish(O[j], L[j], output(p, list[i], j), a.head_dim);
        });
    }

    // Few rows and a long context: threads share the segments of a row, and the same merge follows.
    void run_split(Program& p, Worker& worker, const Step& step, const std::vector<Item>& list, int longest, size_t pad) const {
        const AttendView view{a.scale, a.softcap};
        const size_t per_tile = kRowTile * (2 + pad);
        float* partial = p.partial(list.size() * longest * per_tile);
        worker.parallel((int64_t)list.size() * longest, 1, [&](int64_t item) {
            const AttendRows r = rows(p, step, list[item / longest]);
            const int at = (int)(item % longest);
            const Range s = segments(r);
            if (at < s.first || at > s.last) return;
            float *to = partial + item * per_tile, *o[kRowTile];
            for (int j = 0; j < kRowTile; j++) o[j] = to + 2 * kRowTile + j * pad;
            p.kernels->segment(pages->view, view, r, at * kSegment, worker.scratch<float>(kRowTile * kSegment), to, to + kRowTile, o);
        });
        worker.parallel((int64_t)list.size(), 1, [&](int64_t i) {
            const AttendRows r = rows(p, step, list[i]);
            const Range s = segments(r);
            float* O = worker.scratch<float>(pad);
            for (int j = 0; j < list[i].count; j++) {
                float M = -__builtin_inff(), L = 0.0f;
                for (int at = s.first; at <= s.last; at++) {
                    const float* from = partial + (i * longest + at) * per_tile;
                    p.kernels->merge(&M, &L, O, from[j], from[kRowTile + j], from + 2 * kRowTile + j * pad, a.head_dim);
                }
                p.kernels->finish(O, L, output(p, list[i], j), a.head_dim);
            }
        });
    }
};

}  // namespace

size_t add_rotate_store(Program& p, int q, int k, int v, std::shared_ptr<Pages> pages, const Attention& a, const Rope& rope, NormPtr q_norm, NormPtr k_norm) {
    check(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "heads are not a multiple of kv_heads");
    check(p.at(q).width == (size_t)a.heads * a.head_dim && p.at(k).width == (size_t)a.kv_heads * a.head_dim && p.at(v).width == p.at(k).width,
          "queries, keys and values do not have the attention's shape");
    check(pages->view.kv_heads == a.kv_heads && pages->view.head_dim == a.head_dim, "the pages do not have the attention's shape");
    check(2 * rope.half <= a.head_dim, "the rope is wider than a head");
    const auto fits = [&](const NormPtr& n, int buffer) { return !n || n->weight.size() == (size_t)a.head_dim || n->weight.size() == p.at(buffer).width; };
    check(fits(q_norm, q) && fits(k_norm, k), "a query or key norm is as wide as neither a head nor a row");
    p.page_size = pages->view.page_size;
    if (rope.half) p.context = std::min(p.context, rope.cosine->size() / rope.half);
    if ((size_t)pages->group >= p.pages_of_group.size()) p.pages_of_group.resize(pages->group + 1, INT32_MAX);
    p.pages_of_group[pages->group] = std::min(p.pages_of_group[pages->group], pages->count);
    auto op = std::make_unique<RotateStore>();
    op->name = "rotate_store", op->outputs = {q};
    op->q = q, op->k = k, op->v = v, op->pages = std::move(pages), op->a = a, op->rope = rope, op->q_norm = std::move(q_norm), op->k_norm = std::move(k_norm);
    return p.add(std::move(op));
}

size_t add_attend(Program& p, int q, std::shared_ptr<Pages> pages, const Attention& a) {
    p.attention_pad = std::max(p.attention_pad, (size_t)(a.head_dim + 31) / 32 * 32);
    auto op = std::make_unique<Attend>();
    op->name = "attend", op->outputs = {p.buffer((size_t)a.heads * a.head_dim, p.max_tokens)};
    op->q = q, op->pages = std::move(pages), op->a = a;
    return p.add(std::move(op));
}

}  // namespace cutaway
