// What one instruction set offers: a table of functions over plain pointers. No Python here, no threads, no allocation.
#pragma once
#include "layout.h"

namespace cutaway {

constexpr int kSegment = 256;   // tokens of context that are summed before a merge
constexpr int kRowTile = 8;     // query rows that share a load of keys and values

// One layer's pages. keys, values: see layout.h; scales are null for float types.
struct KVView {
    uint8_t* keys;
    uint8_t* values;
    float* key_scales;
    float* value_scales;
    int kv_heads, head_dim, page_size, key_type, value_type;
};

struct AttendView {
    float scale, softcap;  // softcap 0: none
};

// A tile of rows that read the same head of the same request. Row r sees the positions first[r] .. position[r].
struct AttendRows {
    int count, kv_head;
    const int* table;
    const float* q[kRowTile];
    int position[kRowTile], first[kRowTile];
    float slope[kRowTile];
};

// The groups from .. to - 1 of one panel, times one tile of tokens, on top of those before them in out [height][16].
using Tile = void (*)(const uint8_t* panel, const uint8_t* scales, const uint8_t* table, int from, int to, const void* activations, float* out);
using TileFloat = void (*)(const uint8_t* panel, int inputs, const float* x, int stride, float* out);

// The same for a tile of 16 tokens and groups that were unpacked, `bytes` each; `unpacked` is where group `from` lies.
struct Wide {
    size_t bytes;
    void (*unpack)(const uint8_t* panel, const uint8_t* scales, const uint8_t* table, int from, int to, void* unpacked);
    void (*multiply)(const void* unpacked, int from, int to, const void* activations, float* out);
};

struct Kernels {
    const char* name;
    int widest;  // tokens of the tallest tile: 8, or 16 where there is a matrix unit
    void (*enter)();  // what a thread must do before its first wide product (null: nothing)
    Wide (*wide)(int codes, int scales);
    Tile (*tile)(int codes, int scales, int height);  // null where no type needs the pair
    int float_panels;             // panels that a float tile of 8 tokens can take at once, each output kTallest * 16 floats on
    TileFloat (*tile_float)(int codes, int height, int panels);
    void (*normalize)(const float* x, int width, bool layer, const float* weight, const float* bias, float eps, float* out);
    // Rows x[0 .. count - 1] to the places place .. of a tile of `height` tokens.
    void (*quantize)(const float* const* x, int count, int inputs, void* tile, int height, int place);
    void (*rotate)(float* x, const float* cosine, const float* sine, int half, bool interleaved);
    void (*gate_up)(int kind, const float* gate, const float* up, float* out, int n);
    void (*soft_cap)(float* x, int n, float cap);
    void (*softmax)(float* x, int n);
    void (*sigmoid)(float* x, int n);
    void (*store_kv)(const KVView& kv, int page, int head, int slot, const float* k, const float* v);
    void (*segment)(const KVView& kv, const AttendView& at, const AttendRows& rows, int start, float* p, float* m, float* l, float* const* o);
    void (*merge)(float* M, float* L, float* O, float m, float l, const float* o, int d);
    void (*finish)(const float* O, float L, float* out, int d);
};

const Kernels* kernels_plain();
const Kernels* kernels_avx2();
const Kernels* kernels_avxvnni();
const Kernels* kernels_avx512();
const Kernels* kernels_amx();

// The best that this machine has, or the one named by `name` ("" = the best); null if it has no such one.
const Kernels* choose_kernels(const char* name);

}  // namespace cutaway
