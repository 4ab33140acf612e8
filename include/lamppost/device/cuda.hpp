// The CUDA target: a GPU thread of sm_80 or later is itself. Included by nvcc only (collectives/entry_cuda.cu).
//
// Every operation that target.hpp gives a scope is one PTX instruction, written out: the compiler
// neither hoists, merges nor splits it, and a generated-code check (tests/codegen) finds it by name. The
// instruction stands behind each operation. Plain operations are C++ accesses.
//
// PTX ISA 8.0 and later, "Memory Consistency Model": a vector access is a set of scalar accesses in
// no order, hence kWholeBytes; relaxed, acquire and release at .sys and .gpu are morally strong with
// each other where their sizes agree.
#pragma once

#include "lamppost/device/pack.hpp"

#include <type_traits>

namespace lamppost::device {

class CudaTarget {
 public:
  static constexpr int kLanes = 32;
  static constexpr int kWholeBytes = 8;

  __device__ std::uint32_t thread_rank() const { return threadIdx.x; }
  __device__ std::uint32_t block_threads() const { return blockDim.x; }
  __device__ std::uint32_t block_rank() const { return blockIdx.x; }
  __device__ std::uint32_t grid_blocks() const { return gridDim.x; }
  __device__ std::uint32_t lane_rank() const { return threadIdx.x % kLanes; }
  /// %gridid, its low half. Seen on H200 (driver API 13): eager launches and the nodes of an
  /// instantiated graph have numbers of their own; replays of one instance repeat theirs, but CUDA
  /// never runs two of those at once.
  __device__ std::uint32_t launch_number() const {
    std::uint64_t number;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(number));
    return static_cast<std::uint32_t>(number);
  }

  /// bar.sync
  __device__ void block_sync() { __syncthreads(); }
  /// barrier.cta.red.popc or .or
  __device__ bool block_any(bool flag) { return __syncthreads_or(flag ? 1 : 0) != 0; }
  /// shfl.sync.bfly
  __device__ std::uint32_t lane_xor(std::uint32_t word, std::uint32_t mask) {
    return __shfl_xor_sync(0xffffffffu, word, static_cast<int>(mask));
  }

  template <class V>
  __device__ V& shared() {
    __shared__ V value;
    return value;
  }

  template <class V>
  __device__ V load(const V* pointer) {
    return *pointer;
  }
  template <class V>
  __device__ void store(V* pointer, V value) {
    *pointer = value;
  }
  /// ld.global.v4.u32
  __device__ Pack load_pack(const Pack* pointer) {
    const uint4 v = *reinterpret_cast<const uint4*>(pointer);
    return Pack{{v.x, v.y, v.z, v.w}};
  }
  /// st.global.v4.u32
  __device__ void store_pack(Pack* pointer, const Pack& value) {
    *reinterpret_cast<uint4*>(pointer) =
        make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
  }

  __device__ std::uint32_t load_relaxed_system(const std::uint32_t* pointer) {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
    return value;
  }
  __device__ std::uint64_t load_relaxed_system(const std::uint64_t* pointer) {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(pointer) : "memory");
    return value;
  }
  __device__ void store_relaxed_system(std::uint32_t* pointer, std::uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
  }
  __device__ void store_relaxed_system(std::uint64_t* pointer, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(pointer), "l"(value) : "memory");
  }
  __device__ Pack load_pack_relaxed_system(const Pack* pointer) {
    Pack pack;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.word[0]), "=r"(pack.word[1]), "=r"(pack.word[2]), "=r"(pack.word[3])
                 : "l"(pointer)
                 : "memory");
    return pack;
  }
  __device__ void store_pack_relaxed_system(Pack* pointer, const Pack& value) {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
                 "r"(value.word[0]), "r"(value.word[1]), "r"(value.word[2]), "r"(value.word[3])
                 : "memory");
  }
  __device__ std::uint32_t load_acquire_system(const std::uint32_t* pointer) {
    std::uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
    return value;
  }
  /// Cumulative: what block_sync() ordered before it is released too.
  __device__ void store_release_system(std::uint32_t* pointer, std::uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
  }

  __device__ std::uint64_t add_relaxed_device(std::uint64_t* pointer, std::uint64_t value) {
    std::uint64_t old;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(pointer), "l"(value)
                 : "memory");
    return old;
  }
  __device__ std::uint64_t add_acq_rel_device(std::uint64_t* pointer, std::uint64_t value) {
    std::uint64_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(pointer), "l"(value)
                 : "memory");
    return old;
  }
  __device__ std::uint32_t compare_exchange_relaxed_device(std::uint32_t* pointer,
                                                           std::uint32_t expected,
                                                           std::uint32_t desired) {
    std::uint32_t old;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(pointer), "r"(expected), "r"(desired)
                 : "memory");
    return old;
  }
  __device__ std::uint32_t or_relaxed_device(std::uint32_t* pointer, std::uint32_t bits) {
    std::uint32_t old;
    asm volatile("atom.relaxed.gpu.global.or.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(pointer), "r"(bits)
                 : "memory");
    return old;
  }

  __device__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
  /// cvt.rn.bf16x2.f32, cvt.rn.f16x2.f32
  template <class Element>
  __device__ static std::uint32_t round_pair(float low, float high) {
    std::uint32_t word;
    if constexpr (std::is_same_v<Element, Bf16>) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    }
    return word;
  }
  /// Bf16: two integer instructions. Fp16: cvt.f32.f16, twice.
  template <class Element>
  __device__ static FloatPair float_pair(std::uint32_t word) {
    if constexpr (std::is_same_v<Element, Bf16>) {
      return {float_of(word << 16), float_of(word & 0xffff0000u)};
    } else {
      FloatPair pair;
      asm("{ .reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
          : "=f"(pair.low), "=f"(pair.high)
          : "r"(word));
      return pair;
    }
  }
  /// fma.rn.bf16x2 by 1 (add.rn.bf16x2 begins with sm_90), add.rn.f16x2
  template <class Element>
  __device__ static std::uint32_t add_pair(std::uint32_t a, std::uint32_t b) {
    std::uint32_t sum;
    if constexpr (std::is_same_v<Element, Bf16>) {
      asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
    } else {
      asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    }
    return sum;
  }
  /// rsqrt.approx.f32: relative error at most 2^-22.9 (PTX ISA, "rsqrt").
  __device__ float rsqrt_approximate(float x) {
    float root;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
  }

  /// %globaltimer: nanoseconds, the same clock on all SMs.
  __device__ std::uint64_t ticks() {
    std::uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }
  __device__ std::uint64_t ticks_per_second() { return 1'000'000'000; }
  __device__ void pause() {}

  /// Launch boundary of an early launch: returns when the stream's earlier work is complete and
  /// visible. Before any access. griddepcontrol.wait; nothing before sm_90.
  __device__ static void wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  /// Lets a later launch with the early-launch attribute start; its own wait keeps it in order.
  /// griddepcontrol.launch_dependents; nothing before sm_90.
  __device__ static void allow_later_launches() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  }
};

static_assert(Target<CudaTarget>);

}  // namespace lamppost::device
