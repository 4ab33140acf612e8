// The host target: a GPU thread as a fiber of one OS thread. A product backend (Lamppost without a
// GPU, CI, debugging), and, with another Memory policy, the fault targets of the test suite.
//
// All blocks of a launch run on one OS thread, so fibers of a launch never run at the same time;
// ranks do. src/fibers implements the functions declared here; it is compiled without
// ThreadSanitizer and tells it what a barrier, a lane exchange and a launch order, so that TSan
// checks the kernels' own use of memory orders.
#pragma once

#include "lamppost/device/layout.hpp"
#include "lamppost/device/pack.hpp"
#include "lamppost/lamppost.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

namespace lamppost::device {

class HostLaunch;  // one running launch; src/fibers

/// What a fiber knows of itself.
struct HostThread {
  std::uint32_t thread_rank;
  std::uint32_t block_rank;
  std::uint32_t block_threads;
  std::uint32_t grid_blocks;
  std::uint32_t lane_rank;
  std::uint32_t launch_number;
  std::byte* shared;  // the block's shared memory
  HostLaunch* launch;
};

/// A kernel as the host driver launches it.
struct HostKernel {
  const char* symbol;
  void (*run)(HostThread& thread, const void* args);
  /// Called by the stream's OS thread before the first fiber starts; null: nothing to do.
  void (*before_launch)(HostLaunch& launch, const void* args);
  std::uint32_t lanes;
  std::uint32_t args_bytes;
  std::uint32_t shared_bytes;
};

// Implemented in src/fibers. `thread` is always the calling fiber's own.
LAMPPOST_API void host_block_sync(HostThread& thread);
/// host_block_sync, and whether any thread of the block gave true.
LAMPPOST_API bool host_block_any(HostThread& thread, bool flag);
/// A poll has failed: other fibers run; when all have failed, the OS thread yields, later sleeps.
LAMPPOST_API void host_pause(HostThread& thread);
/// Another fiber may run now (a fault target between two parts of a store).
LAMPPOST_API void host_preempt(HostThread& thread);
/// Every lane of the warp gives a value; returns the values of all, by lane. Valid until the next
/// exchange. Stops the process when lanes of a warp are at different places.
LAMPPOST_API const std::uint64_t* host_lane_exchange(HostThread& thread, std::uint64_t value);
/// Uniform 64 bits from the launch's generator (seeded by LAMPPOST_HOST_SEED or at random).
LAMPPOST_API std::uint64_t host_random(HostThread& thread);
/// Sleeps the OS thread before a launch for up to `most_us` microseconds, at random.
LAMPPOST_API void host_delay_launch(HostLaunch& launch, std::uint32_t most_us);
/// The rank's store buffer (Delayed target): holds `bytes` (4 or 8) for `address`.
LAMPPOST_API void host_buffer_store(HostThread& thread, void* address, std::uint64_t value,
                                    std::uint32_t bytes);
/// Writes out what is held for [address, address + bytes), in order; null: everything.
LAMPPOST_API void host_drain_stores(HostThread& thread, const void* address, std::uint32_t bytes);
/// Writes out one random held store, if there is one.
LAMPPOST_API void host_drain_one_store(HostThread& thread);

/// Memory policy of the plain host target. 16-byte accesses are two 8-byte ones.
struct DirectMemory {
  static constexpr int kWholeBytes = 8;
  static constexpr std::uint32_t kLaunchDelayUs = 0;

  template <class V>
  static void store(HostThread&, V* pointer, V value) {
    __atomic_store_n(pointer, value, __ATOMIC_RELAXED);
  }
  template <class V>
  static V load(HostThread&, const V* pointer) {
    return __atomic_load_n(pointer, __ATOMIC_RELAXED);
  }
  static void store_pack(HostThread&, Pack* pointer, const Pack& value) {
    const auto halves = std::bit_cast<Halves>(value);
    auto* target = reinterpret_cast<std::uint64_t*>(pointer);
    __atomic_store_n(target, halves.half[0], __ATOMIC_RELAXED);
    __atomic_store_n(target + 1, halves.half[1], __ATOMIC_RELAXED);
  }
  static Pack load_pack(HostThread&, const Pack* pointer) {
    const auto* source = reinterpret_cast<const std::uint64_t*>(pointer);
    return std::bit_cast<Pack>(Halves{{__atomic_load_n(source, __ATOMIC_RELAXED),
                                       __atomic_load_n(source + 1, __ATOMIC_RELAXED)}});
  }
  static void release(HostThread&) {}
  static void idle(HostThread&) {}

 protected:
  struct alignas(16) Halves {
    std::uint64_t half[2];
  };
};

/// Test only: a 16-byte store lands as four words in random order, other fibers in between; loads
/// are torn the same way.
struct TornMemory : DirectMemory {
  static constexpr int kWholeBytes = 4;

  static void store_pack(HostThread& thread, Pack* pointer, const Pack& value) {
    const std::uint64_t random = host_random(thread);
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t i = (k + random) & 3u;
      __atomic_store_n(&pointer->word[i], value.word[i], __ATOMIC_RELAXED);
      maybe_preempt(thread, random >> (8 + 8 * k));
    }
  }
  static Pack load_pack(HostThread& thread, const Pack* pointer) {
    const std::uint64_t random = host_random(thread);
    Pack pack;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const std::uint32_t i = (k + random) & 3u;
      pack.word[i] = __atomic_load_n(&pointer->word[i], __ATOMIC_RELAXED);
      maybe_preempt(thread, random >> (8 + 8 * k));
    }
    return pack;
  }

 private:
  static void maybe_preempt(HostThread& thread, std::uint64_t random) {
    if ((random & 7u) == 0) host_preempt(thread);
  }
};

