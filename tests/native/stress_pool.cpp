// Jobs of many phases on a pool of threads that come, stall, leave and return: every value must be what one thread
// computes. Usage: stress_pool THREADS SECONDS SEED. Prints how often helpers came and went.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../csrc/runtime/pool.h"

using namespace cutaway;

namespace {

uint64_t mix(uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdULL, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

struct Plan {  // of one job: ops of one to three phases over so many items
    struct Phase {
        int64_t items, chunk;
        bool last;  // of its op
    };
    std::vector<Phase> phases;
    size_t width = 1;
    uint64_t seed;

    explicit Plan(std::mt19937_64& random) : seed(random()) {
        for (int ops = 1 + (int)(random() % 20); ops > 0; ops--)
            for (int n = 1 + (int)(random() % 3); n > 0; n--) {
                const int64_t items = (int64_t)(random() % 3 ? random() % 200 : random() % 4);
                phases.push_back({items, 1 + (int64_t)(random() % 5), n == 1});
                width = std::max(width, (size_t)items);
            }
    }
    // What an item of a phase gives: it reads what all items of the phase before wrote.
    uint64_t value(size_t phase, int64_t item, const std::vector<uint64_t>& before) const {
        uint64_t x = mix(seed + phase * 1000003 + (uint64_t)item);
        for (size_t i = (size_t)item; i < before.size(); i += 7) x = mix(x ^ before[i]);
        return x;
    }
    std::vector<uint64_t> alone() const {
        std::vector<uint64_t> now(width), before(width);
        for (size_t p = 0; p < phases.size(); p++) {
            for (int64_t i = 0; i < phases[p].items; i++) now[(size_t)i] = value(p, i, before);
            std::swap(now, before);
        }
        return before;
    }
};

void stall(uint64_t chance) {
    if (chance % 512 == 0) std::this_thread::sleep_for(std::chrono::microseconds(chance / 512 % 3000));
    else if (chance % 64 == 0) std::this_thread::yield();
}

std::vector<uint64_t> together(ThreadPool& pool, const Plan& plan, int most, bool adapts, bool stalls) {
    std::vector<uint64_t> rows[2] = {std::vector<uint64_t>(plan.width), std::vector<uint64_t>(plan.width)};
    pool.run(most, adapts, [&](Worker& worker) {
        size_t op = 0;
        for (size_t p = 0; p < plan.phases.size();) {
            const bool here = op >= worker.from;
            if (here) worker.boundary(op);
            for (bool more = true; more; p++) {
                more = !plan.phases[p].last;
                if (!here) continue;
                const auto& before = rows[(p + 1) % 2];
                auto& now = rows[p % 2];
                worker.parallel(plan.phases[p].items, plan.phases[p].chunk, [&](int64_t i) {
                    if (stalls) stall(mix(plan.seed ^ (p * 77777 + (uint64_t)i)));
                    now[(size_t)i] = plan.value(p, i, before);
                });
            }
            op++;
        }
    });
    return rows[(plan.phases.size() + 1) % 2];
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) return 2;
    const int threads = std::atoi(arguments[1]);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(arguments[2]));
    std::mt19937_64 random((uint64_t)std::atoll(arguments[3]));
    ThreadPool pool(threads);
    std::atomic<bool> wrong{false};
    const auto caller = [&](uint64_t seed) {
        std::mt19937_64 own(seed);
        while (std::chrono::steady_clock::now() < end && !wrong) {
            const Plan plan(own);
            const int most = own() % 2 ? threads : 1 + (int)(own() % (uint64_t)threads);
            if (together(pool, plan, most, own() % 2, own() % 4 == 0) != plan.alone()) wrong = true;
        }
    };
    std::thread other(caller, random());  // two models on one pool
    caller(random());
    other.join();
    const auto& c = pool.changes();
    const auto whole = [](uint64_t n) { return (unsigned long long)n; };
    std::printf("%llu called, %llu joined, %llu late, %llu sent\n", whole(c.called), whole(c.joined), whole(c.late),
                whole(c.sent));
    if (wrong) std::puts("WRONG");
    return wrong;
}
