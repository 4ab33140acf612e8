// From C handles to objects and from Status to lpResult_t. Any thread.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

#include "api/communicator.hpp"
#include "base/handle_table.hpp"
#include "driver/host_stream.hpp"

#include <memory>

namespace lamppost {

HandleTable<Communicator>& communicators();
HandleTable<std::shared_ptr<HostGraph>>& graphs();

/// The live communicator of a handle, or null.
Communicator* find_communicator(lpComm_t comm);

/// Keeps the sentence for lpGetLastError and returns the code. `communicator` may be null.
lpResult_t report(Communicator* communicator, const Status& status);
lpResult_t report(const Status& status);

/// The error for a handle that is not live.
Status not_a_communicator(lpComm_t comm);

const char* last_error_of_thread();

/// Gives a finished communicator its handle.
Result<lpComm_t> publish(std::unique_ptr<Communicator> communicator);

}  // namespace lamppost
