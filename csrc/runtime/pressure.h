// How many threads a pool should use now: as many as it may on a quiet machine, fewer where others want its cores.
//
// Contention is how long threads that could run had to wait for a core, which the kernel counts for each of them
// (schedstat). A preempted thread holds up all others at the next barrier, and costs more than it gives: so for every
// core that is missing a thread less. A thread more is for an idle core only, and after a random pause: two programs
// that see the same idle core would else both take it, both let go of it, and so on.
#pragma once
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace cutaway {

using Clock = std::chrono::steady_clock;
inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// How long the thread that made it has waited for a core. Other threads may read it.
class RunDelay {
  public:
    RunDelay() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
    ~RunDelay() {
        if (file_ >= 0) close(file_);
    }
    RunDelay(const RunDelay&) = delete;
    RunDelay& operator=(const RunDelay&) = delete;

    bool known() const { return file_ >= 0; }
    double seconds() const {
        char text[64] = {};
        unsigned long long ran = 0, waited = 0;
        if (file_ < 0 || pread(file_, text, sizeof text - 1, 0) <= 0) return 0.0;
        return std::sscanf(text, "%llu %llu", &ran, &waited) == 2 ? (double)waited * 1e-9 : 0.0;
    }

  private:
    int file_;
};

// How many of the cores that this process may use were idle since the previous call. Below 0: not known.
class IdleCores {
  public:
    IdleCores() : file_(open("/proc/stat", O_RDONLY | O_CLOEXEC)) {
        CPU_ZERO(&mine_);
        if (sched_getaffinity(0, sizeof mine_, &mine_)) CPU_ZERO(&mine_);
        restart();
    }
    ~IdleCores() {
        if (file_ >= 0) close(file_);
    }
    IdleCores(const IdleCores&) = delete;
    IdleCores& operator=(const IdleCores&) = delete;

    void restart() { before_ = idle(), since_ = Clock::now(); }
    double take() {
        const double was = before_, passed = seconds(Clock::now() - since_);
        restart();
        return was < 0 || before_ < 0 || passed <= 0 ? -1.0 : (before_ - was) / passed;
    }

  private:
    // Seconds that our cores were idle, or waited for a disk, since the start.
    double idle() {
        if (file_ < 0) return -1.0;
        text_.resize(1 << 16);
        const ssize_t n = pread(file_, text_.data(), text_.size() - 1, 0);
        if (n <= 0) return -1.0;
        text_[(size_t)n] = 0;
        double ticks = 0;
        bool found = false;
        for (const char* line = text_.data(); (line = std::strstr(line, "\ncpu"));) {
            unsigned cpu;
            unsigned long long idle, wait;
            line++;
            if (std::sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &wait) != 3) break;
            if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &mine_)) ticks += (double)(idle + wait), found = true;
        }
        return found ? ticks / (double)sysconf(_SC_CLK_TCK) : -1.0;
    }

    int file_;
    cpu_set_t mine_;
    std::vector<char> text_;
    double before_ = -1.0;
    Clock::time_point since_;
};

class Pressure {
  public:
    explicit Pressure(int most) : most_(most), target_(most) {}

    int target() const { return target_; }

    // Often called; looks at most every few milliseconds. active: threads that work now. waited(): seconds that all
    // threads together waited for a core so far.
    template <class Waited> void look(int active, Waited&& waited) {
        const Clock::time_point now = Clock::now();
        const double passed = seconds(now - looked_);
        if (passed < kLook + most_ * kLookEach) return;
        const double total = waited(), missed = total - waited_;
        looked_ = now, waited_ = total;
        if (passed > kStale) {  // nothing ran meanwhile
            missing_ = 0.0;
            if (target_ < most_) idle_.restart(), grow_ = now + pause();
            return;
        }
        missing_ += (missed / passed - missing_) * (1.0 - std::exp(-passed / kMemory));
        if (missing_ > kContended && active > 1)
            shrink(now, active);
        else if (target_ < most_ && now >= grow_)
            consider_growing(now);
    }
    // A thread came too late to a barrier: where the kernel does not say how long threads wait, this has to do.
    void late() { late_ += kLate; }
    double late_seconds() const { return late_; }

  private:
    // Seconds from a look to the next, and more for each thread.
    static constexpr double kLook = 0.004, kLookEach = 0.0002;
    static constexpr double kStale = 0.25;                  // a longer gap says nothing
    static constexpr double kMemory = 0.04;                 // of the mean that contention is
    static constexpr double kContended = 0.15;              // cores missing: from then on a thread leaves
    static constexpr double kIdle = 0.85;                   // a core that did nothing
    static constexpr double kLate = 0.003;                  // a time slice
    static constexpr double kPause = 0.06, kLongest = 1.0;  // before growing; the random part is as long again

    void shrink(Clock::time_point now, int active) {
        target_ = std::max(1, std::min(target_, active) - std::max(1, (int)std::lround(missing_)));
        missing_ = 0.0;
        pause_ = now - grew_ < std::chrono::milliseconds(500) ? std::min(2 * pause_, kLongest) : kPause;
        idle_.restart(), grow_ = now + pause();
    }
    void consider_growing(Clock::time_point now) {
        const double idle = idle_.take();
        grow_ = now + pause();
        if (idle < kIdle && idle >= 0) return;
        if (idle < 0 && chance_() % 16) return;  // unknown: try it now and then
        target_ = std::min(most_, target_ + std::max(1, (int)(idle + 1.0 - kIdle)));
        grew_ = now;
    }
    Clock::duration pause() {
        const double random = (double)(chance_() % 1024) / 1024;
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause_ * (1.0 + random)));
    }

    const int most_;
    int target_;
    double missing_ = 0.0, waited_ = 0.0, late_ = 0.0, pause_ = kPause;
    Clock::time_point looked_ = Clock::now(), grow_{}, grew_{};
    IdleCores idle_;
    std::minstd_rand chance_{std::random_device{}()};
};

}  // namespace cutaway
