// A recorded forward pass: ops bound to weights and buffers, run by one call. What an op does to numbers is in
// kernels/; here is only who does which part of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weight.h"

namespace cutaway {

// What a step brings. Pointers are valid during the call. See ops/protocol.py, Step.
struct Step {
    int tokens = 0, row_count = 0;
    const int32_t *token = nullptr, *position = nullptr, *request = nullptr, *rows = nullptr;
    struct PageTable {
        const int32_t* pages;
        int requests, width;
    };
    std::vector<PageTable> tables;

    // Derived once per step: tokens of one request; tokens of one request in one page.
    struct Run {
        int begin, end;
    };
    std::vector<Run> requests, pages;
    void cut(int page_size);
};

struct Norm {
    bool layer = false;
    float eps = 0.0f;
    std::vector<float> weight, bias;
    void apply(const Kernels& k, const float* x, float* out) const {
        k.normalize(x, (int)weight.size(), layer, weight.data(), bias.empty() ? nullptr : bias.data(), eps, out);
    }
};

// For the makers of ops: what a caller put together wrongly.
inline void check(bool fits, const char* what) {
    if (!fits) throw std::invalid_argument(what);
}

struct Rope {
    std::shared_ptr<std::vector<float>> cosine, sine;  // [context, half]
    int half = 0;
    bool interleaved = false;
};

struct Attention {
    int heads, kv_heads, head_dim, window;  // window 0: none
    float scale, softcap;                   // softcap 0: none
    std::vector<float> slopes;              // empty: none
};

// One value of a step: float32 [tokens or rows][width], row-major.
struct Buffer {
    Arena::Piece memory;
    size_t width;
    float* row(size_t i) const { return memory.floats() + i * width; }
};

using WeightPtr = std::shared_ptr<Weight>;
using NormPtr = std::shared_ptr<Norm>;

class Program;

struct Op {
    const char* name;
    std::vector<int> outputs;
    virtual ~Op() = default;
    virtual void run(Program& program, Worker& worker, const Step& step) const = 0;
    // What a worker will read first of it, where a step has few tokens.
    virtual Prefetch prefetch(const Worker&) const { return {}; }
    // What a thread may need for it, in any step that fits the program.
    virtual Room room(const Program&) const { return {}; }
};

struct ExpertWeights {
    WeightPtr router;
    std::vector<WeightPtr> gate, up, down;
    int used;
    bool renormalize;
    float scale;
    WeightPtr shared_gate, shared_up, shared_down, shared_router;
};

class Program {
  public:
    Program(std::shared_ptr<Team> team, const Kernels* kernels, int max_tokens, int max_rows)
        : team(std::move(team)), kernels(kernels), max_tokens(max_tokens), max_rows(max_rows) {}

    int buffer(size_t width, int rows);  // a free one of that size, or a new one
    void release(int id) { free_.push_back(id); }
    Buffer& at(int id) const { return *buffers_[(size_t)id]; }
    size_t add(std::unique_ptr<Op> op) {
        ops.push_back(std::move(op));
        return ops.size() - 1;
    }
    void check(const Step& step) const;  // throws what a caller got wrong: the kernels trust every index
    void run(Step& step, size_t begin, size_t end);
    size_t buffer_bytes() const { return memory.taken(); }  // of values, and of experts' operands
    size_t shared_bytes() const { return tiles_.size() + floats_.size() + split_.size(); }
    size_t scratch_bytes() const { return buffer_bytes() + shared_bytes() + partial_.size(); }
    // Takes all that its steps may need, of this program and of every thread, before the first of them.
    void reserve();
    Room room() const;                          // of a thread
    size_t partial_bytes(size_t tokens) const;  // of split attention, for requests of so many tokens

    // Activations of the op at hand, shared by all threads: tiles of int8, float rows, and tiles of float parts.
    uint8_t* tiles(size_t bytes) { return tiles_.grow(bytes); }
    float* floats(size_t count) { return (float*)floats_.grow(count * sizeof(float)); }
    uint8_t* split(size_t bytes) { return split_.grow(bytes); }
    float* partial(size_t count) { return (float*)partial_.grow(count * sizeof(float)); }

    std::shared_ptr<Team> team;
    const Kernels* kernels;
    Arena memory{kBuffers};
    const int max_tokens, max_rows;
    bool stepwise = false;  // every value is looked at
    int page_size = 16;
    size_t vocab = 0, context = SIZE_MAX;  // rows of the embedding table, of the shortest position table
    std::vector<int> pages_of_group;
    size_t attention_pad = 0;  // floats of one partial output; set by the attend ops
    std::vector<std::unique_ptr<Op>> ops;

  private:
    void look_ahead(Worker& worker) const;

    static uint64_t next_name();
    const uint64_t name_ = next_name();  // no other program of the process has it
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<int> free_;
    Memory tiles_{kActivations}, floats_{kActivations}, split_{kActivations}, partial_{kActivations};
};

// The makers of ops (products.cpp, attend.cpp, experts.cpp). Each returns the op's place; its outputs stand in the op.
size_t add_embed(Program& p, std::shared_ptr<Table> table, float scale);
size_t add_positions(Program& p, int x, std::shared_ptr<std::vector<float>> table, size_t width);
size_t add_normalize(Program& p, int x, NormPtr norm);
size_t add_project(Program& p, int x, NormPtr norm, std::vector<WeightPtr> weights);
size_t add_project_add(Program& p, int x, int a, WeightPtr weight, NormPtr norm, float scale);
size_t add_feed(Program& p, int x, NormPtr norm, WeightPtr gate, WeightPtr up, int activation);
size_t add_logits(Program& p, int x, NormPtr norm, WeightPtr head, float scale, float softcap);
size_t add_rotate_store(Program& p, int q, int k, int v, std::shared_ptr<Pages> pages, const Attention& a,
                        const Rope& rope, NormPtr q_norm, NormPtr k_norm);
size_t add_attend(Program& p, int q, std::shared_ptr<Pages> pages, const Attention& a);
size_t add_experts(Program& p, int x, NormPtr norm, const ExpertWeights& e, int activation);

}  // namespace cutaway
