// Panels unpacked for many tokens: codes in bytes, scales in floats.
#pragma once
#include "tile.h"

namespace cutaway::CUTAWAY_ISA {

// An unpacked group: 8 lines of codes, a line of float scales (two: one per half), minima likewise.
template <int S> struct Unpacked {
    static constexpr int kParts = GroupScales<S>::kHalves ? 2 : 1;
    uint8_t lines[8][64];
    float scale[kParts][16];
    float minimum[GroupScales<S>::kMin ? kParts : 0][16];
};

// The groups from .. to - 1 of a panel, less `offset`, which makes codes signed.
template <int C, int S, int offset>
static void unpack_panel(const uint8_t* panel, const uint8_t* table, int from, int to, void* unpacked) {
    Unpacked<S>* u = (Unpacked<S>*)unpacked;
    Walk<C, S> walk(panel, from);
    for (int g = from; g < to; g++, u++, walk.next()) {
        walk.ask(kAhead);
        B q[8];
        unpack<C>(walk.codes, table, q);
        for (int j = 0; j < 8; j++)
            _mm512_store_si512(u->lines[j], offset ? _mm512_sub_epi8(q[j].v, _mm512_set1_epi8((char)offset)) : q[j].v);
        const GroupScales<S> w = GroupScales<S>::at(walk.scales, walk.in);
        for (int h = 0; h < u->kParts; h++) {
            store(u->scale[h], w.scale[h]);
            if constexpr (w.kMin) store(u->minimum[h], w.minimum[h]);
        }
    }
}

}  // namespace
