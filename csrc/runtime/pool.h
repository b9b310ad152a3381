// The threads that work on a step, and how their number changes while it runs.
//
//   op           0              1                     2             3
//   phase    7  |       8       |      9     |   10   |     11      |
//   owner   call ======>[======>[====>.......[=======>[===========>[==    => works   . waits   [ opens the next phase
//   helper 1     =====>.[=====>.[===========>[====>...[=====>.......[==
//   helper 2     ====>..[=====>  x (preempted)           out . . . . [ joins with an op
//
// The thread that calls `run` owns the job; it never leaves it. Every thread runs the same code: `parallel` gives each
// a run of items, its own to walk through in order (what it prefetches is then what it reads next), and a thread that
// is done takes from the others' runs. A phase is what lies between two barriers. The owner alone ends one: when every
// member has arrived it sets the next number, which the others wait for.
//
// A member's word says where it is. It is changed in one atomic operation, and only along these arrows:
//
//        .-------------- the owner calls, at the start of an op --------------.
//        |                                                                     v
//      out <-- job is done -- working(n) -- it arrives at the barrier --> waiting(n)
//        ^                        ^---- it sees the phase behind n ----------'|
//        |                                                                     v
//        '---------- it sees that, and leaves the job <----- dropped <-- the owner
//
// A preempted helper that waits (it has not seen the next phase, or the call) holds nothing: the owner drops it after
// kGrace and goes on, others take its run, and it leaves the job where it wakes up. One that works must be waited for:
// it may hold an item. `dropped` and `working` exclude each other, as both are reached from the same word. A member
// that is dropped touches nothing of the job any more. Helpers join at the start of an op, since what an op does before
// its first barrier must be done by all.
//
// What the owner writes between an arrival and the next phase (runs, places, the number of runs) is read by members
// after they see that phase, so the words' acquire and release order everything else. How many take part is Pressure's
// choice. No bit of any result depends on it: an item's outcome is the same in every thread, and cuts are of outputs
// only.
#pragma once
#include <memory>
#include <thread>

#include "pressure.h"
#include "turn.h"
#include "worker.h"

namespace cutaway {

class ThreadPool {
  public:
    explicit ThreadPool(int threads) : owner_(new Worker(*this, 0)) {
        release_.set(low(phase_));
        grow(threads);
    }
    ~ThreadPool() {
        release_.set(low(++phase_));
        for (auto& h : helpers_) {
            while (!h->state.change(kOut, kStop)) std::this_thread::yield();  // a dropped one has yet to see it
            h->thread.join();
        }
    }
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    // At least so many threads, the calling one included.
    void grow(int threads) {
        const Turn::Held held(turn_);
        if (pressure_ && threads <= size()) return;
        runs_.reset(new Run[(size_t)threads]);
        while (size() < threads) {
            helpers_.emplace_back(new Helper(*this, size()));
            Helper& h = *helpers_.back();
            h.worker.reserve(room_);
            h.thread = std::thread([this, &h] { serve(h); });
        }
        pressure_.reset(new Pressure(threads));
    }
    int size() const { return (int)helpers_.size() + 1; }

    // Memory for every thread before any needs it, so that it is the same whichever threads take part.
    void reserve(const Room& room) {
        const Turn::Held held(turn_);
        room_.cover(room);
        owner_->reserve(room_);
        for (auto& h : helpers_) h->worker.reserve(room_);
    }

    // How often helpers came and went within jobs; read by the caller of `run`.
    struct Changes {
        uint64_t called = 0, joined = 0;  // with a job; with a later op of it
        uint64_t late = 0, sent = 0;      // dropped: too late at a barrier; one too many
    };
    const Changes& changes() const { return changes_; }

    // job(worker) on up to `most` threads, the calling one among them; returns when all have left it. adapts: fewer
    // where others want the cores. Another call of another thread waits for its turn.
    template <class F> void run(int most, bool adapts, F&& job) {
        const Turn::Held held(turn_);
        FloatMode mode;
        call_ = [](void* f, Worker& w) { (*static_cast<std::remove_reference_t<F>*>(f))(w); };
        job_ = const_cast<void*>(static_cast<const void*>(&job));
        most_ = most, adapts_ = adapts;
        owner_->from = 0;
        boundary(0);
        job(*owner_);
        finish();
    }

  private:
    friend class Worker;
    enum Kind : uint32_t { kOut, kWaiting, kWorking, kDropped, kStop };
    static constexpr uint32_t low(uint64_t phase) { return (uint32_t)phase & 0xfffffff; }
    static constexpr uint32_t in(Kind kind, uint64_t phase) { return kind | low(phase) << 3; }
    static constexpr Kind kind(uint32_t state) { return Kind(state & 7); }

