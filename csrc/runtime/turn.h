// A fair lock, granted in the order of requests: two models take their steps by turns.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cutaway {

class Turn {
  public:
    class Held {
      public:
        explicit Held(Turn& turn) : turn_(turn) {
            std::unique_lock guard(turn_.lock_);
            const uint64_t mine = turn_.last_++;
            turn_.next_.wait(guard, [&] { return turn_.now_ == mine; });
        }
        ~Held() {
            {
                const std::lock_guard guard(turn_.lock_);
                turn_.now_++;
            }
            turn_.next_.notify_all();
        }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

      private:
        Turn& turn_;
    };

  private:
    std::mutex lock_;
    std::condition_variable next_;
    uint64_t last_ = 0, now_ = 0;
};

}  // namespace cutaway
