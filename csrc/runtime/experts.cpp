// A layer of experts: route, gather each expert's tokens, gate and up, down, and sum a token's outputs in expert order.
#include <algorithm>
#include <tuple>

#include "gated.h"

namespace cutaway {
namespace {

// A gathered operand: rows in expert order, each expert's rows starting at a tile of its own.
struct Gathered {
    Arena::Piece tiles, floats;
    size_t width, groups, stride;
    Gathered(Arena& memory, size_t slots, size_t rows, size_t width)
        : tiles(memory.take(tile_bytes((width + kGroup - 1) / kGroup, (int)rows))),
          floats(memory.take(slots * ((width + 15) / 16 * 16) * sizeof(float))),
          width(width),
          groups((width + kGroup - 1) / kGroup),
          stride((width + 15) / 16 * 16) {}
    uint8_t* tile(int row) const { return tiles.data() + tile_bytes(groups, row); }
    float* row(size_t slot) const { return floats.floats() + slot * stride; }
};

struct Routing {
    struct Share {
        int expert;
        float weight;
        int slot;
    };
    struct Group {
        int expert, first, count, tile;  // slots first .. first + count - 1; `tile`: the row its tiles begin at
    };
    std::vector<Share> shares;  // [tokens][used], ascending expert
    std::vector<Group> groups;
    std::vector<int> token_of, group_of;  // per slot
};

// How an expert is cut. Many tokens: an item is about 64 KB, so that few experts still make work for many threads. Few:
// so that `used` experts make about eight items a thread.
Cut expert_cut(const Weight& w, int count, int used, int threads) {
    if (count > kGemvTokens) return {w, (int)std::clamp<size_t>(65536 / w.panel_bytes, 1, kBlock), count};
    return {w, std::clamp((int)w.panels() * used / (8 * threads), 1, most_panels(count)), count};
}
int64_t most_blocks(const Weight& w, int used, int threads) {
    return std::max({expert_cut(w, 1, used, threads).blocks(), expert_cut(w, kGemvTokens, used, threads).blocks(),
                     expert_cut(w, kTallest, used, threads).blocks()});
}

struct Mix final : Op {
    int x, scores, activation, max_tokens;
    NormPtr norm;
    ExpertWeights e;
    std::shared_ptr<Gathered> in, inner, shared_inner;  // layers of one shape share them, as they run one after another
    Arena::Piece down_rows, shared_rows;
    mutable Routing routing;

    void route(Program& p, Worker& worker, int tokens, const Activations& a) const {
        const Buffer& to = p.at(scores);
        const Cut cut(*e.router, 1, a.count, worker.runs());
        worker.parallel(cut.blocks(), 1, [&](int64_t block) {
            product(*p.kernels, {*p.kernels, worker, *e.router, cut, block}, a, {0, a.count},
                    [&](int t, size_t row, const float* y, size_t apart, int rows) {
                        put_row(to.row(t) + row, y, apart, rows);
                    });
        });
        if (worker.index == 0) {
            choose(p, tokens);
            gather(tokens);
        }
        worker.barrier();
    }

    // The `used` largest probabilities, ties to the lower index, in ascending expert order.
    void choose(Program& p, int tokens) const {
        const int n = (int)e.router->rows;
        routing.shares.resize((size_t)tokens * e.used);
        std::vector<int> order((size_t)n);
        for (int t = 0; t < tokens; t++) {
            float* probability = p.at(scores).row(t);
            p.kernels->softmax(probability, n);
            for (int i = 0; i < n; i++) order[i] = i;
            std::partial_sort(order.begin(), order.begin() + e.used, order.end(), [&](int i, int j) {
                return probability[i] > probability[j] || (!(probability[i] < probability[j]) && i < j);
            });
            float total = 0.0f;
            for (int i = 0; i < e.used; i++) total += probability[order[i]];
            std::sort(order.begin(), order.begin() + e.used);
            for (int i = 0; i < e.used; i++)
                routing.shares[(size_t)t * e.used + i] = {
                    order[i], (e.renormalize ? probability[order[i]] / total : probability[order[i]]) * e.scale, 0};
        }
    }

    void gather(int tokens) const {
        Routing& r = routing;
        const int n = (int)e.router->rows;
        std::vector<int> count((size_t)n, 0), next((size_t)n, 0);
        for (const auto& s : r.shares) count[s.expert]++;
        r.groups.clear();
        for (int i = 0, first = 0, tile = 0; i < n; i++) {
            if (!count[i]) continue;
            r.groups.push_back({i, first, count[i], tile});
            next[i] = first;
            first += count[i], tile += count[i] + kTallest;  // the last tile may have rows to spare
        }
        r.token_of.assign(r.shares.size(), 0), r.group_of.assign(r.shares.size(), 0);
        for (int t = 0; t < tokens; t++)
            for (int i = 0; i < e.used; i++) {
                auto& s = r.shares[(size_t)t * e.used + i];
                s.slot = next[s.expert]++;
                r.token_of[s.slot] = t;
            }
        for (size_t g = 0; g < r.groups.size(); g++)
            for (int i = 0; i < r.groups[g].count; i++) r.group_of[r.groups[g].first + i] = (int)g;
    }

