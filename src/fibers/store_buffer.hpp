// StoreBuffer: stores of one rank that peers cannot see yet (the Delayed fault target). Entries for
// one address leave in order; otherwise any order. One OS thread. No allocation: ThreadSanitizer
// watches the allocator, and fibers would seem to race for its memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lamppost::fibers {

class StoreBuffer {
 public:
  static constexpr std::size_t kCapacity = 48;

  bool is_full() const { return count_ == kCapacity; }

  /// Requires !is_full().
  void hold(void* address, std::uint64_t value, std::uint32_t bytes) {
    held_ |= filter_bit(address);
    stores_[count_] = {static_cast<char*>(address), value, bytes};
    ++count_;
  }

  /// Writes out what overlaps [address, address + bytes), oldest first; null: everything.
  void drain(const void* address, std::uint32_t bytes) {
    const char* begin = static_cast<const char*>(address);
    if (address != nullptr && (held_ & filter_bit(address)) == 0) return;
    held_ = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const Store store = stores_[i];
      const bool leaves = address == nullptr ||
                          (store.address < begin + bytes && begin < store.address + store.bytes);
      if (leaves) {
        write(store);
      } else {
        held_ |= filter_bit(store.address);
        stores_[kept] = store;
        ++kept;
      }
    }
    count_ = kept;
  }

  /// Writes out the oldest store to the address of a random one, if any is held.
  void drain_one(std::uint64_t random) {
    if (count_ == 0) return;
    const char* address = stores_[random % count_].address;
    std::size_t oldest = 0;
    while (stores_[oldest].address != address) ++oldest;
    write(stores_[oldest]);
    --count_;
    for (std::size_t i = oldest; i < count_; ++i) stores_[i] = stores_[i + 1];
  }

 private:
  struct Store {
    char* address;
    std::uint64_t value;
    std::uint32_t bytes;
  };

  /// A bit for the 16-byte line of an address; no access crosses one.
  static std::uint64_t filter_bit(const void* address) {
    return std::uint64_t{1} << (reinterpret_cast<std::uintptr_t>(address) / 16 % 64);
  }

  static void write(const Store& store) {
    if (store.bytes == 8) {
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(store.address), store.value,
                       __ATOMIC_RELAXED);
    } else {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(store.address),
                       static_cast<std::uint32_t>(store.value), __ATOMIC_RELAXED);
    }
  }

  std::array<Store, kCapacity + 1> stores_{};  // one more: drain_one reads past the last
  std::size_t count_ = 0;
  std::uint64_t held_ = 0;  // filter bits of what may be in stores_
};

}  // namespace lamppost::fibers
