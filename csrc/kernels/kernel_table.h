// What one instruction set offers: a table of functions over plain pointers. No Python here, no threads, no allocation.
#pragma once
#include "layout.h"

namespace cutaway {

constexpr int kSegment = 256;  // tokens of context that are summed before a merge
constexpr int kBlocks = kSegment / 16;
constexpr int kReaders = 4;  // places that a thread reads weights in for few tokens: memory gives it more than in one
constexpr int kVectorRows = 12;  // query rows that share a load of keys and values
constexpr int kRowTile = 16;     // the same, at most: on a matrix unit

// One layer's pages: see layout.h. A head of a page is a run of bytes: keys, values, and for int8 and fp8 their scales.
struct KVView {
    uint8_t* base;
    size_t page_bytes, head_bytes;  // from a page to the next, from a head to the next
    int kv_heads, head_dim, page_size, key_type, value_type;

    size_t values_at() const { return (size_t)page_size * head_dim * kKVBytes[key_type]; }
    size_t key_scales_at() const { return values_at() + (size_t)page_size * head_dim * kKVBytes[value_type]; }
    size_t value_scales_at() const { return key_scales_at() + (scaled(key_type) ? sizeof(float) * page_size : 0); }
    size_t end() const { return value_scales_at() + (scaled(value_type) ? sizeof(float) * page_size : 0); }
    uint8_t* head(int page, int head) const { return base + page * page_bytes + head * head_bytes; }
    static bool scaled(int type) { return type >= kKVInt8; }
};

struct AttendView {
    float softcap;  // 0: none
};

constexpr float kLog2E = 1.44269504f;

// A tile of rows that read the same head of the same request. Row r sees the positions first[r] .. position[r].
// q: [count][head_dim], times the scale; and, where there is no soft cap, times log2 e: scores are in units of ln 2.
// For a matrix unit: [head_dim / 32] x (kRowTile high parts, kRowTile low parts) [32], see layout.h.
struct AttendRows {
    int count;
    const void* q;
    int position[kRowTile], first[kRowTile];
    float slope[kRowTile];
};

// Where one segment's keys and values of one head lie, in blocks of 16 tokens (null: no page, or nothing to see there).
// start: the segment's first token. Scales are null for float types. pairs: the values as a matrix unit takes them.
struct AttendBlocks {
    int key_type, value_type, head_dim, start;
    const uint8_t* pairs;
    const uint8_t *keys[kBlocks], *values[kBlocks];
    const float *key_scales[kBlocks], *value_scales[kBlocks];
};

// The groups from .. to - 1 of one panel, times one tile of tokens, on top of those before them in out [height][16].
using Tile = void (*)(const uint8_t* panel, const uint8_t* table, int from, int to, const void* activations,
                      float* out);
// All groups of some panels, times a tile of one or two tokens. out [panels][height][16].
using Gemv = void (*)(const uint8_t* const* panels, const uint8_t* table, int groups, const void* activations,
                      float* out);
// All inputs of a panel, times one tile of tokens.
using TileFloat = void (*)(const uint8_t* panel, size_t apart, int inputs, const float* x, int stride, float* out);

// The same for a tile of 16 tokens and groups that were unpacked, `bytes` each; `unpacked` is where group `from` lies.
// One panel or two, `apart` bytes from each other, each output kTallest * 16 floats on.
struct Gemm {
    size_t bytes;
    void (*unpack)(const uint8_t* panel, const uint8_t* table, int from, int to, void* unpacked);
    void (*multiply)(const void* unpacked, size_t apart, int panels, int from, int to, const void* activations,
                     float* out);
};

// What a thread's matrix unit is set up for.
enum Shapes : int { kNoShapes, kCodeShapes, kBf16Shapes };

// What a matrix unit does with floats: each is the sum of two bf16, a high part and a low one (see layout.h).
struct SplitBf16 {
    // x[0 .. n - 1] into a row of 32 parts for every 32 inputs, `step` bytes from one to the next; the low parts `low`
    // bytes after the high ones.
    void (*split)(const float* x, int n, void* to, size_t low, size_t step);
    // All inputs of some panels times 3 .. 16 tokens in one tile or two. Panels come in twos, `apart` bytes from each
    // other and `next` from those before; each output kTallest * 16 floats on.
    void (*multiply)(const uint8_t* panel, size_t apart, size_t next, int panels, int inputs, const void* tiles,
                     int count, float* out);
    // 1, 2 or 4 panels times one or two tokens. out [panels][count][16].
    void (*gemv)(const uint8_t* panel, size_t apart, int panels, int inputs, const void* tiles, int count, float* out);
};

// How attention is done over keys and values of some types.
struct AttendWay {
    int rows;    // of a tile, at most kRowTile
    bool split;  // queries are float parts for a matrix unit, else floats
    int worth;   // from how many tiles on `prepare` is called for a segment
    // What all tiles read of it goes to room [2][kSegment][head_dim], and the blocks point there.
    void (*prepare)(AttendBlocks& blocks, float* room);
    void (*segment)(const AttendBlocks& blocks, const AttendBlocks* next, const AttendView& at, const AttendRows& rows,
                    float* p, float* m, float* l, float* o, int stride);
    void (*finish)(const float* O, float L, float* out, int d);
};

struct Kernels {
    // How so many tokens are cut. Rows to spare cost the matrix unit nothing: nine tokens take it less time than
    // vectors take for eight and one, and five that are left over less than vectors for eight.
    Tiling tiling(int count) const { return {widest, !split_bf16 ? widest : count > widest ? 5 : 9}; }

