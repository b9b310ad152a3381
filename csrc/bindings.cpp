// The one file that knows both Python and the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

NB_MODULE(_native, m) {
    m.doc() = "cutaway's kernels";
}