    struct alignas(128) Helper {
        Helper(ThreadPool& pool, int index) : worker(pool, index) { state.set(kDropped); }
        Signal state;
        Worker worker;
        std::unique_ptr<RunDelay> delay;  // from its first `out` on
        int place = 0;                    // whose run it begins with
        size_t from = 0;                  // the op with which it joins,
        uint64_t phase = 0;               // and the phase
        bool called = false;
        std::thread thread;
    };
    // Chunks that were taken of a run (24 bits), and in which phase; in any other none was.
    struct alignas(64) Run {
        std::atomic<uint64_t> word{0};
        int64_t take(uint64_t phase, int64_t count) {
            uint64_t old = word.load(std::memory_order_relaxed);
            for (;;) {
                const int64_t n = old >> 24 == phase ? (int64_t)(old & 0xffffff) : 0;
                if (n >= count) return -1;
                const uint64_t now = phase << 24 | (uint64_t)(n + 1);
                if (word.compare_exchange_weak(old, now, std::memory_order_relaxed)) return n;
            }
        }
    };

    static constexpr std::chrono::microseconds kGrace{20};
    // Waking a parked core costs the next step far more than the wake-up itself (a virtual machine gives it away, its
    // clock falls): SmolLM2 decodes 114 tokens/s when threads park after 0.3 ms, 187 when they last from one step to
    // the next. Where others want the cores, spinning takes from a thread's own share what it needs for its work.
    Signal::Patience patience() const {
        using us = std::chrono::microseconds;
        if (quiet_.load(std::memory_order_relaxed)) return {us(200), us(4800)};
        return {us(20), us(20)};
    }

    void serve(Helper& h) {
        FloatMode mode;
        h.delay.reset(new RunDelay);
        for (;;) {
            h.state.set(kOut);
            const bool quiet = quiet_.load(std::memory_order_relaxed);
            const uint32_t called = h.state.wait(kOut, quiet ? patience() : Signal::Patience{});
            if (kind(called) == kStop) return;
            if (kind(called) != kWaiting || !enter(h.worker, called, h.phase)) continue;  // dropped before it came
            h.worker.from = h.from;
            try {
                call_(job_, h.worker);
            } catch (const Worker::Left&) {}
        }
    }
    // A member that waited begins to work, unless it was dropped.
    bool enter(Worker& worker, uint32_t waiting, uint64_t phase) {
        Helper& h = *helpers_[(size_t)worker.index - 1];
        if (!h.state.change(waiting, in(kWorking, 0))) return false;
        worker.phase_ = phase, worker.cuts_ = cuts_, worker.place_ = h.place;
        return true;
    }
    void barrier(Worker& worker) {
        if (worker.index == 0) return gather();
        Helper& h = *helpers_[(size_t)worker.index - 1];
        const uint32_t waiting = in(kWaiting, worker.phase_);
        h.state.set(waiting);
        release_.wait(low(worker.phase_), patience(), [&] { return worker.prefetch.ask_some(); });
        if (!enter(worker, waiting, worker.phase_ + 1)) throw Worker::Left();
    }

