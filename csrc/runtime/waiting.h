// How one thread waits for another: it spins, gives its core away once, and then sleeps until it is woken.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cutaway {

inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// A number of 31 bits that one thread changes and others wait for. A bit of it says that a thread sleeps. A thread that
// falls asleep sets the bit and one that changes the number clears it, both in one atomic operation on the same word,
// so no wake-up is lost.
class Signal {
  public:
    uint32_t load(std::memory_order order = std::memory_order_acquire) const { return word_.load(order) & ~kSleeper; }

    // A new number for all to see; sleepers wake.
    void set(uint32_t value) { wake(word_.exchange(value, std::memory_order_acq_rel)); }
    // The same, if the number is still `from`.
    bool change(uint32_t from, uint32_t to) {
        uint32_t old = from;
        while (!word_.compare_exchange_weak(old, to, std::memory_order_acq_rel, std::memory_order_acquire))
            if ((old & ~kSleeper) != from) return false;
        wake(old);
        return true;
    }

    struct Patience {
        std::chrono::microseconds spin;   // before it gives its core away
        std::chrono::microseconds again;  // after that, before it sleeps
    };
    // Returns when the number is no longer `old`. idle(): what to do before, a little at a time, as long as it says
    // true.
    template <class Idle> uint32_t wait(uint32_t old, Patience patience, Idle&& idle) {
        while (idle())
            if (const uint32_t now = load(); now != old) return now;
        if (spin(old, patience.spin)) return load();
        if (patience.again.count()) {
            std::this_thread::yield();
            if (spin(old, patience.again)) return load();
        }
        for (;;) {
            if (const uint32_t now = load(); now != old) return now;
            sleep(old);
        }
    }
    uint32_t wait(uint32_t old, Patience patience) {
        return wait(old, patience, [] { return false; });
    }
    // Whether the number changes from `old` within that time.
    bool spin(uint32_t old, std::chrono::microseconds time) const {
        for (int i = 0; i < 64; i++, relax())
            if (load() != old) return true;
        if (!time.count()) return false;
        for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
            for (int i = 0; i < 64; i++, relax())
                if (load() != old) return true;
        return false;
    }

  private:
    static constexpr uint32_t kSleeper = 1u << 31;

    void sleep(uint32_t old) {
        uint32_t seen = old;
        const bool marked = word_.compare_exchange_strong(seen, old | kSleeper, std::memory_order_acq_rel);
        if (!marked && seen != (old | kSleeper)) return;
#if defined(__linux__)
        syscall(SYS_futex, (uint32_t*)&word_, FUTEX_WAIT_PRIVATE, old | kSleeper, nullptr, nullptr, 0);
#else
        word_.wait(old | kSleeper, std::memory_order_acquire);
#endif
    }
    void wake(uint32_t old) {
        if (!(old & kSleeper)) return;
#if defined(__linux__)
        syscall(SYS_futex, (uint32_t*)&word_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
#else
        word_.notify_all();
#endif
    }

    std::atomic<uint32_t> word_{0};
};

}  // namespace cutaway
