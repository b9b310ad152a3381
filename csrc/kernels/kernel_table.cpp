// Compiled once per instruction set (see CMakeLists.txt): -DCUTAWAY_ISA=plain|avx2|avxvnni|avx512|amx and the flags for
// it. AVX-VNNI takes what it has in common with AVX2 from there, AMX from AVX-512: compiling it again takes half a
// minute and gives the same code.
#include "kernel_table.h"

#include "attention.h"
#include "elementwise.h"
#include "gemv.h"
#if defined(__AMX_INT8__)
#include "attention_amx.h"
#include "gemm_amx.h"
#elif defined(__AVX512F__)
#include "gemm_avx512.h"
#endif

namespace cutaway {
namespace CUTAWAY_ISA {

// The pairs of codes and scales that types need; make.operator()<codes, scales>() gives the function.
template <class Make> static auto for_pair(int codes, int scales, const Make& make)
    -> decltype(make.template operator()<kNibble, kFp16>()) {
    switch (codes * 16 + scales) {
        case kNibble * 16 + kFp16: return make.template operator()<kNibble, kFp16>();
        case kNibble * 16 + kFp16Min: return make.template operator()<kNibble, kFp16Min>();
        case kNibble * 16 + kSuperMin: return make.template operator()<kNibble, kSuperMin>();
        case kNibble * 16 + kSuper16: return make.template operator()<kNibble, kSuper16>();
        case kNibble * 16 + kSuperMin16: return make.template operator()<kNibble, kSuperMin16>();
        case kFive * 16 + kFp16: return make.template operator()<kFive, kFp16>();
        case kFive * 16 + kFp16Min: return make.template operator()<kFive, kFp16Min>();
        case kFive * 16 + kSuperMin: return make.template operator()<kFive, kSuperMin>();
        case kSix * 16 + kSuper16: return make.template operator()<kSix, kSuper16>();
        case kByte * 16 + kFp16: return make.template operator()<kByte, kFp16>();
        case kByte * 16 + kFloat: return make.template operator()<kByte, kFloat>();
        case kByte * 16 + kFloat16: return make.template operator()<kByte, kFloat16>();
        case kTable * 16 + kFloat: return make.template operator()<kTable, kFloat>();
        case kTable * 16 + kFloat16: return make.template operator()<kTable, kFloat16>();
        default: return {};
    }
}

// The tallest tile: what the registers hold beside a group's codes.
#if defined(__AVX512F__)
constexpr int kTall = 16;
#else
constexpr int kTall = 8;
#endif

static Tile find_tile(int codes, int scales, int height) {
    return for_pair(codes, scales, [height]<int C, int S>() -> Tile {
        switch (height) {
            case 1: return tile<C, S, 1>;
            case 2: return tile<C, S, 2>;
            case 4: return tile<C, S, 4>;
            case 8: return tile<C, S, 8>;
            default: return tile<C, S, kTall>;
        }
    });
}

static Gemv find_gemv(int codes, int scales, int height, int panels) {
    return for_pair(codes, scales, [height, panels]<int C, int S>() -> Gemv {
        if (panels == 4) return height == 1 ? gemv<C, S, 1, 4> : gemv<C, S, 2, 4>;
        return height == 1 ? gemv<C, S, 1, 2> : gemv<C, S, 2, 2>;
    });
}

#if defined(__AMX_INT8__)
static Gemm find_gemm(int codes, int scales) {
    return for_pair(codes, scales, []<int C, int S>() {
        return Gemm{sizeof(Unpacked<S>), unpack_panel<C, S, offset_of(C, S)>, gemm_amx<S>};
    });
}
static constexpr SplitBf16 split_bf16 = {split, multiply_some, gemv_bf16};
#define GEMM kTall, set_shapes, &split_bf16, find_gemm
#elif defined(__AVX512F__)
static Gemm find_gemm(int codes, int scales) {
    return for_pair(codes, scales,
                    []<int C, int S>() { return Gemm{sizeof(Unpacked<S>), unpack_panel<C, S, 0>, gemm_avx512<C, S>}; });
}
#define GEMM kTall, nullptr, nullptr, find_gemm
#else
#define GEMM kTall, nullptr, nullptr, nullptr
#endif

// Panels that a float tile of 8 tokens takes at once: 16 accumulators, half of the registers.
#if defined(__AVX512F__)
constexpr int kTogetherFloat = 2;
#else
constexpr int kTogetherFloat = 1;
#endif

template <int C> static TileFloat float_tile_of(int height, int panels) {
    switch (height) {
        case 1: return panels == 1 ? tile_float<C, 1, 1> : panels == 2 ? tile_float<C, 1, 2> : tile_float<C, 1, 4>;
        case 2: return panels == 1 ? tile_float<C, 2, 1> : panels == 2 ? tile_float<C, 2, 2> : tile_float<C, 2, 4>;
        case 4: return tile_float<C, 4, 1>;
        default: return panels == 1 ? tile_float<C, 8, 1> : tile_float<C, 8, kTogetherFloat>;
    }
}

static TileFloat find_tile_float(int codes, int height, int panels) {
    switch (codes) {
        case kF32: return float_tile_of<kF32>(height, panels);
        case kF16: return float_tile_of<kF16>(height, panels);
        default: return float_tile_of<kBF16>(height, panels);
    }
}

static void quantize_any(const float* const* x, int count, int inputs, void* tile, int height, int place) {
    switch (height) {
        case 1: return quantize_rows<1>(x, count, inputs, tile, place);
        case 2: return quantize_rows<2>(x, count, inputs, tile, place);
        case 4: return quantize_rows<4>(x, count, inputs, tile, place);
        case 8: return quantize_rows<8>(x, count, inputs, tile, place);
        default: return quantize_rows<16>(x, count, inputs, tile, place);
    }
}

static void sigmoid_all(float* x, int n) {
    for (int i = 0; i < n; i += 16) store_part(x + i, sigmoid(load_part(x + i, n - i)), n - i);
}

static const AttendWay* attend_way([[maybe_unused]] int key_type, [[maybe_unused]] int value_type,
                                   [[maybe_unused]] int head_dim) {
#if defined(__AMX_INT8__)
    static constexpr AttendWay matrix = {kRowTile, true, 2, pair_values, matrix_segment, finish_pairs};
    if (key_type == kKVBF16 && value_type == kKVBF16 && head_dim % kDepth == 0) return &matrix;
    return kernels_avx512()->attend(key_type, value_type, head_dim);
#else
    static constexpr AttendWay vectors = {kVectorRows, false, 4, widen, segment, finish};
    return &vectors;
#endif
}

#define STRING(x) #x
#define NAME(x) STRING(x)

// Made when it is first asked for, and not when the program is loaded: this code may run only where its set is present.
static const Kernels* kernels() {
#if defined(__AMX_INT8__)
    static const Kernels table = [] {
        Kernels k = *kernels_avx512();
        k.shape = set_shapes, k.split_bf16 = &split_bf16, k.gemm = find_gemm, k.attend = attend_way;
        k.name = NAME(CUTAWAY_ISA);
        return k;
    }();
#elif defined(__AVXVNNI__)
    static const Kernels table = [] {
        Kernels k = *kernels_avx2();
        k.tile = find_tile, k.gemv = find_gemv;
        k.name = NAME(CUTAWAY_ISA);
        return k;
    }();
#else
    static constexpr Kernels table = {NAME(CUTAWAY_ISA), GEMM,      find_tile,    find_gemv,   kTogetherFloat,
                                      find_tile_float,   normalize, quantize_any, rotate,      gate_up,
                                      add_scaled,        soft_cap,  softmax,      sigmoid_all, store_kv,
                                      attend_way,        merge};
#endif
    return &table;
}

}  // namespace CUTAWAY_ISA

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
const Kernels* JOIN(kernels_, CUTAWAY_ISA)() { return CUTAWAY_ISA::kernels(); }

}  // namespace cutaway
