// Communicator: one rank behind an lpComm_t. Holds what creation made (driver, memory, launcher) and
// turns checked calls into launches. Calls are serialised by the caller; async_error, health and
// set_timeout may come from any thread.
#pragma once

#include <lamppost/status.hpp>

#include "driver/driver.hpp"
#include "launch/launcher.hpp"
#include "transports/workspace.hpp"

#include <memory>
#include <string>

namespace lamppost {

/// lpConfig with every default filled in; compared between ranks at creation.
struct ResolvedConfig {
  lpBackend_t backend;
  std::int32_t device;
  std::int64_t timeout_ms;
  std::int64_t first_call_timeout_ms;
  std::int64_t setup_timeout_ms;
  std::uint64_t slot_bytes;
  bool allow_shared_device;
  bool early_launch;
};

/// What creation makes of one rank.
struct CommunicatorParts {
  ResolvedConfig config;
  AgreedFacts facts;
  std::unique_ptr<Driver> driver;
  std::shared_ptr<SharedMapping> control_page;
  Workspace workspace;
  StreamHandle own_stream = 0;
  PlantedFault fault;
};

class Communicator {
 public:
  explicit Communicator(CommunicatorParts parts);
  /// Local and bounded (lpCommDestroy): waits for this rank's calls, ends them if they overstay, parks
  /// memory that may still be in use. The error, if there is one, is for the caller to see.
  Status shut_down();

  int rank() const { return static_cast<int>(parts_.workspace.peers.table.rank); }
  int rank_count() const { return static_cast<int>(parts_.facts.rank_count); }
  lpBackend_t backend() const { return parts_.driver->backend(); }
  Driver& driver() { return *parts_.driver; }
  /// What a null stream means here: the vendor's default stream, or the communicator's own (host).
  StreamHandle null_stream() const { return null_stream_; }
  const Workspace& workspace() const { return parts_.workspace; }
  device::ControlPage& page() const;

  /// Enqueues a checked call. 0 as stream: null_stream().
  Status enqueue(const CollectiveCall& call, StreamHandle stream);
  /// Enqueues a probe, as a call is enqueued. For lamppost-bench.
  Status enqueue_probe(const ProbeRequest& request, StreamHandle stream);
  /// Runs the self-test; blocks. For creation only.
  Status self_test(std::uint32_t rounds);

  Status sticky_error() const;
  void set_timeout(std::int64_t timeout_ms, std::int64_t first_call_timeout_ms);

  std::string& last_error() { return last_error_; }

 private:
  Status check_memory(const CollectiveCall& call);
  template <class Launch>
  Status launch_in_order(StreamHandle stream, Launch&& launch);
  Status order(StreamHandle stream, const StreamFacts& facts);
  std::uint32_t* finished_ticket() const;
  Result<bool> is_call_in_flight();
  Result<bool> drain(std::int64_t timeout_ms);

  CommunicatorParts parts_;
  Launcher launcher_;
  StreamHandle null_stream_;  // what a call without a stream runs on
  StreamFacts last_eager_{};     // where the last eager call went
  StreamFacts last_captured_{};  // and the last captured one
  std::string last_error_;
};

}  // namespace lamppost
