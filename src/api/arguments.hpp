// Checks of the C API's arguments: a CollectiveCall, or an error that names argument and value.
// Pure; nothing is launched here.
#pragma once

#include <lamppost/status.hpp>

#include "collectives/collective_call.hpp"

namespace lamppost {

Result<CollectiveCall> check_all_reduce(const void* in, void* out, std::size_t count,
                                        lpDataType_t type, lpRedOp_t op);

Result<CollectiveCall> check_all_reduce_rms_norm(const lpAllReduceRMSNormArgs* args);

}  // namespace lamppost
