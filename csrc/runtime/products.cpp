// Embedding, norms and everything that is a product.
#include "gated.h"

namespace cutaway {
namespace {

struct Embed final : Op {
    std::shared_ptr<Table> table;
    float scale;
    void run(Program& p, Worker& worker, const Step& step) const override {
        Buffer& out = p.at(outputs[0]);
        worker.parallel(step.tokens, 1, [&](int64_t t) {
            float* x = out.row(t);
            table->row(step.token[t], x);
            if (scale != 1.0f)
                for (size_t i = 0; i < out.width; i++) x[i] *= scale;
        });
    }
};

struct Positions final : Op {
    int x;
    std::shared_ptr<std::vector<float>> table;
    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer &in = p.at(x), &out = p.at(outputs[0]);
        worker.parallel(step.tokens, 1, [&](int64_t t) {
            const float* row = table->data() + step.position[t] * out.width;
            for (size_t i = 0; i < out.width; i++) out.row(t)[i] = in.row(t)[i] + row[i];
        });
    }
};

struct Normalize final : Op {
    int x;
    NormPtr norm;
    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer &in = p.at(x), &out = p.at(outputs[0]);
        worker.parallel(step.tokens, 1, [&](int64_t t) { norm->apply(*p.kernels, in.row(t), out.row(t)); });
    }
};

// What an op of few tokens reads first: the weight from the first block of a worker's own on, which lies in the same
// place for one token and for two.
Prefetch own(const Worker& worker, const Weight& weight) {
    const Cut cut = cut_of(weight, worker.cuts(), 1);
    return prefetch_of(cut, first_of(cut.blocks(), worker.place(), worker.runs()));
}

struct Project final : Op {
    int x;
    NormPtr norm;
    std::vector<WeightPtr> weights;
    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer& in = p.at(x);
        Needs needs;
        const Worker::Cuts cuts = worker.cuts();
        int64_t per_run = 0, runs = 1;
        for (const auto& w : weights) {
            const Cut cut = cut_of(*w, cuts, step.tokens);
            needs.of(*p.kernels, *w), per_run += cut.per_run, runs = cut.runs;
        }
        const int64_t blocks = runs * per_run;
        const Activations a = prepare(p, worker, {in.row(0), in.width, nullptr, norm.get(), step.tokens}, needs);
        worker.parallel(blocks * token_items(a.count), 1, [&](int64_t item) {
            // A thread's runs of all weights come after each other.
            const int64_t run = item % blocks / per_run;
            size_t block = item % blocks % per_run, i = 0;
            for (size_t n; block >= (n = cut_of(*weights[i], cuts, a.count).per_run); i++) block -= n;
            const Buffer& out = p.at(outputs[i]);
            const Cut cut = cut_of(*weights[i], cuts, a.count);
            const Block part(*p.kernels, worker, *weights[i], cut, run * cut.per_run + block);
            product(
                *p.kernels, part, a, tokens_of(item, blocks, a.count),
                [&](int t, size_t row, const float* y, size_t apart, int rows) {
                    put_row(out.row(t) + row, y, apart, rows);
                },
                [&](int t) { ask(part, out.row(t)); });
        });
    }
    Prefetch prefetch(const Worker& worker) const override { return own(worker, *weights[0]); }
    Room room(const Program& p) const override {
        Room room;
        Needs needs;
        for (const auto& w : weights) needs.of(*p.kernels, *w);
        for (const auto& w : weights) room.cover(product_room(p, p.max_tokens, p.at(x).width, needs, {w.get()}));
        return room;
    }
};

