// HandleTable: C handles that survive misuse. A handle is a slot number and the slot's generation, not
// an address, so a destroyed, foreign or null handle is recognised without touching freed memory.
// find() takes no lock; add() and remove() do. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace lamppost {

template <class Object, std::size_t kSlots = 4096>
class HandleTable {
 public:
  /// A non-zero handle for `object`; 0 if all slots are taken.
  std::uintptr_t add(Object* object) {
    std::lock_guard lock(mutex_);
    for (std::size_t step = 0; step < kSlots; ++step) {
      const std::size_t index = (next_ + step) % kSlots;
      Slot& slot = slots_[index];
      if (slot.object.load(std::memory_order_relaxed) != nullptr) continue;
      next_ = index + 1;
      const std::uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
      slot.generation.store(generation, std::memory_order_relaxed);
      slot.object.store(object, std::memory_order_release);
      return static_cast<std::uintptr_t>(generation) * kSlots + index;
    }
    return 0;
  }

  /// The live object of a handle, or null.
  Object* find(std::uintptr_t handle) const {
    const Slot& slot = slots_[handle % kSlots];
    Object* object = slot.object.load(std::memory_order_acquire);
    const std::uint32_t generation = slot.generation.load(std::memory_order_relaxed);
    return generation != 0 && handle / kSlots == generation ? object : nullptr;
  }

  /// Forgets a handle and returns its object; null if it was not live. Only one caller gets it.
  Object* remove(std::uintptr_t handle) {
    std::lock_guard lock(mutex_);
    Object* object = find(handle);
    if (object != nullptr) slots_[handle % kSlots].object.store(nullptr, std::memory_order_release);
    return object;
  }

 private:
  struct Slot {
    std::atomic<Object*> object{nullptr};
    std::atomic<std::uint32_t> generation{0};
  };
  std::array<Slot, kSlots> slots_{};
  std::mutex mutex_;
  std::size_t next_ = 0;
};

}  // namespace lamppost
