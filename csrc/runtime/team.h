// The threads that a model may use. All models of a process share one pool: two would each spin on the cores that the
// other needs.
#pragma once
#include "pool.h"

namespace cutaway {

class Team {
  public:
    // adapts: fewer threads where other programs want the cores.
    explicit Team(int threads, bool adapts = true)
        : threads_(threads < 1 ? 1 : threads), adapts_(adapts), pool_(shared(threads_)) {}
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int threads() const { return threads_; }

    // job(worker) on every thread that takes part, the calling one included; returns when all have left it.
    template <class F> void run(F&& job) { pool_->run(threads_, adapts_, job); }

    void reserve(const Room& room) { pool_->reserve(room); }

    Arena weights{kWeights};  // what its jobs read most

  private:
    static std::shared_ptr<ThreadPool> shared(int threads) {
        static std::mutex lock;
        static std::weak_ptr<ThreadPool> common;
        const std::lock_guard guard(lock);
        std::shared_ptr<ThreadPool> pool = common.lock();
        if (pool)
            pool->grow(threads);
        else
            common = pool = std::make_shared<ThreadPool>(threads);
        return pool;
    }

    const int threads_;
    const bool adapts_;
    std::shared_ptr<ThreadPool> pool_;
};

}  // namespace cutaway
