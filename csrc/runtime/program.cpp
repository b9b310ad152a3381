// What a program does itself: buffers, the checks of a step, and running its ops.
#include "product.h"

namespace cutaway {

int Program::buffer(size_t width, int rows) {
    const size_t bytes = (width * (size_t)rows * sizeof(float) + 127) / 64 * 64;
    for (size_t i = 0; i < free_.size(); i++) {
        const int id = free_[i];
        if (at(id).width == width && at(id).memory.size() == bytes) {
            free_.erase(free_.begin() + (long)i);
            return id;
        }
    }
    buffers_.push_back(std::make_unique<Buffer>(Buffer{memory.take(bytes), width}));
    return (int)buffers_.size() - 1;
}

Room Program::room() const {
    Room room;
    for (const auto& op : ops) room.cover(op->room(*this));
    return room;
}

size_t Program::partial_bytes(size_t tokens) const {
    if (!attention_pad || !tokens) return 0;
    const size_t longest = (tokens - 1) / kSegment + 1;
    return (size_t)(2 * team->threads()) * longest * kRowTile * (2 + attention_pad) * sizeof(float);
}

void Program::reserve() {
    team->reserve(room());
    size_t tokens = context;
    if (tokens == SIZE_MAX) {  // no table of positions: a request may fill all pages
        tokens = 0;
        for (int pages : pages_of_group) tokens = std::max(tokens, (size_t)pages * page_size);
    }
    partial_.grow(partial_bytes(tokens));
}

uint64_t Program::next_name() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

void Program::look_ahead(Worker& worker) const {
    const Worker::Ahead now{name_, ops.size(), worker.cuts(), worker.place()};
    if (worker.ahead_of == now) return;
    worker.ahead.clear();
    for (const auto& op : ops) worker.ahead.push_back(op->prefetch(worker));
    worker.ahead_of = now;
}

void Program::run(Step& step, size_t begin, size_t end) {
    step.cut(page_size);
    if (attention_pad && step.tokens) {  // what split attention may need, taken before the threads start
        partial_.grow(partial_bytes((size_t)*std::max_element(step.position, step.position + step.tokens) + 1));
    }
    team->run([&](Worker& worker) {
        worker.prefetch = {};
        worker.shapes = kNoShapes;  // the calling thread may be another one than last time
        for (size_t i = std::max(begin, worker.from); i < end; i++) {
            worker.boundary(i);
            for (int n = 0; n < 4 && worker.prefetch.ask_some(); n++) {}
            worker.prefetch = {};
            if (i + 1 < end && step.tokens <= kAlone) look_ahead(worker), worker.prefetch = worker.ahead[i + 1];
            ops[i]->run(*this, worker, step);
        }
    });
}

void Program::check(const Step& s) const {
    const auto demand = [](bool fits, const char* what) {
        if (!fits) throw std::invalid_argument(what);
    };
    for (int t = 0; t < s.tokens; t++) {
        demand(s.token[t] >= 0 && (size_t)s.token[t] < vocab, "a token lies outside the vocabulary");
        demand(s.position[t] >= 0 && (size_t)s.position[t] < context, "a position lies outside the context");
        demand(s.request[t] >= 0 && (t == 0 || s.request[t] >= s.request[t - 1]),
               "requests are not in ascending order");
        demand(t == 0 || s.request[t] != s.request[t - 1] || s.position[t] == s.position[t - 1] + 1,
               "a request's positions do not follow each other");
    }
    for (int r = 0; r < s.row_count; r++) demand(s.rows[r] >= 0 && s.rows[r] < s.tokens, "a row lies outside the step");
    demand(s.tables.size() >= pages_of_group.size(), "a page table is missing");
    for (size_t g = 0; g < pages_of_group.size(); g++) {
        const auto& table = s.tables[g];
        for (int t = 0; t < s.tokens; t++) {
            demand(s.request[t] < table.requests && s.position[t] / page_size < table.width,
                   "a page table is too small");
            demand(table.pages[(size_t)s.request[t] * table.width + s.position[t] / page_size] >= 0,
                   "a token has no page");
        }
        for (int i = 0; i < table.requests * table.width; i++)
            demand(table.pages[i] < pages_of_group[g], "a page lies outside the pool");
    }
}

void Step::cut(int page_size) {
    requests.clear(), pages.clear();
    for (int t = 0; t < tokens; t++) {
        const bool other = t == 0 || request[t] != request[t - 1];
        if (other) requests.push_back({t, t});
        if (other || position[t] % page_size == 0) pages.push_back({t, t});
        requests.back().end = pages.back().end = t + 1;
    }
}

}  // namespace cutaway