    const char* name;
    int widest;                           // tokens of the tallest tile: 16 where there are 512-bit registers, else 8
    void (*shape)(int shapes);            // what a thread must do before it uses a matrix unit (null: there is none)
    const SplitBf16* split_bf16;          // null: no matrix unit
    Gemm (*gemm)(int codes, int scales);  // null: none
    Tile (*tile)(int codes, int scales, int height);              // null where no type needs the pair
    Gemv (*gemv)(int codes, int scales, int height, int panels);  // height 1 or 2, panels 2 or 4
    int float_panels;  // panels that a float tile of 8 tokens can take at once, each output kTallest * 16 floats on
    TileFloat (*tile_float)(int codes, int height, int panels);  // height 1 or 2: up to four panels
    void (*normalize)(const float* x, int width, bool layer, const float* weight, const float* bias, float eps,
                      float* out);
    // Rows x[0 .. count - 1] to the places place .. of a tile of `height` tokens.
    void (*quantize)(const float* const* x, int count, int inputs, void* tile, int height, int place);
    void (*rotate)(float* x, const float* cosine, const float* sine, int half, bool interleaved);
    void (*gate_up)(int kind, const float* gate, const float* up, float* out, int n);
    void (*add_scaled)(float* to, const float* from, float scale, const float* x, size_t apart,
                       int n);  // to = from + scale * x; x: 16 floats, the next `apart` on
    void (*soft_cap)(float* x, int n, float cap);
    void (*softmax)(float* x, int n);
    void (*sigmoid)(float* x, int n);
    void (*store_kv)(const KVView& kv, int page, int head, int slot, const float* k, const float* v);
    const AttendWay* (*attend)(int key_type, int value_type, int head_dim);
    void (*merge)(int count, float* M, float* L, float* O, const float* m, const float* l, const float* o, int stride,
                  int d);
};

const Kernels* kernels_plain();
const Kernels* kernels_avx2();
const Kernels* kernels_avxvnni();
const Kernels* kernels_avx512();
const Kernels* kernels_amx();

// The best that this machine has, or the one named by `name` ("" = the best); null if it has no such one.
const Kernels* choose_kernels(const char* name);

}  // namespace cutaway
