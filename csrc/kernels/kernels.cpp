// Compiled once per instruction set (see CMakeLists.txt): -DCUTAWAY_ISA=plain|avx2|avxvnni|avx512 and the flags for it.
#include "kernels.h"

#include "attention.h"
#include "elementwise.h"
#include "tile.h"

namespace cutaway {
namespace CUTAWAY_ISA {

template <int C, int S> static Tile tile_of_height(int height) {
    switch (height) {
        case 1: return tile<C, S, 1>;
        case 2: return tile<C, S, 2>;
        case 4: return tile<C, S, 4>;
        default: return tile<C, S, 8>;
    }
}

static Tile find_tile(int codes, int scales, int height) {
    switch (codes * 16 + scales) {
        case kNibble * 16 + kHalf: return tile_of_height<kNibble, kHalf>(height);
        case kNibble * 16 + kHalfMin: return tile_of_height<kNibble, kHalfMin>(height);
        case kNibble * 16 + kSuperMin: return tile_of_height<kNibble, kSuperMin>(height);
        case kNibble * 16 + kSuper16: return tile_of_height<kNibble, kSuper16>(height);
        case kNibble * 16 + kSuperMin16: return tile_of_height<kNibble, kSuperMin16>(height);
        case kFive * 16 + kHalf: return tile_of_height<kFive, kHalf>(height);
        case kFive * 16 + kHalfMin: return tile_of_height<kFive, kHalfMin>(height);
        case kFive * 16 + kSuperMin: return tile_of_height<kFive, kSuperMin>(height);
        case kSix * 16 + kSuper16: return tile_of_height<kSix, kSuper16>(height);
        case kByte * 16 + kHalf: return tile_of_height<kByte, kHalf>(height);
        case kByte * 16 + kFloat: return tile_of_height<kByte, kFloat>(height);
        case kByte * 16 + kFloat16: return tile_of_height<kByte, kFloat16>(height);
        case kTable * 16 + kFloat: return tile_of_height<kTable, kFloat>(height);
        case kTable * 16 + kFloat16: return tile_of_height<kTable, kFloat16>(height);
        default: return nullptr;
    }
}

template <int C> static TileFloat float_tile_of_height(int height) {
    switch (height) {
        case 1: return tile_float<C, 1>;
        case 2: return tile_float<C, 2>;
        case 4: return tile_float<C, 4>;
        default: return tile_float<C, 8>;
    }
}

static TileFloat find_tile_float(int codes, int height) {
    switch (codes) {
        case kF32: return float_tile_of_height<kF32>(height);
        case kF16: return float_tile_of_height<kF16>(height);
        default: return float_tile_of_height<kBF16>(height);
    }
}

static void quantize_any(const float* x, int inputs, void* tile, int height, int place) {
    switch (height) {
        case 1: return quantize_row<1>(x, inputs, tile, place);
        case 2: return quantize_row<2>(x, inputs, tile, place);
        case 4: return quantize_row<4>(x, inputs, tile, place);
        default: return quantize_row<8>(x, inputs, tile, place);
    }
}

static void sigmoid_all(float* x, int n) {
    for (int i = 0; i < n; i += 16) store_part(x + i, sigmoid(load_part(x + i, n - i)), n - i);
}

#define STRING(x) #x
#define NAME(x) STRING(x)

static const Kernels kernels = {NAME(CUTAWAY_ISA), find_tile, find_tile_float, normalize, quantize_any, rotate, gate_up,
                                soft_cap,          softmax,   sigmoid_all,     store_kv,  segment,      merge,  finish};

}  // namespace CUTAWAY_ISA

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
const Kernels* JOIN(kernels_, CUTAWAY_ISA)() { return &CUTAWAY_ISA::kernels; }

}  // namespace cutaway
