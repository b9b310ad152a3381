// Large memory: zeroed by the system on first touch, in huge pages wherever much of it is read in turn.
#pragma once
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace cutaway {

// What memory is for. The bytes that each holds at the moment are what a plan foretells (ops/native/outline.py).
enum Owner { kWeights, kPages, kBuffers, kActivations, kWorkers, kOwners };
inline std::atomic<size_t> held_bytes[kOwners];

class Memory {
  public:
    static constexpr size_t kHuge = size_t{2} << 20;
    static constexpr size_t whole(size_t bytes) { return (bytes + kHuge - 1) / kHuge * kHuge; }

    explicit Memory(Owner owner) : owner_(owner) {}
    // kOwners: no owner's, the caller counts it.
    Memory(size_t bytes, Owner owner) : size_(bytes), owner_(owner) {
        if (!bytes) return;
        const bool want_huge = bytes >= kHuge;
        mapped_ = want_huge ? (bytes + kHuge - 1) / kHuge * kHuge + kHuge : bytes;
        base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED) {
            base_ = nullptr;
            throw std::bad_alloc();
        }
        if (owner_ != kOwners) held_bytes[owner_] += size_;
        data_ = static_cast<uint8_t*>(base_);
        if (want_huge) {
            data_ = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(base_) + kHuge - 1) / kHuge * kHuge);
            madvise(data_, mapped_ - static_cast<size_t>(data_ - static_cast<uint8_t*>(base_)), MADV_HUGEPAGE);
        }
    }
    ~Memory() {
        if (!base_) return;
        munmap(base_, mapped_);
        if (owner_ != kOwners) held_bytes[owner_] -= size_;
    }
    Memory(Memory&& o) noexcept : owner_(o.owner_) { *this = std::move(o); }
    Memory& operator=(Memory&& o) noexcept {
        std::swap(base_, o.base_), std::swap(data_, o.data_), std::swap(size_, o.size_), std::swap(mapped_, o.mapped_);
        std::swap(owner_, o.owner_);
        return *this;
    }

    // At least so many bytes, in whole huge pages; what was there is lost if they are not there yet.
    uint8_t* grow(size_t bytes) {
        if (bytes > size_) *this = Memory(whole(bytes), owner_);
        return data_;
    }

    uint8_t* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    void* base_ = nullptr;
    uint8_t* data_ = nullptr;
    size_t size_ = 0, mapped_ = 0;
    Owner owner_;
};

// Pieces of large chunks, 64 bytes aligned. A small matrix gets huge pages only together with others (a page walk of a
// virtual machine costs more than the lines it leads to), and a large one leaves no part of a huge page unused.
class Arena {
    struct Chunk {
        Memory memory;
        Owner owner;
        size_t used = 0;
        Chunk(size_t bytes, Owner owner) : memory(bytes, kOwners), owner(owner) {}
        ~Chunk() { held_bytes[owner] -= used; }
    };

  public:
    explicit Arena(Owner owner) : owner_(owner) {}

    class Piece {
      public:
        Piece() = default;
        Piece(std::shared_ptr<Chunk> chunk, uint8_t* data, size_t size)
            : chunk_(std::move(chunk)), data_(data), size_(size) {}
        uint8_t* data() const { return data_; }
        float* floats() const { return reinterpret_cast<float*>(data_); }
        size_t size() const { return size_; }

      private:
        std::shared_ptr<Chunk> chunk_;  // goes with its last piece
        uint8_t* data_ = nullptr;
        size_t size_ = 0;
    };

    static constexpr size_t lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

    Piece take(size_t bytes) {
        const std::lock_guard guard(lock_);
        bytes = lines(bytes);
        if (!chunk_ || chunk_->used + bytes > chunk_->memory.size())
            chunk_ = std::make_shared<Chunk>(bytes > kChunk ? bytes : kChunk, owner_);
        chunk_->used += bytes, taken_ += bytes, held_bytes[owner_] += bytes;
        return {chunk_, chunk_->memory.data() + chunk_->used - bytes, bytes};
    }

    size_t taken() const { return taken_; }

  private:
    static constexpr size_t kChunk = size_t{64} << 20;  // of address space: untouched pages take no memory
    std::mutex lock_;
    std::shared_ptr<Chunk> chunk_;
    const Owner owner_;
    size_t taken_ = 0;
};

}  // namespace cutaway