    // --- the owner's part
    // -------------------------------------------------------------------------------------------------
    void gather() {
        if (members_.empty()) return;
        for (size_t i = 0; i < members_.size();)
            if (arrived(*members_[i]))
                i++;
            else
                leave(i);
        while (!members_.empty() && (int)members_.size() >= allowed()) {
            members_.back()->state.change(in(kWaiting, phase_), kDropped), changes_.sent++;
            leave(members_.size() - 1);
        }
        if (changed_) arrange();
        owner_->phase_ = ++phase_;
        release_.set(low(phase_));
    }
    // Whether a member comes to the barrier. If not, it is no member any more.
    bool arrived(Helper& h) {
        for (const uint32_t here = in(kWaiting, phase_);;) {
            const uint32_t state = h.state.load();
            if (state == here) return true;
            if (kind(state) == kWorking)
                h.state.wait(state, patience(), [&] { return owner_->prefetch.ask_some(); });
            else if (!h.state.spin(state, kGrace) && h.state.change(state, kDropped)) {
                pressure_->late(), changes_.late++;
                return false;
            }
        }
    }
    void finish() {
        for (Helper* h : members_)
            for (uint32_t state; kind(state = h->state.load()) != kOut;)
                if (kind(state) == kWorking)
                    h->state.wait(state, patience());
                else if (!h->state.spin(state, kGrace) && h->state.change(state, kDropped))
                    break;
        members_.clear();
        changed_ = false, cuts_ = owner_->cuts_ = {};
    }
    void leave(size_t i) {
        members_.erase(members_.begin() + (long)i);
        changed_ = true;
    }
    int allowed() const { return adapts_ ? std::min(most_, pressure_->target()) : most_; }
    // A run for each thread; where others want the cores too, `fine` ones, so that more can be taken from a slow one.
    void arrange() {
        for (size_t i = 0; i < members_.size(); i++) members_[i]->place = (int)i + 1;
        cuts_ = owner_->cuts_ = {(int)members_.size() + 1, !quiet_.load(std::memory_order_relaxed)};
        changed_ = false;
    }
    // Before an op: how many should take part, and who joins.
    void boundary(size_t op) {
        if (most_ == 1) return;
        if (adapts_) pressure_->look((int)members_.size() + 1, [&] { return waited(); });
        const int want = allowed() - 1;
        const bool quiet = want + 1 == most_;
        if (quiet_.load(std::memory_order_relaxed) != quiet) quiet_.store(quiet, std::memory_order_relaxed);
        if ((int)members_.size() >= want) return;
        const size_t before = members_.size();
        for (size_t i = 0; i < helpers_.size() && (int)members_.size() < want; i++) {
            Helper& h = *helpers_[i];
            if (h.state.load() != kOut) continue;
            members_.push_back(&h);
            h.place = (int)members_.size(), h.from = op, h.phase = phase_, h.called = changed_ = true;
        }
        if (members_.size() == before) return;
        (op ? changes_.joined : changes_.called) += members_.size() - before;
        // Else with the next phase: members that are here count on what they know.
        if (!before) arrange(), owner_->phase_ = phase_;
        for (size_t i = before; i < members_.size(); i++) members_[i]->state.change(kOut, in(kWaiting, phase_ - 1));
    }
    // Seconds that all threads waited for a core so far.
    double waited() {
        thread_local const RunDelay own;
        thread_local double before = own.seconds();
        if (!own.known()) return pressure_->late_seconds();
        const double now = own.seconds();
        owner_waited_ += now - before, before = now;
        double total = owner_waited_;
        for (auto& h : helpers_)
            if (h->called) total += h->delay->seconds();
        return total;
    }

    Turn turn_;
    std::unique_ptr<Worker> owner_;
    std::vector<std::unique_ptr<Helper>> helpers_;
    std::vector<Helper*> members_;  // of the job at hand, without the owner
    std::unique_ptr<Run[]> runs_;
    std::unique_ptr<Pressure> pressure_;
    Room room_;
    void (*call_)(void*, Worker&) = nullptr;
    void* job_ = nullptr;
    uint64_t phase_ = 1;
    int most_ = 1;
    bool adapts_ = true, changed_ = false;
    double owner_waited_ = 0.0;
    Changes changes_;
    // What members read in each phase and what rarely changes, apart from what the owner writes.
    alignas(128) Worker::Cuts cuts_;
    std::atomic<bool> quiet_{true};
    alignas(128) Signal release_;  // the number of the phase
};

inline void Worker::boundary(size_t op) {
    if (index == 0) pool_.boundary(op);
}
inline bool Worker::alone() const { return index == 0 && pool_.members_.empty(); }
inline void Worker::barrier() { pool_.barrier(*this); }

// The first of a thread's own items of so many.
inline int64_t first_of(int64_t items, int place, int runs) { return items * place / runs; }

template <class F> void Worker::parallel(int64_t items, int64_t chunk, F&& f) {
    if (alone()) {
        for (int64_t i = 0; i < items; i++) f(i);
        return;
    }
    const int64_t chunks = (items + chunk - 1) / chunk;
    const int reach = index ? std::min(cuts_.runs, kReach) : cuts_.runs;  // the owner looks at all: none is forgotten
    for (int turn = 0; turn < reach; turn++) {
        const int whose = (place_ + turn) % cuts_.runs;
        const int64_t first = first_of(chunks, whose, cuts_.runs);
        const int64_t count = first_of(chunks, whose + 1, cuts_.runs) - first;
        for (int64_t n; (n = pool_.runs_[(size_t)whose].take(phase_, count)) >= 0;)
            for (int64_t i = (first + n) * chunk; i < items && i < (first + n + 1) * chunk; i++) f(i);
    }
    barrier();
}

}  // namespace cutaway
