// Large memory: zeroed by the system on first touch, huge pages asked for.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace cutaway {

class Memory {
  public:
    Memory() = default;
    explicit Memory(size_t bytes, bool want_huge = true) : size_(bytes) {
        if (!bytes) return;
        constexpr size_t huge = size_t{2} << 20;
        want_huge = want_huge && bytes >= huge;
        mapped_ = want_huge ? (bytes + huge - 1) / huge * huge + huge : bytes;
        base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED) {
            base_ = nullptr;
            throw std::bad_alloc();
        }
        data_ = static_cast<uint8_t*>(base_);
        if (want_huge) {
            data_ = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(base_) + huge - 1) / huge * huge);
            madvise(data_, mapped_ - static_cast<size_t>(data_ - static_cast<uint8_t*>(base_)), MADV_HUGEPAGE);
        }
    }
    ~Memory() {
        if (base_) munmap(base_, mapped_);
    }
    Memory(Memory&& o) noexcept { *this = std::move(o); }
    Memory& operator=(Memory&& o) noexcept {
        std::swap(base_, o.base_), std::swap(data_, o.data_), std::swap(size_, o.size_), std::swap(mapped_, o.mapped_);
        return *this;
    }

    uint8_t* data() const { return data_; }
    float* floats() const { return reinterpret_cast<float*>(data_); }
    size_t size() const { return size_; }

  private:
    void* base_ = nullptr;
    uint8_t* data_ = nullptr;
    size_t size_ = 0, mapped_ = 0;
};

}  // namespace cutaway
