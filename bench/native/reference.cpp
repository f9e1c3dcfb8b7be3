// The reference that the tables compare with: what a careful engineer would write in C++
// for the same job and nothing more. An atomic bump, a mutex, a hash map from address to
// record, and the five driver calls, made through function pointers as a loaded driver's are.
// It has no handles, no routing, no close, no counters and no error texts.
#include "reference.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

struct Record {
  uint64_t size;
  uint64_t handle;
};

class Arena {
 public:
  Arena(const ReferenceDriver& driver, uint64_t base, uint64_t total, uint64_t granule)
      : driver_(driver), base_(base), total_(total), granule_(granule) {}

  void* Malloc(int64_t size) {
    if (size <= 0) return nullptr;
    const uint64_t rounded = (static_cast<uint64_t>(size) + granule_ - 1) & ~(granule_ - 1);
    uint64_t offset = used_.load(std::memory_order_relaxed);
    do {
      if (rounded > total_ - offset) return nullptr;
    } while (!used_.compare_exchange_weak(offset, offset + rounded, std::memory_order_relaxed));
    const uint64_t va = base_ + offset;

    uint64_t handle = 0;
    if (driver_.create(&handle, rounded) != 0) return nullptr;
    if (driver_.map(va, rounded, handle) != 0) {
      driver_.release(handle);
      return nullptr;
    }
    if (driver_.grant(va, rounded) != 0) {
      driver_.unmap(va, rounded);
      driver_.release(handle);
      return nullptr;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      records_.emplace(va, Record{rounded, handle});
    }
    return reinterpret_cast<void*>(va);
  }

  void Free(void* ptr) {
    const uint64_t va = reinterpret_cast<uint64_t>(ptr);
    Record record;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto it = records_.find(va);
      if (it == records_.end()) return;
      record = it->second;
      records_.erase(it);
    }
    driver_.unmap(va, record.size);
    driver_.release(record.handle);
  }

 private:
  const ReferenceDriver driver_;
  const uint64_t base_;
  const uint64_t total_;
  const uint64_t granule_;
  // Each on a cache line of its own, so that the threads take only what they need from each other.
  alignas(64) std::atomic<uint64_t> used_{0};
  alignas(64) std::mutex mutex_;
  std::unordered_map<uint64_t, Record> records_;
};

Arena* arena;

}  // namespace

extern "C" void reference_open(const ReferenceDriver* driver, uint64_t base, uint64_t total, uint64_t granule) {
  delete arena;
  arena = new Arena(*driver, base, total, granule);
}

extern "C" void* reference_malloc(ssize_t size, int, void*) { return arena->Malloc(size); }

extern "C" void reference_free(void* ptr, ssize_t, int, void*) { arena->Free(ptr); }
