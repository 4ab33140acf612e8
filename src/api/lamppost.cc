// The C API: handles in, checked calls through, results out. The work is in communicator.cc.
#include <fmt/core.h>
#include <lamppost/lamppost.h>

#include <algorithm>
#include <cstring>

#include "api/arguments.hpp"
#include "api/creation.hpp"
#include "api/handles.hpp"
#include "health/health.hpp"

using lamppost::Communicator;
using lamppost::find_communicator;
using lamppost::not_a_communicator;
using lamppost::report;
using lamppost::Result;
using lamppost::Status;

namespace {

Status null_argument(const char* name) {
  return Status(LP_ERROR_INVALID_ARGUMENT, fmt::format("{} is null", name));
}

/// Enqueues a checked call, or reports why not.
lpResult_t enqueue(const Result<lamppost::CollectiveCall>& call, lpComm_t comm, void* stream) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (!call.ok()) return report(communicator, call.status());
  return report(communicator,
                communicator->enqueue(call.value(), reinterpret_cast<std::uintptr_t>(stream)));
}

}  // namespace

extern "C" {

int lpGetVersion(void) { return LP_VERSION; }

const char* lpGetErrorString(lpResult_t result) {
  switch (result) {
    case LP_SUCCESS:
      return "success";
    case LP_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case LP_ERROR_INVALID_USAGE:
      return "invalid usage";
    case LP_ERROR_INVALID_HANDLE:
      return "invalid handle";
    case LP_ERROR_NOT_SUPPORTED:
      return "not supported";
    case LP_ERROR_NOT_CAPTURABLE:
      return "not allowed while a stream is captured";
    case LP_ERROR_BUSY:
      return "unordered calls on one communicator in one capture";
    case LP_ERROR_VERSION:
      return "struct or library of another version";
    case LP_ERROR_OUT_OF_MEMORY:
      return "out of memory";
    case LP_ERROR_RESOURCE_LIMIT:
      return "a resource limit was reached";
    case LP_ERROR_SYSTEM:
      return "an operating system call failed";
    case LP_ERROR_DRIVER:
      return "a GPU driver call failed";
    case LP_ERROR_BOOTSTRAP:
      return "ranks could not agree at creation";
    case LP_ERROR_TIMEOUT:
      return "a peer is late";
    case LP_ERROR_PEER_LOST:
      return "a peer is dead";
    case LP_ERROR_ABORTED:
      return "another rank failed first, or the call was aborted";
    case LP_ERROR_MISMATCH:
      return "ranks made different calls";
    case LP_ERROR_ORDER:
      return "ranks made calls in different orders";
    case LP_ERROR_CORRUPT:
      return "impossible protocol state";
    case LP_ERROR_SUSPENDED:
      return "the communicator is suspended";
    case LP_ERROR_INTERNAL:
      return "a defect in Lamppost";
  }
  return "unknown result";
}

const char* lpGetLastError(lpComm_t comm) {
  Communicator* communicator = comm == nullptr ? nullptr : find_communicator(comm);
  return communicator != nullptr ? communicator->last_error().c_str()
                                 : lamppost::last_error_of_thread();
}

lpResult_t lpCommDestroy(lpComm_t comm) {
  if (comm == nullptr) return LP_SUCCESS;
  std::unique_ptr<Communicator> owned(
      lamppost::communicators().remove(reinterpret_cast<std::uintptr_t>(comm)));
  if (owned == nullptr) return report(not_a_communicator(comm));
  return report(owned->shut_down());
}

lpResult_t lpCommCount(lpComm_t comm, int* count) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (count == nullptr) return report(communicator, null_argument("count"));
  *count = communicator->rank_count();
  return LP_SUCCESS;
}

lpResult_t lpCommUserRank(lpComm_t comm, int* rank) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (rank == nullptr) return report(communicator, null_argument("rank"));
  *rank = communicator->rank();
  return LP_SUCCESS;
}

lpResult_t lpCommGetBackend(lpComm_t comm, lpBackend_t* backend) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (backend == nullptr) return report(communicator, null_argument("backend"));
  *backend = communicator->backend();
  return LP_SUCCESS;
}

lpResult_t lpAllReduce(const void* in, void* out, size_t count, lpDataType_t type, lpRedOp_t op,
                       lpComm_t comm, void* stream) {
  return enqueue(lamppost::check_all_reduce(in, out, count, type, op), comm, stream);
}

lpResult_t lpAllReduceRMSNorm(const lpAllReduceRMSNormArgs* args, lpComm_t comm, void* stream) {
  return enqueue(lamppost::check_all_reduce_rms_norm(args), comm, stream);
}

lpResult_t lpCommGetAsyncError(lpComm_t comm, lpResult_t* error) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (error == nullptr) return report(null_argument("error"));
  *error = lamppost::async_error(communicator->page());
  return LP_SUCCESS;
}

lpResult_t lpCommSetTimeout(lpComm_t comm, int64_t timeout_ms) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (timeout_ms < 0 || timeout_ms > lamppost::kMostTimeoutMs) {
    return report(Status(
        LP_ERROR_INVALID_ARGUMENT,
        fmt::format("timeout_ms is {}: must be 0 to {}", timeout_ms, lamppost::kMostTimeoutMs)));
  }
  communicator->set_timeout(timeout_ms, timeout_ms);
  return LP_SUCCESS;
}

lpResult_t lpCommGetHealth(lpComm_t comm, lpHealth* health) {
  Communicator* communicator = find_communicator(comm);
  if (communicator == nullptr) return report(not_a_communicator(comm));
  if (health == nullptr) return report(null_argument("health"));
  if (health->magic != LP_HEALTH_MAGIC || health->version != LP_HEALTH_VERSION ||
      health->size != sizeof(lpHealth)) {
    return report(
        Status(LP_ERROR_VERSION,
               fmt::format("health has magic {:#x}, version {}, size {}; start from "
                           "LP_HEALTH_INITIALIZER of version {}",
                           health->magic, health->version, health->size, LP_HEALTH_VERSION)));
  }
  *health = lamppost::read_health(communicator->page());
  return LP_SUCCESS;
}

size_t lpHealthToString(const lpHealth* health, char* text, size_t text_bytes) {
  const std::string whole =
      health == nullptr ? std::string("no health given") : lamppost::describe_health(*health);
  if (text != nullptr && text_bytes > 0) {
    const size_t length = std::min(whole.size(), text_bytes - 1);
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return whole.size() + 1;
}

}  // extern "C"