struct Feed final : Op {
    int x, activation;
    NormPtr norm;
    WeightPtr gate, up;
    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer &in = p.at(x), &out = p.at(outputs[0]);
        const Cut cut = cut_of(*up, worker.cuts(), step.tokens);
        const Activations a = prepare(p, worker, {in.row(0), in.width, nullptr, norm.get(), step.tokens},
                                      needs_of(*p.kernels, {up.get(), gate.get()}));
        const int64_t blocks = cut.blocks();
        worker.parallel(blocks * token_items(a.count), 1, [&](int64_t item) {
            gated(*p.kernels, worker, gate.get(), *up, cut, item % blocks, a, tokens_of(item, blocks, a.count),
                  activation, [&](int t) { return out.row(t); });
        });
    }
    Prefetch prefetch(const Worker& worker) const override { return own(worker, *up); }
    Room room(const Program& p) const override {
        return product_room(p, p.max_tokens, p.at(x).width, needs_of(*p.kernels, {up.get(), gate.get()}), {up.get()},
                            gate.get());
    }
};

struct ProjectAdd final : Op {
    int x, a;
    WeightPtr weight;
    NormPtr norm;
    float scale;
    void run(Program& p, Worker& worker, const Step& step) const override {
        const Buffer &residual = p.at(x), &in = p.at(a), &out = p.at(outputs[0]);
        const Cut cut = cut_of(*weight, worker.cuts(), step.tokens);
        const Activations acts = prepare(p, worker, {in.row(0), in.width, nullptr, nullptr, step.tokens},
                                         needs_of(*p.kernels, {weight.get()}));
        const int64_t blocks = cut.blocks();
        worker.parallel(blocks * token_items(acts.count), 1, [&](int64_t item) {
            const Block block(*p.kernels, worker, *weight, cut, item % blocks);
            const auto add = [&](int t, size_t row, const float* y, size_t apart, int rows) {
                if (norm)
                    put_row(out.row(t) + row, y, apart, rows);
                else
                    p.kernels->add_scaled(out.row(t) + row, residual.row(t) + row, scale, y, apart, rows);
            };
            product(*p.kernels, block, acts, tokens_of(item, blocks, acts.count), add, [&](int t) {
                ask(block, out.row(t));
                if (!norm) ask(block, residual.row(t));
            });
        });
        if (!norm) return;
        worker.parallel(step.tokens, 1, [&](int64_t t) {
            float* to = out.row(t);
            norm->apply(*p.kernels, to, to);
            for (size_t i = 0; i < out.width; i++) to[i] = residual.row(t)[i] + scale * to[i];
        });
    }
    Prefetch prefetch(const Worker& worker) const override { return own(worker, *weight); }
    Room room(const Program& p) const override {
        return product_room(p, p.max_tokens, p.at(a).width, needs_of(*p.kernels, {weight.get()}), {weight.get()});
    }
};

struct Logits final : Op {
    int x;
    NormPtr norm;
    WeightPtr head;
    float scale, softcap;
    void run(Program& p, Worker& worker, const Step& step) const override {
        if (!step.row_count) return;
        const Buffer &in = p.at(x), &out = p.at(outputs[0]);
        const Cut cut = cut_of(*head, worker.cuts(), step.row_count);
        const Activations a = prepare(p, worker, {in.row(0), in.width, step.rows, norm.get(), step.row_count},
                                      needs_of(*p.kernels, {head.get()}));
        worker.parallel(cut.blocks(), 1, [&](int64_t block) {
            product(*p.kernels, {*p.kernels, worker, *head, cut, block}, a, {0, a.count},
                    [&](int r, size_t row, float* y, size_t apart, int rows) {
                        for (int n = 0; n < rows; n += kPanelRows, y += apart) {
                            const int these = std::min(rows - n, kPanelRows);
                            if (scale != 1.0f)
                                for (int i = 0; i < these; i++) y[i] *= scale;
                            if (softcap > 0.0f) p.kernels->soft_cap(y, these, softcap);
                            put_row(out.row(r) + row + n, y, 0, these);
                        }
                    });
        });
    }
    Prefetch prefetch(const Worker& worker) const override { return own(worker, *head); }
    Room room(const Program& p) const override {
        return product_room(p, p.max_rows, p.at(x).width, needs_of(*p.kernels, {head.get()}), {head.get()});
    }
};

template <class T> std::unique_ptr<T> make(const char* name, std::vector<int> outputs) {
    auto op = std::make_unique<T>();
    op->name = name, op->outputs = std::move(outputs);
    return op;
}

}  // namespace

