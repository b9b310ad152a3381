// The one file that knows both Python and the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <numeric>

#include "kernels/limits.h"
#include "kernels/philox.h"
#include "kernels/select.h"
#include "runtime/program.h"
#include "runtime/team.h"

namespace nb = nanobind;

// Candidate selection for sampling/: see kernels/select.h. Rows float32 [vocab]; results below 0 are Faults.
namespace select_bindings {
namespace cs = cutaway::select;
using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Odds = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
thread_local cs::Scratch scratch;

int64_t row_length(size_t entries) {
    if (entries < 1 || entries > (size_t)cs::LONGEST_ROW)
        throw nb::value_error("a row of logits has 1 to 524287 entries");
    return (int64_t)entries;
}
// The interpreter's lock is kept: one row takes 0.01 to 0.3 ms, and who lets it go where another thread wants it waits
// 5 ms to have it back.
template <class F> auto over(const Row& row, F work) { return work(row.data(), row_length(row.shape(0))); }
int64_t best(const Row& row) {
    return over(row, [](const float* x, int64_t n) { return cs::best_token(x, n, scratch); });
}
int64_t draw(const Row& row, double inverse, int64_t top_k, double top_p, double min_p, uint64_t uniform53) {
    const cs::Truncation t{inverse, top_k, top_p, min_p};
    return over(row, [&](const float* x, int64_t n) { return cs::draw(x, n, t, uniform53, scratch); });
}
// (row, 1 / temperature or 0 for the best token, top_k, top_p, min_p, uniform53)
using Draw = std::tuple<size_t, double, int64_t, double, double, uint64_t>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// A token or a Fault for each; on the team's threads, if there is a team.
std::vector<int64_t> draw_rows(cutaway::Team* team, const Rows& rows, const std::vector<Draw>& draws) {
    const auto n = row_length(rows.shape(1));
    for (const Draw& d : draws)
        if (std::get<0>(d) >= rows.shape(0)) throw nb::index_error("no such row");
    std::vector<int64_t> out(draws.size());
    auto one = [&](int64_t i) {
        const auto& [row, inverse, top_k, top_p, min_p, uniform53] = draws[(size_t)i];
        const float* x = rows.data() + row * rows.shape(1);
        out[(size_t)i] = inverse == 0.0 ? cs::best_token(x, n, scratch)
                                        : cs::draw(x, n, {inverse, top_k, top_p, min_p}, uniform53, scratch);
    };
    nb::gil_scoped_release release;
    const auto count = (int64_t)draws.size();
    if (team)
        team->run([&](cutaway::Worker& worker) { worker.parallel(count, 1, one); });
    else
        for (int64_t i = 0; i < count; ++i) one(i);
    return out;
}
int64_t order(const Row& row, const Ids& out) {
    auto k = static_cast<int64_t>(out.shape(0));
    return over(row, [&](const float* x, int64_t n) { return cs::order(x, n, k, out.data(), scratch); });
}
auto measure(const Row& row, double top, double inverse) {
    cs::Mass m = over(row, [&](const float* x, int64_t n) { return cs::measure(x, n, top, inverse); });
    return std::make_tuple(m.total, m.spread, m.finite);
}
void odds(const Row& logits, double top, double inverse, const Odds& out) {
    if (out.shape(0) != logits.shape(0)) throw nb::value_error("out must be as long as logits");
    over(logits, [&](const float* x, int64_t n) { cs::odds(x, n, top, inverse, out.data()); });
}
int64_t before(const Row& row, int64_t token) {
    if (token < 0 || token >= static_cast<int64_t>(row.shape(0))) throw nb::index_error("no such token");
    return over(row, [&](const float* x, int64_t n) { return cs::count_before(x, n, token); });
}
void bind(nb::module_& m) {
    m.def("best_token", &best, nb::arg("row").noconvert());
    m.def("draw_token", &draw, nb::arg("row").noconvert(), nb::arg("inverse"), nb::arg("top_k"), nb::arg("top_p"),
          nb::arg("min_p"), nb::arg("uniform53"));
    m.def("draw_rows", &draw_rows, nb::arg("team").none(), nb::arg("rows").noconvert(), nb::arg("draws"));
    m.def("order_tokens", &order, nb::arg("row").noconvert(), nb::arg("out").noconvert());
    m.def("measure_row", &measure, nb::arg("row").noconvert(), nb::arg("top"), nb::arg("inverse"));
    m.def("odds_of", &odds, nb::arg("logits").noconvert(), nb::arg("top"), nb::arg("inverse"),
          nb::arg("out").noconvert());
    m.def("count_before", &before, nb::arg("row").noconvert(), nb::arg("token"));
    m.def("philox", &cs::philox, nb::arg("counter"), nb::arg("key"));
    m.def("uniform53", &cs::uniform53, nb::arg("seed"), nb::arg("choice"), nb::arg("position"), nb::arg("use"));
    m.def("exp_nonpositive", &cs::exp_nonpositive, nb::arg("y"));
    m.def("log_positive", &cs::log_positive, nb::arg("x"));
}
}  // namespace select_bindings

