// The specification of a target: every operation that a device kernel may use, and what it promises.
//
// A kernel is written once, as `template <Target T, ...> void kernel(T& t, const Args& args)`, and
// compiled for each target. `t` is one GPU thread: an empty object on GPUs, a fiber on the host.
// Memory is reached only through `t`, so a helper without `t` cannot touch any.
//
// Targets here: host.hpp, cuda.hpp. Operations that others can express live in generic.hpp.
// To add an operation: document it here, implement it in every target, add a typed test in
// tests/device, and (for GPUs) a generated-code check.
//
// Names carry order and scope. "system" is every thread of every device and of the host; "device"
// is every thread of this device. "relaxed" orders nothing but the word itself; an operation
// without an order in its name is a plain access: racing with it is undefined.
//
//   Identity                          all uniform over the call, no memory effect
//     T::kLanes                       threads that run lane operations together: 32 or 64
//     T::kWholeBytes                  largest aligned store that no reader sees in parts: 4, 8 or 16
//     thread_rank()   block_threads() this thread within its block, 0 .. block_threads() - 1
//     block_rank()    grid_blocks()   this block within the launch
//     launch_number()                 differs between launches of this device that may run at once
//     lane_rank()                     thread_rank() % kLanes; blocks are whole multiples of kLanes
//
//   Meeting points                    every thread of the group must come, or the launch is undefined
//                                     (the host target stops with a message)
//     block_sync()                    all threads of the block; orders all their memory accesses for
//                                     each other, at block scope
//     block_any(flag)                 block_sync(), and whether any thread's flag was true
//     lane_xor(word, mask)            the word of lane (lane_rank() ^ mask), mask < kLanes; all lanes
//
//   Block memory
//     shared<V>()                     the block's one V (trivial type, not initialised); the same V
//                                     in every call; a launch reserves sizeof(V)
//
//   Plain memory                      aligned to its size; this thread's or ordered by a meeting
//                                     point or a launch boundary
//     load(pointer) store(pointer, v) uint16_t, uint32_t
//     load_pack(p)  store_pack(p, v)  16 bytes, one access
//
//   System scope                      pointers into this rank's or a peer's library memory; each
//                                     32-bit word (64-bit for uint64_t) is whole, the rest may be
//                                     torn; never hoisted out of a loop, never merged
//     load_relaxed_system(p)          uint32_t, uint64_t
//     store_relaxed_system(p, v)      uint32_t, uint64_t
//     load_pack_relaxed_system(p)     16 bytes; words of one load may be of different ages
//     store_pack_relaxed_system(p, v) 16 bytes; words may arrive in any order
//     load_acquire_system(p)          uint32_t; later accesses of this thread are not seen before it
//     store_release_system(p, v)      uint32_t; earlier accesses of this thread, and those that a
//                                     block_sync() ordered before it, are seen before it
//
//   Device scope atomics              return the old value
//     add_relaxed_device(p, v)        uint64_t
//     add_acq_rel_device(p, v)        uint64_t
//     compare_exchange_relaxed_device(p, expected, desired)   uint32_t
//     or_relaxed_device(p, bits)      uint32_t
//
//   Arithmetic                        contraction is off everywhere: a * b + c is two roundings
//     fma(a, b, c)                    one rounding
//     round_pair<E>(low, high)        two fp32 values, each rounded to E = Bf16 or Fp16 (to nearest, ties to
//                                     even; overflow gives Inf, NaN 0x7fff), as one word; static
//     float_pair<E>(word)             the two elements of a word as fp32, exact; static
//     add_pair<E>(a, b)               the two words' elements added, each rounded once, as round_pair does;
//                                     static
//     rsqrt_approximate(x)            1 / sqrt(x), relative error at most 4 * 2^-24
//
//   Time
//     ticks()                         monotonic wall clock of this device, 64 bits
//     ticks_per_second()
//     pause()                         a poll has failed; lets other threads run
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define LAMPPOST_DEVICE __device__ __forceinline__
#define LAMPPOST_NO_UNROLL _Pragma("unroll 1")
#else
#define LAMPPOST_DEVICE inline
#define LAMPPOST_NO_UNROLL
#endif

namespace lamppost::device {

/// 16 bytes: the unit of payload on the wire.
struct alignas(16) Pack {
  std::uint32_t word[4];
};

/// IEEE binary16 and bfloat16, as bits.
struct Fp16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

/// Two elements of a payload word: the low half comes first.
struct FloatPair {
  float low;
  float high;
};

/// True for a type that has every operation of the specification above.
template <class T>
concept Target = requires(T& t, std::uint16_t* half, std::uint32_t* word, std::uint64_t* wide,
                          Pack* pack, Pack value, std::uint32_t w, std::uint64_t d, float f) {
  { T::kLanes };
  { T::kWholeBytes };
  { t.thread_rank() };
  { t.block_threads() };
  { t.block_rank() };
  { t.grid_blocks() };
  { t.lane_rank() };
  { t.launch_number() };
  { t.block_sync() };
  { t.block_any(true) };
  { t.lane_xor(w, w) };
  { t.template shared<Pack>() };
  { t.load(half) };
  { t.load(word) };
  { t.store(half, *half) };
  { t.store(word, w) };
  { t.load_pack(pack) };
  { t.store_pack(pack, value) };
  { t.load_relaxed_system(word) };
  { t.load_relaxed_system(wide) };
  { t.store_relaxed_system(word, w) };
  { t.store_relaxed_system(wide, d) };
  { t.load_pack_relaxed_system(pack) };
  { t.store_pack_relaxed_system(pack, value) };
  { t.load_acquire_system(word) };
  { t.store_release_system(word, w) };
  { t.add_relaxed_device(wide, d) };
  { t.add_acq_rel_device(wide, d) };
  { t.compare_exchange_relaxed_device(word, w, w) };
  { t.or_relaxed_device(word, w) };
  { t.fma(f, f, f) };
  { T::template round_pair<Bf16>(f, f) };
  { T::template float_pair<Fp16>(w) };
  { T::template add_pair<Bf16>(w, w) };
  { t.rsqrt_approximate(f) };
  { t.ticks() };
  { t.ticks_per_second() };
  { t.pause() };
};

}  // namespace lamppost::device
