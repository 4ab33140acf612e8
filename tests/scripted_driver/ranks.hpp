// Ranks on the CUDA backend over the scripted driver, as threads of this process; and a user's own use of
// the driver (a context, streams, graphs, memory) beside them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/creation.hpp"
#include "driver/cuda_api.hpp"
#include "support/collective_cases.hpp"
#include "support/scripted.hpp"

namespace lamppost::test {

struct WorldOptions {
  std::vector<int> devices = {0, 1};  // by rank; -1: lpConfig's default
  bool allow_shared_device = false;
  bool early_launch = false;
  std::int64_t setup_timeout_ms = 4'000;
  std::int64_t timeout_ms = 4'000;
};
lpConfig config_of(const WorldOptions& options, int rank);

/// Creates all ranks, each on a thread that belongs to that rank (ScriptedDriver::set_rank); destroys
/// those that are left on exit.
class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  bool ok() const;
  const std::vector<Status>& statuses() const { return statuses_; }
  int size() const { return static_cast<int>(comms_.size()); }
  /// Null where creation failed.
  lpComm_t operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  /// Destroys one rank; what lpCommDestroy says.
  lpResult_t destroy(int rank);

 private:
  std::vector<Status> statuses_;
  std::vector<lpComm_t> comms_;
};

/// The driver's API, which must be the scripted one.
const CudaApi& api();
/// Ends the program with the call's name unless it is CUDA_SUCCESS.
void must(CUresult result, const char* call);

/// What a user does: a device's primary context made current on this thread for a while.
class User {
 public:
  explicit User(int device);
  ~User();
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  CUcontext context() const { return context_; }

  CUstream create_stream(unsigned flags = CU_STREAM_NON_BLOCKING) const;
  void destroy_stream(CUstream stream) const;
  void synchronize(CUstream stream) const;
  void begin_capture(CUstream stream, CUstreamCaptureMode mode) const;
  CUgraphExec end_capture(CUstream stream) const;
  void launch_graph(CUgraphExec graph, CUstream stream) const;

 private:
  int device_;
  CUcontext context_ = nullptr;
};

/// Enqueues `call` on every rank, on a stream of its own, waits, and compares with the reference.
void run_and_check(const World& world, const WorldOptions& options, TestCall& call);

/// One rank on device 0, and a call of 100 floats in ordinary memory, which the scripted device reaches.
struct OneRank {
  lpComm_t comm = nullptr;
  std::vector<float> data = std::vector<float>(100, 1.0f);

  OneRank();
  lpResult_t call();
};

}  // namespace lamppost::test
