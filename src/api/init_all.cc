// lpCommInitAll: all ranks in this process, each created on a thread of its own.
#include <lamppost/lamppost.h>

#include "api/creation.hpp"
#include "api/handles.hpp"
#include "bootstrap/thread_bootstrap.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <thread>

namespace lamppost {
namespace {

/// Rank r's device: devices[r], else the configuration's for all, else r.
Result<ResolvedConfig> config_of_rank(const lpConfig* config, const int* devices, int rank) {
  Result<ResolvedConfig> resolved = resolve_config(config);
  if (!resolved.ok() || resolved.value().backend == LP_BACKEND_HOST) return resolved;
  if (devices != nullptr && devices[rank] < 0) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("devices[{}] is {}: must be 0 or more", rank, devices[rank]));
  }
  if (devices != nullptr) resolved.value().device = devices[rank];
  if (resolved.value().device < 0) resolved.value().device = rank;
  return resolved;
}

}  // namespace

Result<std::vector<std::unique_ptr<Communicator>>> create_all(int rank_count,
                                                              const lpConfig* config,
                                                              const int* devices,
                                                              const CreationOptions& options) {
  using Created = Result<std::unique_ptr<Communicator>>;
  auto group = std::make_shared<ThreadGroup>(rank_count);
  std::vector<Created> created;
  for (int r = 0; r < rank_count; ++r) created.emplace_back(Status(LP_ERROR_INTERNAL, "not run"));
  std::vector<std::thread> threads;
  Status failed;
  try {
    for (int r = 0; r < rank_count; ++r) {
      threads.emplace_back([&, r, bootstrap = make_thread_bootstrap(group, r)]() mutable {
        created[static_cast<std::size_t>(r)] =
            create_communicator(*bootstrap, config_of_rank(config, devices, r), options);
        bootstrap.reset();  // a rank that failed early is known to have left
      });
    }
  } catch (const std::system_error& error) {  // std::thread's way to say so
    failed = Status(LP_ERROR_RESOURCE_LIMIT, fmt::format("no thread for a rank: {}", error.what()));
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<std::unique_ptr<Communicator>> communicators;
  for (Created& one : created) {
    if (!one.ok() && failed.ok()) failed = one.status();
    if (one.ok()) communicators.push_back(one.take());
  }
  if (failed.ok()) return communicators;
  for (auto& communicator : communicators) (void)communicator->shut_down();
  return failed;
}

}  // namespace lamppost

extern "C" lpResult_t lpCommInitAll(lpComm_t* comms, int rank_count, const int* devices,
                                    const lpConfig* config) {
  using lamppost::report;
  using lamppost::Status;
  if (comms == nullptr) return report(Status(LP_ERROR_INVALID_ARGUMENT, "comms is null"));
  if (rank_count < 1 || rank_count > LP_MAX_WORLD_TODAY) {
    return report(Status(LP_ERROR_INVALID_ARGUMENT,
                         fmt::format("rank_count is {}: must be 1 to {} in this version", rank_count,
                                     LP_MAX_WORLD_TODAY)));
  }
  auto created = lamppost::create_all(rank_count, config, devices);
  if (!created.ok()) return report(created.status());
  std::vector<lpComm_t> handles;
  Status status;
  for (auto& communicator : created.value()) {
    auto handle = lamppost::publish(std::move(communicator));
    if (handle.ok()) {
      handles.push_back(handle.value());
    } else {
      status = handle.status();
    }
  }
  if (!status.ok()) {
    for (lpComm_t handle : handles) (void)lpCommDestroy(handle);
    return report(status);
  }
  std::copy(handles.begin(), handles.end(), comms);
  return LP_SUCCESS;
}