    static Activations of_group(const Gathered& from, const Routing::Group& g) {
        Activations a;
        a.tiles = from.tile(g.tile), a.floats = from.row(g.first), a.stride = from.stride, a.count = g.count,
        a.groups = from.groups;
        return a;
    }

    void place(Program& p, const Gathered& to, int slot) const {
        const Routing::Group& g = routing.groups[routing.group_of[slot]];
        const int at = slot - g.first;
        const Place place = place_of(at, g.count, p.kernels->tiling(g.count));
        const float* row = to.row(slot);
        p.kernels->quantize(&row, 1, (int)to.width, to.tile(g.tile + place.first), place.height, at - place.first);
    }

    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer &residual = p.at(x), &out = p.at(outputs[0]);
        Needs needs{true, true};
        const Activations a =
            prepare(p, worker, {residual.row(0), residual.width, nullptr, norm.get(), step.tokens}, needs);
        // `alone` rows of prepare are each thread's own: the same bits in each.
        route(p, worker, step.tokens, a);
        const int slots = step.tokens * e.used;
        worker.parallel(slots, 1, [&](int64_t slot) {
            std::memcpy(in->row(slot), a.floats + routing.token_of[slot] * a.stride, sizeof(float) * in->width);
            place(p, *in, (int)slot);
        });
        // An expert's work is a few blocks: all experts' blocks are one list.
        const int threads = worker.runs();
        const int64_t up_blocks = most_blocks(*e.up[0], e.used, threads),
                      down_blocks = most_blocks(*e.down[0], e.used, threads), groups = (int64_t)routing.groups.size();
        worker.parallel(groups * up_blocks, 1, [&](int64_t i) {
            const Routing::Group& g = routing.groups[i / up_blocks];
            const Cut cut = expert_cut(*e.up[g.expert], g.count, e.used, threads);
            if (i % up_blocks >= cut.blocks()) return;
            gated(*p.kernels, worker, e.gate[g.expert].get(), *e.up[g.expert], cut, i % up_blocks, of_group(*in, g),
                  {0, g.count}, activation, [&](int t) { return inner->row(g.first + t); });
        });
        worker.parallel(slots, 1, [&](int64_t slot) { place(p, *inner, (int)slot); });
        float* y = down_rows.floats();
        worker.parallel(groups * down_blocks, 1, [&](int64_t i) {
            const Routing::Group& g = routing.groups[i / down_blocks];
            const Cut cut = expert_cut(*e.down[g.expert], g.count, e.used, threads);
            if (i % down_blocks >= cut.blocks()) return;
            product(*p.kernels, {*p.kernels, worker, *e.down[g.expert], cut, i % down_blocks}, of_group(*inner, g),
                    {0, g.count}, [&](int t, size_t row, const float* v, size_t apart, int rows) {
                        put_row(y + (size_t)(g.first + t) * out.width + row, v, apart, rows);
                    });
        });
        if (e.shared_up) run_shared(p, worker, a);
        worker.parallel(step.tokens, 1, [&](int64_t t) {
            float* to = out.row(t);
            float gate = 1.0f;
            if (e.shared_router) {
                Activations one = a;
                one.count = 1, one.floats = a.floats + t * a.stride;
                product(*p.kernels, {*p.kernels, worker, *e.shared_router, {*e.shared_router, 1, 1}, 0}, one, {0, 1},
                        [&](int, size_t, const float* v, size_t, int) { gate = v[0]; });
                p.kernels->sigmoid(&gate, 1);
            }
            for (size_t i = 0; i < out.width; i++) {
                float total = 0.0f;
                for (int u = 0; u < e.used; u++) {
                    const auto& s = routing.shares[t * e.used + u];
                    total += s.weight * y[(size_t)s.slot * out.width + i];
                }
                if (e.shared_up) total += gate * shared_rows.floats()[t * out.width + i];
                to[i] = residual.row(t)[i] + total;
            }
        });
    }

    Room room(const Program& p) const override {
        const Kernels& k = *p.kernels;
        const int count = p.max_tokens;
        const auto lines = [&](const Weight& w, size_t panels) { return Block::lines(k, w, panels, count); };
        Room room{prepare_room(p.at(x).width, {true, true}), {lines(*e.router, 1), 0}};
        const Weight &up = *e.up[0], &down = *e.down[0];
        for (const Weight* w : {&up, &down}) {
            const size_t panels = expert_cut(*w, count, e.used, 1).each;
            room.cover({0, {lines(*w, panels), w == &up ? lines(*e.gate[0], panels) : 0}});
        }
        if (!e.shared_up) return room;
        room.cover(product_room(p, count, p.at(x).width, {true, true}, {e.shared_up.get()}, e.shared_gate.get()));
        room.cover(product_room(p, count, p.at(x).width, {true, true}, {e.shared_down.get()}));
        return room;
    }

