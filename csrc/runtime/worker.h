// One thread's view of a job: see pool.h.
#pragma once
#include <algorithm>
#include <vector>

#include "memory.h"
#include "waiting.h"

namespace cutaway {

// The same rounding and denormals in every thread, whatever a library did to ours.
struct FloatMode {
#if defined(__x86_64__)
    unsigned saved = _mm_getcsr();
    FloatMode() { _mm_setcsr(0x1f80); }
    ~FloatMode() { _mm_setcsr(saved); }
#endif
};

// What a thread will soon read: weights, in adjacent lines of 64 bytes, prefetched while it has nothing else to do.
struct Prefetch {
    static constexpr int kReaders = 4;
    const uint8_t* at[kReaders] = {};
    int readers = 0;
    size_t left = 0;  // bytes, of each reader

    void ask() {
        for (int i = 0; i < readers; i++, at[i - 1] += 64) __builtin_prefetch(at[i], 0, 2);
        left = left > 64 ? left - 64 : 0;
    }
    // Some of it; whether there was any.
    bool ask_some() {
        if (!left) return false;
        ask();
        return true;
    }
};

class ThreadPool;

// Bytes that a thread may need for an op, beside what all share: its own scratch, and unpacked panels of two weights.
struct Room {
    size_t scratch = 0, lines[2] = {0, 0};
    void cover(const Room& o) {
        scratch = std::max(scratch, o.scratch);
        for (int i = 0; i < 2; i++) lines[i] = std::max(lines[i], o.lines[i]);
    }
    // What a worker holds once it has so much.
    size_t bytes() const { return Memory::whole(scratch) + Memory::whole(lines[0]) + Memory::whole(lines[1]); }
};

class Worker {
  public:
    Worker(ThreadPool& pool, int index) : index(index), pool_(pool) {}
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Every thread calls this with the same arguments; f(item) runs once per item, then all wait for all.
    template <class F> void parallel(int64_t items, int64_t chunk, F&& f);
    void barrier();
    // Before the op of that number: helpers may join with it. They begin their job at `from`.
    void boundary(size_t op);
    size_t from = 0;

    // Into how many runs items are cut, and with whose a thread begins. All members know the same number, and it
    // changes at barriers only; an op that needs it twice takes it once.
    struct Cuts {
        int runs = 1;
        bool fine = false;  // whether runs should be cut into pieces that others can take
        bool operator==(const Cuts&) const = default;
    };
    Cuts cuts() const { return cuts_; }
    int runs() const { return cuts_.runs; }
    int place() const { return place_ % cuts_.runs; }

    // Memory of this thread, kept between calls; contents are not.
    template <class T> T* scratch(size_t count) { return reinterpret_cast<T*>(memory_.grow(count * sizeof(T))); }
    // A second kind of scratch, for unpacked panels: two, that outlive calls of `scratch`.
    uint8_t* lines(int which, size_t bytes) { return lines_[which].grow(bytes); }
    void reserve(const Room& room) {
        memory_.grow(room.scratch);
        for (int i = 0; i < 2; i++) lines_[i].grow(room.lines[i]);
    }

    const int index;  // 0: the owner of the job
    int shapes = 0;   // what its matrix unit is set up for, if it is known
    Prefetch prefetch;
    // What it reads first of each op of a program, as long as that stays what it is and so does the thread's place.
    struct Ahead {
        uint64_t program = 0;
        size_t ops = 0;
        Cuts cuts;
        int place = 0;
        bool operator==(const Ahead&) const = default;
    } ahead_of;
    std::vector<Prefetch> ahead;

  private:
    friend class ThreadPool;
    struct Left {};  // thrown by a barrier where a thread is no member any more; the pool catches it
    // Runs that a helper looks at: all would be a line of memory for every pair of threads.
    static constexpr int kReach = 8;
    bool alone() const;

    ThreadPool& pool_;
    uint64_t phase_ = 0;
    int place_ = 0;
    Cuts cuts_;
    Memory memory_{kWorkers}, lines_[2] = {Memory(kWorkers), Memory(kWorkers)};
};

}  // namespace cutaway
