// StoreBuffer: stores of one rank that peers cannot see yet (the Delayed fault target). Entries for
// one address leave in order; otherwise any order. One OS thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace lamppost::fibers {

class StoreBuffer {
 public:
  bool is_empty() const { return stores_.empty(); }
  std::size_t size() const { return stores_.size(); }

  void hold(void* address, std::uint64_t value, std::uint32_t bytes) {
    held_ |= filter_bit(address);
    stores_.push_back({static_cast<char*>(address), value, bytes});
  }

  /// Writes out what overlaps [address, address + bytes), oldest first; null: everything.
  void drain(const void* address, std::uint32_t bytes) {
    const char* begin = static_cast<const char*>(address);
    if (address != nullptr && (held_ & filter_bit(address)) == 0) return;
    held_ = 0;
    std::size_t kept = 0;
    for (const Store& store : stores_) {
      const bool leaves = address == nullptr ||
                          (store.address < begin + bytes && begin < store.address + store.bytes);
      if (leaves) {
        write(store);
      } else {
        held_ |= filter_bit(store.address);
        stores_[kept++] = store;
      }
    }
    stores_.resize(kept);
  }

  /// Writes out the oldest store to the address of a random one.
  void drain_one(std::uint64_t random) {
    if (stores_.empty()) return;
    const char* address = stores_[random % stores_.size()].address;
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      if (stores_[i].address != address) continue;
      write(stores_[i]);
      stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
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

  std::vector<Store> stores_;
  std::uint64_t held_ = 0;  // filter bits of what may be in stores_
};

}  // namespace lamppost::fibers