// Weights, pages and recorded programs for ops/native/recording.py: see runtime/. Arrays are C-contiguous, never
// converted.
namespace program_bindings {
using namespace cutaway;
template <class T> using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Grid = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = std::vector<float>;

Floats floats(const std::optional<Array<float>>& a) {
    return a ? Floats(a->data(), a->data() + a->shape(0)) : Floats();
}
const float* bias_of(const std::optional<Array<float>>& bias, size_t rows) {
    if (bias && bias->shape(0) != rows) throw nb::value_error("the bias is not as long as the matrix has rows");
    return bias ? bias->data() : nullptr;
}
const Kernels* kernels_named(const std::string& name) {
    const Kernels* k = choose_kernels(name.c_str());
    if (!k) throw nb::value_error(("this machine does not run the instruction set '" + name + "'").c_str());
    return k;
}
WeightPtr pack(Team& team, int type, Array<uint8_t> raw, size_t rows, size_t inputs, std::optional<Array<float>> bias) {
    const float* b = bias_of(bias, rows);
    nb::gil_scoped_release release;
    return Weight::pack(team, type, raw.data(), raw.shape(0), rows, inputs, b);
}
WeightPtr from_codes(Team& team, int type, Grid<uint8_t> codes, Grid<float> scales, std::optional<Array<uint8_t>> table,
                     std::optional<Array<float>> bias) {
    const size_t rows = codes.shape(0), inputs = codes.shape(1), columns = scales.shape(1);
    if (scales.shape(0) != rows || !columns || inputs % columns || (inputs / columns != 16 && inputs / columns != 32) ||
        (table && table->shape(0) != 16))
        throw nb::value_error("codes take one scale per 16 or 32 inputs, and a table of 16");
    return Weight::from_codes(team, type, codes.data(), scales.data(), (int)(inputs / columns),
                              table ? table->data() : nullptr, rows, inputs, bias_of(bias, rows));
}
std::shared_ptr<Table> make_table(int type, Array<uint8_t> raw, size_t rows, size_t inputs) {
    const TypeInfo* t = find_type(type);
    if (!t || inputs % t->elements || raw.shape(0) != rows * (inputs / t->elements) * t->bytes)
        throw nb::value_error("not a table of that type and shape");
    return std::make_shared<Table>(Table{t, raw.data(), rows, inputs, nullptr});
}
// A weight without its data, for a recording that is never run. sub: 0 for a type with a layout of its own, else 16 or
// 32 inputs a scale, as codes through a table.
WeightPtr outline(Team& team, int type, int sub, size_t rows, size_t inputs, bool biased) {
    const TypeInfo* t = find_type(type);
    if (!sub && !t) throw nb::value_error("no kernel layout for that tensor type");
    auto w = std::make_shared<Weight>();
    w->outline(team, sub ? Layout{kTable, sub == 16 ? kFloat16 : kFloat} : t->layout, type, rows, inputs, biased);
    return w;
}
// Bytes: buffers of values, what all threads share, and of each thread; for requests of so many tokens.
auto scratch_plan(const Program& p, size_t tokens) {
    const size_t shared = p.shared_bytes() + Memory::whole(p.partial_bytes(tokens));
    return std::make_tuple(p.buffer_bytes(), shared, p.room().bytes());
}
auto held() {
    std::array<size_t, kOwners> out;
    for (int i = 0; i < kOwners; i++) out[(size_t)i] = held_bytes[i];
    return out;
}
// Every index is checked here, so that the kernels need not.
void run(Program& p, Array<int32_t> tokens, Array<int32_t> positions, Array<int32_t> request_of,
         std::vector<Grid<int32_t>> tables, Array<int32_t> rows, size_t begin, size_t end) {
    Step s;
    s.tokens = (int)tokens.shape(0), s.row_count = (int)rows.shape(0);
    s.token = tokens.data(), s.position = positions.data(), s.request = request_of.data(), s.rows = rows.data();
    if (s.tokens < 1 || s.tokens > p.max_tokens || s.row_count > p.max_rows || (int)positions.shape(0) != s.tokens ||
        (int)request_of.shape(0) != s.tokens || end > p.ops.size())
        throw nb::value_error("a step does not fit the program");
    for (const auto& t : tables) s.tables.push_back({t.data(), (int)t.shape(0), (int)t.shape(1)});
    p.check(s);
    nb::gil_scoped_release release;
    p.run(s, begin, end);
}
auto view(Program& p, int buffer, size_t rows) {
    Buffer& b = p.at(buffer);
    if ((rows * b.width) * sizeof(float) > b.memory.size()) throw nb::index_error("the buffer has not so many rows");
    return nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>(b.memory.floats(), {rows, b.width}, nb::find(p));
}

void bind(nb::module_& m) {
    m.def(
        "instruction_set", [](const std::string& name) { return std::string(kernels_named(name)->name); },
        nb::arg("name") = "");
    nb::class_<Team>(m, "Team")
        .def(nb::init<int, bool>(), nb::arg("threads"), nb::arg("adapts") = true)
        .def_prop_ro("threads", &Team::threads);
    nb::class_<Weight>(m, "Weight")
        .def_ro("rows", &Weight::rows)
        .def_ro("inputs", &Weight::inputs)
        .def_ro("type_number", &Weight::type)
        .def_prop_ro("nbytes", &Weight::nbytes)
        .def_prop_ro("held", &Weight::held)
        .def_prop_ro("bias_bytes", [](const Weight& w) { return w.bias.size() * sizeof(float); });
    m.def("outline", &outline, nb::arg("team"), nb::arg("type"), nb::arg("sub"), nb::arg("rows"), nb::arg("inputs"),
          nb::arg("biased"));
    m.def("held_bytes", &held);
    m.def("pack", &pack, nb::arg("team"), nb::arg("type"), nb::arg("raw").noconvert(), nb::arg("rows"),
          nb::arg("inputs"), nb::arg("bias") = nb::none());
    m.def("pack_codes", &from_codes, nb::arg("team"), nb::arg("type"), nb::arg("codes").noconvert(),
          nb::arg("scales").noconvert(), nb::arg("table") = nb::none(), nb::arg("bias") = nb::none());
    nb::class_<Table>(m, "Table");
    m.def("table", &make_table, nb::keep_alive<0, 2>(), nb::arg("type"), nb::arg("raw").noconvert(), nb::arg("rows"),
          nb::arg("inputs"));
    m.def(
        "table_of", [](WeightPtr w) { return std::make_shared<Table>(Table{nullptr, nullptr, w->rows, w->inputs, w}); },
        nb::arg("weight"));
    nb::class_<PagePool>(m, "PagePool")
        .def(nb::init<int, int, int, int, int, int, int, int>(), nb::arg("group"), nb::arg("pages"), nb::arg("layers"),
             nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("page_size"), nb::arg("key_type"),
             nb::arg("value_type"));
    nb::class_<Pages>(m, "Pages").def(nb::init<std::shared_ptr<PagePool>, int>(), nb::arg("pool"), nb::arg("layer"));
    nb::class_<Norm>(m, "Norm").def(
        "__init__",
        [](Norm* n, bool layer, float eps, Array<float> weight, std::optional<Array<float>> bias) {
            new (n) Norm{layer, eps, floats(weight), floats(bias)};
        },
        nb::arg("layer"), nb::arg("eps"), nb::arg("weight").noconvert(), nb::arg("bias") = nb::none());
    nb::class_<Rope>(m, "Rope").def(
        "__init__",
        [](Rope* r, std::optional<Grid<float>> c, std::optional<Grid<float>> s, bool interleaved) {
            new (r) Rope{};
            if (!c || !s) return;
            r->cosine = std::make_shared<Floats>(c->data(), c->data() + c->size()),
            r->sine = std::make_shared<Floats>(s->data(), s->data() + s->size());
            r->half = (int)c->shape(1), r->interleaved = interleaved;
        },
        nb::arg("cosine") = nb::none(), nb::arg("sine") = nb::none(), nb::arg("interleaved") = false);
    nb::class_<Attention>(m, "Attention")
        .def(
            "__init__",
            [](Attention* a, int heads, int kv_heads, int head_dim, int window, float scale, float softcap,
               std::optional<Array<float>> slopes) {
                new (a) Attention{heads, kv_heads, head_dim, window, scale, softcap, floats(slopes)};
            },
            nb::arg("heads"), nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("window"), nb::arg("scale"),
            nb::arg("softcap"), nb::arg("slopes") = nb::none());
    nb::class_<ExpertWeights>(m, "ExpertWeights")
        .def(nb::init<>())
        .def_rw("router", &ExpertWeights::router)
        .def_rw("gate", &ExpertWeights::gate)
        .def_rw("up", &ExpertWeights::up)
        .def_rw("down", &ExpertWeights::down)
        .def_rw("used", &ExpertWeights::used)
        .def_rw("renormalize", &ExpertWeights::renormalize)
        .def_rw("scale", &ExpertWeights::scale)
        .def_rw("shared_gate", &ExpertWeights::shared_gate)
        .def_rw("shared_up", &ExpertWeights::shared_up)
        .def_rw("shared_down", &ExpertWeights::shared_down)
        .def_rw("shared_router", &ExpertWeights::shared_router);
    nb::class_<Program>(m, "Program")
        .def(
            "__init__",
            [](Program* p, std::shared_ptr<Team> team, const std::string& isa, int max_tokens, int max_rows) {
                new (p) Program(std::move(team), kernels_named(isa), max_tokens, max_rows);
            },
            nb::arg("team"), nb::arg("instruction_set"), nb::arg("max_tokens"), nb::arg("max_rows"))
        .def("__len__", [](Program& p) { return p.ops.size(); })
        .def("name", [](Program& p, size_t i) { return std::string(p.ops.at(i)->name); })
        .def("outputs", [](Program& p, size_t i) { return p.ops.at(i)->outputs; })
        .def("width", [](Program& p, int buffer) { return p.at(buffer).width; })
        .def_rw("stepwise", &Program::stepwise)
        .def("release", &Program::release)
        .def_prop_ro("scratch_bytes", &Program::scratch_bytes)
        .def("reserve", &Program::reserve)
        .def("scratch_plan", &scratch_plan, nb::arg("tokens"))
        .def("view", &view, nb::arg("buffer"), nb::arg("rows"))
        .def("embed", &add_embed)
        .def("add_positions",
             [](Program& p, int x, Grid<float> t) {
                 return add_positions(p, x, std::make_shared<Floats>(t.data(), t.data() + t.size()), t.shape(1));
             })
        .def("normalize", &add_normalize, nb::arg("x"), nb::arg("norm"))
        .def("project", &add_project, nb::arg("x"), nb::arg("norm").none(), nb::arg("weights"))
        .def("project_add", &add_project_add, nb::arg("x"), nb::arg("a"), nb::arg("weight"), nb::arg("norm").none(),
             nb::arg("scale"))
        .def("feed", &add_feed, nb::arg("x"), nb::arg("norm").none(), nb::arg("gate").none(), nb::arg("up"),
             nb::arg("activation"))
        .def("rotate_store", &add_rotate_store, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("pages"),
             nb::arg("attention"), nb::arg("rope"), nb::arg("q_norm").none(), nb::arg("k_norm").none())
        .def("attend", &add_attend, nb::arg("q"), nb::arg("pages"), nb::arg("attention"))
        .def("mix_experts", &add_experts, nb::arg("x"), nb::arg("norm").none(), nb::arg("experts"),
             nb::arg("activation"))
        .def("logits", &add_logits, nb::arg("x"), nb::arg("norm"), nb::arg("head"), nb::arg("scale"),
             nb::arg("softcap"))
        .def("run", &run, nb::arg("tokens").noconvert(), nb::arg("positions").noconvert(),
             nb::arg("request_of").noconvert(), nb::arg("tables"), nb::arg("rows").noconvert(), nb::arg("begin"),
             nb::arg("end"));
}
}  // namespace program_bindings

