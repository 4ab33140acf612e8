// Compiles every kernel for one host target. LAMPPOST_HOST_TARGET and LAMPPOST_HOST_TABLE choose
// the target and the name of the function that returns its table (test-only targets).
#include "collectives/entry_host.hpp"

#include "collectives/all_reduce/one_shot_lamport.hpp"
#include "collectives/probe/floor_probes.hpp"
#include "collectives/self_test/peer_self_test.hpp"

#ifndef LAMPPOST_HOST_TARGET
#define LAMPPOST_HOST_TARGET ::lamppost::device::HostTarget<32>
#define LAMPPOST_HOST_TABLE host_kernels
#endif

namespace lamppost {

const device::HostKernel* LAMPPOST_HOST_TABLE();

namespace {

using EntryTarget = LAMPPOST_HOST_TARGET;

template <class Args, void (*kernel)(EntryTarget&, const Args&)>
void run(device::HostThread& thread, const void* args) {
  EntryTarget target(thread);
  kernel(target, *static_cast<const Args*>(args));
}

void before_launch(device::HostLaunch& launch, const void*) {
  device::host_delay_launch(launch, EntryTarget::kLaunchDelayUs);
}

template <class Args, void (*kernel)(EntryTarget&, const Args&), class Shared>
constexpr device::HostKernel entry(const char* symbol) {
  return {symbol,
          run<Args, kernel>,
          EntryTarget::kLaunchDelayUs == 0 ? nullptr : before_launch,
          EntryTarget::kLanes,
          sizeof(Args),
          sizeof(Shared)};
}

constexpr device::HostKernel kTable[] = {
#define LAMPPOST_ALL_REDUCE(symbol, type, element, world, epilogue, epilogue_class, most_threads) \
  entry<OneShotArgs, one_shot_lamport<EntryTarget, element, world, epilogue_class>,     \
        OneShotShared<epilogue_class<EntryTarget, element, world != 0>::Shared>>(#symbol),
#define LAMPPOST_SELF_TEST(symbol) \
  entry<SelfTestArgs, peer_self_test<EntryTarget>, device::CallShared>(#symbol),
#define LAMPPOST_PROBE(symbol, function) \
  entry<ProbeArgs, function<EntryTarget>, device::CallShared>(#symbol),
#include "collectives/kernels.def"
#undef LAMPPOST_ALL_REDUCE
#undef LAMPPOST_SELF_TEST
#undef LAMPPOST_PROBE
};

}  // namespace

const device::HostKernel* LAMPPOST_HOST_TABLE() { return kTable; }

}  // namespace lamppost
