// The one file that knows both Python and the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "kernels/select.h"

namespace nb = nanobind;

// Candidate selection for sampling/: see kernels/select.h. Rows float32 [vocab]; results below 0 are Faults.
namespace select_bindings {
namespace cs = cutaway::select;
using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
thread_local cs::Scratch scratch;

int64_t length(const Row& row) {
    auto n = static_cast<int64_t>(row.shape(0));
    if (n < 1 || n > cs::LONGEST_ROW) throw nb::value_error("a row of logits has 1 to 524287 entries");
    return n;
}

int64_t draw(const Row& row, double inverse, int64_t top_k, double top_p, double min_p, uint64_t uniform53) {
    int64_t n = length(row);
    nb::gil_scoped_release release;
    return cs::draw(row.data(), n, {inverse, top_k, top_p, min_p}, uniform53, scratch);
}

int64_t order(const Row& row, const Ids& out) {
    int64_t n = length(row);
    nb::gil_scoped_release release;
    if (int64_t best = cs::best_token(row.data(), n, scratch); best < 0) return best;
    cs::select_top(row.data(), n, static_cast<int64_t>(out.shape(0)), scratch);
    for (size_t i = 0; i < scratch.entries.size(); ++i) out.data()[i] = static_cast<int32_t>(cs::id_of(scratch.entries[i]));
    return static_cast<int64_t>(scratch.entries.size());
}

void bind(nb::module_& m) {
    m.def("best_token", [](const Row& row) {
        int64_t n = length(row);
        nb::gil_scoped_release release;
        return cs::best_token(row.data(), n, scratch);
    }, nb::arg("row").noconvert());
    m.def("draw_token", &draw, nb::arg("row").noconvert(), nb::arg("inverse"), nb::arg("top_k"), nb::arg("top_p"),
          nb::arg("min_p"), nb::arg("uniform53"));
    m.def("order_tokens", &order, nb::arg("row").noconvert(), nb::arg("out").noconvert());
    m.def("measure_row", [](const Row& row, double top, double inverse) {
        int64_t n = length(row);
        nb::gil_scoped_release release;
        cs::Mass mass = cs::measure(row.data(), n, top, inverse);
        return std::make_tuple(mass.total, mass.spread, mass.finite);
    }, nb::arg("row").noconvert(), nb::arg("top"), nb::arg("inverse"));
    m.def("total_weight", [](const Row& row, double top, double inverse) {
        int64_t n = length(row);
        nb::gil_scoped_release release;
        return cs::sum_weights(row.data(), n, top, inverse);
    }, nb::arg("row").noconvert(), nb::arg("top"), nb::arg("inverse"));
    m.def("weigh_logits", [](const Row& logits, double top, double inverse, const Weights& out) {
        if (out.shape(0) != logits.shape(0)) throw nb::value_error("out must be as long as logits");
        nb::gil_scoped_release release;
        cs::weights(logits.data(), static_cast<int64_t>(logits.shape(0)), top, inverse, out.data());
    }, nb::arg("logits").noconvert(), nb::arg("top"), nb::arg("inverse"), nb::arg("out").noconvert());
    m.def("count_before", [](const Row& row, int64_t token) {
        int64_t n = length(row);
        if (token < 0 || token >= n) throw nb::index_error("no such token");
        nb::gil_scoped_release release;
        return cs::count_before(row.data(), n, token);
    }, nb::arg("row").noconvert(), nb::arg("token"));
    m.def("exp_nonpositive", [](double y) { return cs::exp_nonpositive(y); });
    m.def("log_positive", [](double x) { return cs::log_positive(x); });
}
}  // namespace select_bindings

NB_MODULE(_native, m) {
    m.doc() = "cutaway's kernels";
    select_bindings::bind(m);
}