    void run_shared(Program& p, Worker& worker, const Activations& a) const {
        const Worker::Cuts cuts = worker.cuts();
        const Cut ups = cut_of(*e.shared_up, cuts, a.count), downs = cut_of(*e.shared_down, cuts, a.count);
        worker.parallel(ups.blocks(), 1, [&](int64_t block) {
            gated(*p.kernels, worker, e.shared_gate.get(), *e.shared_up, ups, block, a, {0, a.count}, activation,
                  [&](int t) { return shared_inner->row(t); });
        });
        const Gathered& from = *shared_inner;
        worker.parallel(a.count, 1, [&](int64_t t) {
            const Place at = place_of((int)t, a.count, p.kernels->tiling(a.count));
            const float* row = from.row(t);
            p.kernels->quantize(&row, 1, (int)from.width, from.tile(at.first), at.height, (int)t - at.first);
        });
        const Activations b = of_group(from, {0, 0, a.count, 0});
        const size_t width = e.shared_down->rows;
        worker.parallel(downs.blocks(), 1, [&](int64_t block) {
            product(*p.kernels, {*p.kernels, worker, *e.shared_down, downs, block}, b, {0, a.count},
                    [&](int t, size_t row, const float* v, size_t apart, int rows) {
                        put_row(shared_rows.floats() + t * width + row, v, apart, rows);
                    });
        });
    }
};

// An earlier layer whose operands have the same shapes; null: none.
const Mix* same_shape(const Program& p, const Mix& op) {
    const auto shape = [](const ExpertWeights& e) {
        return std::make_tuple(e.router->rows, e.used, e.up[0]->inputs, e.up[0]->rows,
                               e.shared_up ? e.shared_up->rows : 0);
    };
    for (const auto& other : p.ops)
        if (const Mix* mix = dynamic_cast<const Mix*>(other.get()); mix && shape(mix->e) == shape(op.e)) return mix;
    return nullptr;
}

}  // namespace

size_t add_experts(Program& p, int x, NormPtr norm, const ExpertWeights& e, int activation) {
    const size_t hidden = p.at(x).width, n = e.router->rows;
    check(e.gate.size() == n && e.up.size() == n && e.down.size() == n,
          "there are not as many experts as the router has rows");
    check(e.used > 0 && (size_t)e.used <= n, "more experts are used than there are");
    for (size_t i = 0; i < n; i++)
        check(e.up[i]->inputs == hidden && e.down[i]->rows == hidden && e.gate[i]->rows == e.up[i]->rows &&
                  e.down[i]->inputs == e.up[i]->rows && e.up[i]->rows == e.up[0]->rows && e.gate[i]->inputs == hidden,
              "an expert's shape does not fit");
    check(!e.shared_router || (e.shared_router->rows == 1 && e.shared_router->layout.is_float()),
          "the shared expert's router must be one float row");
    check(!norm || norm->weight.size() == hidden, "the norm is not as wide as its input");
    reserve(p, p.max_tokens, hidden);
    auto op = std::make_unique<Mix>();
    op->name = "mix_experts", op->outputs = {p.buffer(hidden, p.max_tokens)};
    op->x = x, op->activation = activation, op->max_tokens = p.max_tokens, op->norm = std::move(norm), op->e = e;
    op->scores = p.buffer(n, p.max_tokens);
    p.release(op->scores);
    if (const Mix* like = same_shape(p, *op)) {
        op->in = like->in, op->inner = like->inner, op->down_rows = like->down_rows;
        op->shared_inner = like->shared_inner, op->shared_rows = like->shared_rows;
        return p.add(std::move(op));
    }
    const size_t slots = (size_t)p.max_tokens * e.used, rows = slots + n * kTallest;
    op->in = std::make_shared<Gathered>(p.memory, slots, rows, hidden);
    op->inner = std::make_shared<Gathered>(p.memory, slots, rows, e.up[0]->rows);
    op->down_rows = p.memory.take(slots * hidden * sizeof(float));
    if (e.shared_up) {
        op->shared_inner = std::make_shared<Gathered>(p.memory, (size_t)p.max_tokens, (size_t)p.max_tokens + kTallest,
                                                      e.shared_up->rows);
        op->shared_rows = p.memory.take((size_t)p.max_tokens * hidden * sizeof(float));
    }
    return p.add(std::move(op));
}

}  // namespace cutaway