// What the machine can do at most, with all threads of a team: see kernels/limits.h.
namespace limit_bindings {
using namespace cutaway;
using program_bindings::kernels_named;  // choosing a set also asks the system for what it needs
template <class F> double seconds(Team& team, F&& job) {
    nb::gil_scoped_release release;
    const auto begin = std::chrono::steady_clock::now();
    team.run(job);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
// Bytes a second, from one pass over the buffer.
double read(Team& team, const std::string& set,
            nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> buffer) {
    const limits::Limits l = limits::limits_of(kernels_named(set)->name);
    const uint8_t* p = buffer.data();
    const size_t bytes = buffer.shape(0), blocks = (bytes + limits::kBlock - 1) / limits::kBlock;
    return (double)bytes / seconds(team, [&](Worker& worker) {
               worker.parallel((int64_t)blocks, 1, [&](int64_t b) {
                   l.read(p + b * limits::kBlock, std::min(limits::kBlock, bytes - b * limits::kBlock));
               });
           });
}
// Operations a second; 0 where the instruction set has no such arithmetic.
double multiply(Team& team, const std::string& set, const std::string& kind, int64_t rounds) {
    const limits::Limits l = limits::limits_of(kernels_named(set)->name);
    const auto f = kind == "int8" ? l.int8 : kind == "bf16" ? l.bf16 : l.f32;
    if (!f) return 0.0;
    std::vector<double> done((size_t)team.threads());
    const double time = seconds(team, [&](Worker& worker) {
        worker.parallel(team.threads(), 1, [&](int64_t part) { done[(size_t)part] = f(rounds); });
    });
    return std::accumulate(done.begin(), done.end(), 0.0) / time;
}
void bind(nb::module_& m) {
    m.def("read_limit", &read, nb::arg("team"), nb::arg("instruction_set"), nb::arg("buffer").noconvert());
    m.def("multiply_limit", &multiply, nb::arg("team"), nb::arg("instruction_set"), nb::arg("kind"), nb::arg("rounds"));
}
}  // namespace limit_bindings

NB_MODULE(_native, m) {
    m.doc() = "cutaway's kernels";
    program_bindings::bind(m);
    select_bindings::bind(m);
    limit_bindings::bind(m);
}
