// A thread pool of our own. A job runs on every thread at once; inside it, `parallel` gives every thread a run of items, its
// own to walk through in order (what it asks of memory ahead is then what it reads next). Who is done takes from the
// others' runs, so a preempted core does not stall the rest for more than an item. All end in a barrier. Threads spin
// briefly between jobs and barriers, then park.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "memory.h"

namespace cutaway {

inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// The same rounding and denormals in every thread, whatever a library did to ours.
struct FloatMode {
#if defined(__x86_64__)
    unsigned saved = _mm_getcsr();
    FloatMode() { _mm_setcsr(0x1f80); }
    ~FloatMode() { _mm_setcsr(saved); }
#endif
};

class Team;

// What a thread will soon read: weights, in lines of 64 bytes side by side, asked for while it has nothing else to do.
struct Coming {
    static constexpr int kReaders = 4;
    const uint8_t* at[kReaders] = {};
    int readers = 0;
    size_t left = 0;  // bytes, of each reader

    void ask() {
        for (int i = 0; i < readers; i++, at[i - 1] += 64) __builtin_prefetch(at[i], 0, 2);
        left = left > 64 ? left - 64 : 0;
    }
};

// One thread's view of a job.
class Worker {
  public:
    Worker(Team& team, int index) : team(team), index(index) {}
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Every thread calls this with the same arguments; f(item) runs once per item, then all wait for all.
    template <class F> void parallel(int64_t items, int64_t chunk, F&& f);
    void barrier();
    // Memory of this thread, kept between calls; contents are not.
    template <class T> T* scratch(size_t count) { return reinterpret_cast<T*>(memory_.grow(count * sizeof(T))); }

    // A second kind of scratch, for unpacked panels: two, that outlive calls of `scratch`.
    uint8_t* lines(int which, size_t bytes) { return lines_[which].grow(bytes); }

    Team& team;
    const int index;
    Coming coming;
    int shapes = 0;  // what its matrix unit is set up for, if it is known

  private:
    Memory memory_, lines_[2];
};

class Team {
  public:
    explicit Team(int threads) : threads_(threads < 1 ? 1 : threads), runs_(new Run[(size_t)threads_]) {
        for (int i = 0; i < threads_; i++) workers_.push_back(new Worker(*this, i));
        for (int i = 1; i < threads_; i++) pool_.emplace_back([this, i] { serve(*workers_[i]); });
    }
    ~Team() {
        stop_ = true;
        epoch_.fetch_add(1, std::memory_order_release);
        epoch_.notify_all();
        for (auto& t : pool_) t.join();
        for (Worker* w : workers_) delete w;
    }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int threads() const { return threads_; }

    Arena weights;  // what its jobs read most

    // job(worker) on every thread, the calling one included; returns when all have left it.
    template <class F> void run(F&& job) {
        FloatMode mode;
        if (threads_ > 1) {
            call_ = [](void* f, Worker& w) { (*static_cast<std::remove_reference_t<F>*>(f))(w); };
            job_ = const_cast<void*>(static_cast<const void*>(&job));
            running_.store(threads_ - 1, std::memory_order_relaxed);
            epoch_.fetch_add(1, std::memory_order_release);
            epoch_.notify_all();
        }
        job(*workers_[0]);
        for (int left; (left = running_.load(std::memory_order_acquire)) != 0;) await(running_, left);
    }

  private:
    friend class Worker;
    // How long a thread spins before it parks. Waking a parked core costs the next step far more than the wake-up itself
    // (a virtual machine gives it away, its clock falls): SmolLM2 decodes 114 tokens/s when threads park after 0.3 ms,
    // 187 when they last from one step to the next.
    static constexpr std::chrono::microseconds kSpin{5000};

    static void await(std::atomic<int>& value, int old, Coming* coming = nullptr) {
        while (coming && coming->left) {
            if (value.load(std::memory_order_acquire) != old) return;
            coming->ask();
        }
        const auto end = std::chrono::steady_clock::now() + kSpin;
        do {
            for (int i = 0; i < 64; i++) {
                if (value.load(std::memory_order_acquire) != old) return;
                relax();
            }
        } while (std::chrono::steady_clock::now() < end);
        while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
    }

    void serve(Worker& worker) {
        FloatMode mode;
        for (int seen = 0;;) {
            await(epoch_, seen);
            seen = epoch_.load(std::memory_order_acquire);
            if (stop_) return;
            call_(job_, worker);
            if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
        }
    }

    int threads_;
    std::vector<Worker*> workers_;
    std::vector<std::thread> pool_;
    void (*call_)(void*, Worker&) = nullptr;
    void* job_ = nullptr;
    std::atomic<bool> stop_{false};
    alignas(64) std::atomic<int> epoch_{0};
    alignas(64) std::atomic<int> running_{0};
    alignas(64) std::atomic<int> generation_{0};
    alignas(64) std::atomic<int> arrived_{0};
    struct alignas(64) Run {
        std::atomic<int64_t> taken{0};  // chunks
    };
    std::unique_ptr<Run[]> runs_;
};

inline void Worker::barrier() {
    if (team.threads_ == 1) return;
    const int g = team.generation_.load(std::memory_order_acquire);
    if (team.arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == team.threads_) {
        team.arrived_.store(0, std::memory_order_relaxed);
        for (int t = 0; t < team.threads_; t++) team.runs_[t].taken.store(0, std::memory_order_relaxed);
        team.generation_.store(g + 1, std::memory_order_release);
        team.generation_.notify_all();
    } else {
        Team::await(team.generation_, g, &coming);
    }
}

// The first of a thread's own items of so many.
inline int64_t first_of(int64_t items, int index, int threads) { return items * index / threads; }

template <class F> void Worker::parallel(int64_t items, int64_t chunk, F&& f) {
    if (team.threads_ == 1) {
        for (int64_t i = 0; i < items; i++) f(i);
        return;
    }
    const int64_t chunks = (items + chunk - 1) / chunk;
    for (int turn = 0; turn < team.threads_; turn++) {
        const int whose = (index + turn) % team.threads_;
        const int64_t first = first_of(chunks, whose, team.threads_), last = first_of(chunks, whose + 1, team.threads_);
        for (int64_t c; (c = first + team.runs_[whose].taken.fetch_add(1, std::memory_order_relaxed)) < last;)
            for (int64_t i = c * chunk; i < items && i < (c + 1) * chunk; i++) f(i);
    }
    barrier();
}

}  // namespace cutaway
