// Compiles every kernel for CUDA: one global function a line of kernels.def, under its symbol. Built to
// a fatbin that src/driver loads; nothing here runs on the host.
#include "collectives/all_reduce/one_shot_lamport.hpp"
#include "collectives/kernel_table.hpp"
#include "collectives/probe/floor_probes.hpp"
#include "collectives/self_test/peer_self_test.hpp"
#include "lamppost/device/cuda.hpp"

namespace lamppost {

using device::CudaTarget;

#define LAMPPOST_ENTRY(symbol, args_type, call, most_threads)                                       \
  extern "C" __global__ void __launch_bounds__(most_threads, 1)                                     \
      symbol(const __grid_constant__ args_type args) {                                              \
    CudaTarget::wait_for_earlier_launches();                                                        \
    CudaTarget::allow_later_launches();                                                             \
    CudaTarget target;                                                                              \
    call(target, args);                                                                             \
  }
#define LAMPPOST_ALL_REDUCE(symbol, type, element, world, epilogue, epilogue_class, most_threads) \
  LAMPPOST_ENTRY(symbol, OneShotArgs,                                                             \
                 (one_shot_lamport<CudaTarget, element, world, epilogue_class>), most_threads)
#define LAMPPOST_SELF_TEST(symbol) \
  LAMPPOST_ENTRY(symbol, SelfTestArgs, (peer_self_test<CudaTarget>), kMostThreads)
#define LAMPPOST_PROBE(symbol, function) \
  LAMPPOST_ENTRY(symbol, ProbeArgs, (function<CudaTarget>), kMostThreads)
#include "collectives/kernels.def"
#undef LAMPPOST_ALL_REDUCE
#undef LAMPPOST_SELF_TEST
#undef LAMPPOST_PROBE
#undef LAMPPOST_ENTRY

}  // namespace lamppost