size_t add_embed(Program& p, std::shared_ptr<Table> table, float scale) {
    auto op = make<Embed>("embed", {p.buffer(table->inputs, p.max_tokens)});
    p.vocab = table->rows;
    op->table = std::move(table), op->scale = scale;
    return p.add(std::move(op));
}

size_t add_positions(Program& p, int x, std::shared_ptr<std::vector<float>> table, size_t width) {
    check(p.at(x).width == width, "the position table is not as wide as the model");
    p.context = std::min(p.context, table->size() / width);
    auto op = make<Positions>("add_positions", {p.buffer(width, p.max_tokens)});
    op->x = x, op->table = std::move(table);
    return p.add(std::move(op));
}

size_t add_normalize(Program& p, int x, NormPtr norm) {
    check(p.at(x).width == norm->weight.size(), "the norm is not as wide as its input");
    auto op = make<Normalize>("normalize", {p.buffer(p.at(x).width, p.max_tokens)});
    op->x = x, op->norm = std::move(norm);
    return p.add(std::move(op));
}

size_t add_project(Program& p, int x, NormPtr norm, std::vector<WeightPtr> weights) {
    std::vector<int> outputs;
    Needs needs;
    for (const auto& w : weights) {
        needs.of(*p.kernels, *w);
        check(w->inputs == p.at(x).width, "a weight's inputs are not as many as its activations");
        outputs.push_back(p.buffer(w->rows, p.max_tokens));
    }
    check(!norm || norm->weight.size() == p.at(x).width, "the norm is not as wide as its input");
    reserve(p, p.max_tokens, p.at(x).width, needs);
    auto op = make<Project>("project", std::move(outputs));
    op->x = x, op->norm = std::move(norm), op->weights = std::move(weights);
    return p.add(std::move(op));
}

size_t add_project_add(Program& p, int x, int a, WeightPtr weight, NormPtr norm, float scale) {
    check(weight->inputs == p.at(a).width && weight->rows == p.at(x).width,
          "a weight's shape does not fit its activations");
    reserve(p, p.max_tokens, p.at(a).width, needs_of(*p.kernels, {weight.get()}));
    auto op = make<ProjectAdd>("project_add", {p.buffer(weight->rows, p.max_tokens)});
    check(!norm || norm->weight.size() == p.at(x).width, "the norm is not as wide as its input");
    op->x = x, op->a = a, op->weight = std::move(weight), op->norm = std::move(norm), op->scale = scale;
    return p.add(std::move(op));
}

size_t add_feed(Program& p, int x, NormPtr norm, WeightPtr gate, WeightPtr up, int activation) {
    check(up->inputs == p.at(x).width && (!gate || (gate->inputs == up->inputs && gate->rows == up->rows)),
          "gate and up do not fit");
    reserve(p, p.max_tokens, p.at(x).width, needs_of(*p.kernels, {gate.get(), up.get()}));
    check(!norm || norm->weight.size() == p.at(x).width, "the norm is not as wide as its input");
    auto op = make<Feed>("feed", {p.buffer(up->rows, p.max_tokens)});
    op->x = x, op->norm = std::move(norm), op->gate = std::move(gate), op->up = std::move(up),
    op->activation = activation;
    return p.add(std::move(op));
}

size_t add_logits(Program& p, int x, NormPtr norm, WeightPtr head, float scale, float softcap) {
    check(head->inputs == p.at(x).width, "the head's inputs are not as many as its activations");
    reserve(p, p.max_rows, p.at(x).width, needs_of(*p.kernels, {head.get()}));
    check(norm->weight.size() == p.at(x).width, "the norm is not as wide as its input");
    auto op = make<Logits>("logits", {p.buffer(head->rows, p.max_rows)});
    op->x = x, op->norm = std::move(norm), op->head = std::move(head), op->scale = scale, op->softcap = softcap;
    return p.add(std::move(op));
}

}  // namespace cutaway
