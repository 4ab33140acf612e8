// Arguments of the self-test kernel. Made by src/launch, read by the kernel.
#pragma once

#include "lamppost/device/call.hpp"

namespace lamppost {

struct SelfTestArgs {
  device::CallArgs call;
  std::uint32_t rounds;
};

}  // namespace lamppost
