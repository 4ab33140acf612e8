// MpiExchange: one gather in flight over MPI: its buffers and its requests. Made by
// mpi_bootstrap.cc for each gather. Invariant: no buffer is freed while MPI may still touch it; an
// exchange that was given up with requests pending is parked for the life of the process.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "bootstrap/frame.hpp"

namespace lamppost::boot {

/// Ok, or MPI's text for `code`.
Status mpi_status(int code, const char* call);

class MpiExchange {
 public:
  /// Copies `mine`. `tag` is this gather's.
  MpiExchange(MPI_Comm comm, int tag, const Frame& call, const void* mine, int rank_count);
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;

  /// Starts all sends, and the receives of the frames.
  Status start();
  /// Moves on what MPI has finished. Does not block.
  Status poll();
  /// Ranks whose part has not come, or has not been taken by them.
  std::vector<int> missing() const;
  const std::vector<std::byte>& payloads() const { return all_; }

  /// Ends a gather that failed, without blocking: cancels what can be cancelled, lets go of the
  /// rest, and parks the exchange if MPI may still use its buffers.
  static void give_up(std::unique_ptr<MpiExchange> exchange);

 private:
  enum Request : std::size_t {
    kSendFrame,
    kSendPayload,
    kReceiveFrame,
    kReceivePayload,
    kRequests
  };
  struct Peer {
    Frame frame;
    bool frame_done = false;
    std::array<MPI_Request, kRequests> requests;
  };

  Status poll_peer(int rank);
  Status receive_payload(int rank);
  bool release_requests();

  const MPI_Comm comm_;
  const int tag_;
  const Frame call_;
  std::vector<std::byte> mine_;
  std::vector<std::byte> all_;
  std::vector<Peer> peers_;  // by rank; this rank's has no requests
};

}  // namespace lamppost::boot