/// Test only: every system-scope store waits in the rank's store buffer and lands at a random later
/// moment, words of a pack apart; a release and the end of the launch empty the buffer.
struct DelayedMemory : DirectMemory {
  static constexpr int kWholeBytes = 4;

  template <class V>
  static void store(HostThread& thread, V* pointer, V value) {
    host_buffer_store(thread, pointer, value, sizeof(V));
  }
  template <class V>
  static V load(HostThread& thread, const V* pointer) {
    host_drain_stores(thread, pointer, sizeof(V));
    return __atomic_load_n(pointer, __ATOMIC_RELAXED);
  }
  static void store_pack(HostThread& thread, Pack* pointer, const Pack& value) {
    for (int i = 0; i < 4; ++i) store(thread, &pointer->word[i], value.word[i]);
  }
  static Pack load_pack(HostThread& thread, const Pack* pointer) {
    host_drain_stores(thread, pointer, sizeof(Pack));
    return DirectMemory::load_pack(thread, pointer);
  }
  static void release(HostThread& thread) { host_drain_stores(thread, nullptr, 0); }
  static void idle(HostThread& thread) { host_drain_one_store(thread); }
};

/// Test only: launches start late by random times, so that ranks are whole calls apart.
struct SkewedMemory : DirectMemory {
  static constexpr std::uint32_t kLaunchDelayUs = 3000;
};

template <int kLaneCount, class Memory = DirectMemory>
class HostTarget {
 public:
  static constexpr int kLanes = kLaneCount;
  static constexpr int kWholeBytes = Memory::kWholeBytes;
  static constexpr std::uint32_t kLaunchDelayUs = Memory::kLaunchDelayUs;

  explicit HostTarget(HostThread& thread) : thread_(thread) {}

  std::uint32_t thread_rank() const { return thread_.thread_rank; }
  std::uint32_t block_threads() const { return thread_.block_threads; }
  std::uint32_t block_rank() const { return thread_.block_rank; }
  std::uint32_t grid_blocks() const { return thread_.grid_blocks; }
  std::uint32_t lane_rank() const { return thread_.lane_rank; }
  std::uint32_t launch_number() const { return thread_.launch_number; }

  void block_sync() { host_block_sync(thread_); }
  bool block_any(bool flag) { return host_block_any(thread_, flag); }
  std::uint32_t lane_xor(std::uint32_t word, std::uint32_t mask) {
    return static_cast<std::uint32_t>(host_lane_exchange(thread_, word)[thread_.lane_rank ^ mask]);
  }

  template <class V>
  V& shared() {
    return *reinterpret_cast<V*>(thread_.shared);
  }

  template <class V>
  V load(const V* pointer) {
    return *pointer;
  }
  template <class V>
  void store(V* pointer, V value) {
    *pointer = value;
  }
  Pack load_pack(const Pack* pointer) { return *pointer; }
  void store_pack(Pack* pointer, const Pack& value) { *pointer = value; }

  template <class V>
  V load_relaxed_system(const V* pointer) {
    return Memory::load(thread_, pointer);
  }
  template <class V>
  void store_relaxed_system(V* pointer, V value) {
    Memory::store(thread_, pointer, value);
  }
  Pack load_pack_relaxed_system(const Pack* pointer) { return Memory::load_pack(thread_, pointer); }
  void store_pack_relaxed_system(Pack* pointer, const Pack& value) {
    Memory::store_pack(thread_, pointer, value);
  }
  std::uint32_t load_acquire_system(const std::uint32_t* pointer) {
    return __atomic_load_n(pointer, __ATOMIC_ACQUIRE);
  }
  void store_release_system(std::uint32_t* pointer, std::uint32_t value) {
    Memory::release(thread_);
    __atomic_store_n(pointer, value, __ATOMIC_RELEASE);
  }

  std::uint64_t add_relaxed_device(std::uint64_t* pointer, std::uint64_t value) {
    return __atomic_fetch_add(pointer, value, __ATOMIC_RELAXED);
  }
  std::uint64_t add_acq_rel_device(std::uint64_t* pointer, std::uint64_t value) {
    Memory::release(thread_);
    return __atomic_fetch_add(pointer, value, __ATOMIC_ACQ_REL);
  }
  std::uint32_t compare_exchange_relaxed_device(std::uint32_t* pointer, std::uint32_t expected,
                                                std::uint32_t desired) {
    __atomic_compare_exchange_n(pointer, &expected, desired, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
  }
  std::uint32_t or_relaxed_device(std::uint32_t* pointer, std::uint32_t bits) {
    return __atomic_fetch_or(pointer, bits, __ATOMIC_RELAXED);
  }

  float fma(float a, float b, float c) { return std::fma(a, b, c); }
  template <class Element>
  static std::uint32_t round_pair(float low, float high) {
    return round_pair_by_bits<Element>(low, high);
  }
  template <class Element>
  static FloatPair float_pair(std::uint32_t word) {
    return float_pair_by_bits<Element>(word);
  }
  template <class Element>
  static std::uint32_t add_pair(std::uint32_t a, std::uint32_t b) {
    return add_pair_by_bits<Element>(a, b);
  }
  float rsqrt_approximate(float x) { return 1.0f / std::sqrt(x); }

  std::uint64_t ticks() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  std::uint64_t ticks_per_second() { return std::chrono::steady_clock::period::den; }
  void pause() {
    Memory::idle(thread_);
    host_pause(thread_);
  }

 private:
  HostThread& thread_;
};

static_assert(std::chrono::steady_clock::period::num == 1);
static_assert(Target<HostTarget<32>> && Target<HostTarget<64>>);
static_assert(Target<HostTarget<32, TornMemory>> && Target<HostTarget<32, DelayedMemory>> &&
              Target<HostTarget<64, SkewedMemory>>);

}  // namespace lamppost::device
