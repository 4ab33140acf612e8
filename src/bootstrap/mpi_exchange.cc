#include "bootstrap/mpi_exchange.hpp"

#include <fmt/core.h>

#include <mutex>
#include <utility>

namespace lamppost::boot {
namespace {

/// Keeps an exchange alive for ever: MPI may write into it or read from it at any later time.
void park(std::unique_ptr<MpiExchange> exchange) {
  static std::mutex mutex;
  // Never destroyed: MPI may outlive this library's static objects.
  static auto* parked = new std::vector<std::unique_ptr<MpiExchange>>;
  std::lock_guard lock(mutex);
  parked->push_back(std::move(exchange));
}

int int_bytes(const std::vector<std::byte>& buffer) { return static_cast<int>(buffer.size()); }

}  // namespace

Status mpi_status(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return Status(LP_ERROR_SYSTEM, fmt::format("bootstrap: {}: {} (MPI error {})", call,
                                             std::string_view(text, std::size_t(length)), code));
}

MpiExchange::MpiExchange(MPI_Comm comm, int tag, const Frame& call, const void* mine,
                         int rank_count)
    : comm_(comm),
      tag_(tag),
      call_(call),
      mine_(static_cast<const std::byte*>(mine), static_cast<const std::byte*>(mine) + call.bytes),
      all_(call.bytes * static_cast<std::size_t>(rank_count)),
      peers_(static_cast<std::size_t>(rank_count)) {
  for (Peer& peer : peers_) peer.requests.fill(MPI_REQUEST_NULL);
  const auto own = static_cast<std::size_t>(call.rank);
  peers_[own].frame_done = true;
  if (!mine_.empty()) std::memcpy(all_.data() + own * mine_.size(), mine_.data(), mine_.size());
}

Status MpiExchange::start() {
  const int rank_count = static_cast<int>(peers_.size());
  // The frame and the payload have one tag: MPI keeps messages of one sender and tag in order.
  for (int step = 1; step < rank_count; ++step) {
    const int rank = (call_.rank + step) % rank_count;  // not everybody to rank 0 first
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    Status status = mpi_status(MPI_Irecv(&peer.frame, sizeof(Frame), MPI_BYTE, rank, tag_, comm_,
                                         &peer.requests[kReceiveFrame]),
                               "MPI_Irecv");
    if (status.ok()) {
      status = mpi_status(
          MPI_Isend(&call_, sizeof(Frame), MPI_BYTE, rank, tag_, comm_, &peer.requests[kSendFrame]),
          "MPI_Isend");
    }
    if (status.ok() && !mine_.empty()) {
      status = mpi_status(MPI_Isend(mine_.data(), int_bytes(mine_), MPI_BYTE, rank, tag_, comm_,
                                    &peer.requests[kSendPayload]),
                          "MPI_Isend");
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status MpiExchange::poll() {
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Status status = poll_peer(rank);
    if (!status.ok()) return status;
  }
  return {};
}

Status MpiExchange::poll_peer(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  for (MPI_Request& request : peer.requests) {
    if (request == MPI_REQUEST_NULL) continue;
    int done = 0;
    Status status = mpi_status(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!status.ok()) return status;
  }
  if (peer.frame_done || peer.requests[kReceiveFrame] != MPI_REQUEST_NULL) return {};
  peer.frame_done = true;
  // Checked before the payload is received: a payload of another size would be a truncation error
  // that names nobody.
  Status same = check_data_frame(call_, peer.frame, rank);
  if (!same.ok() || mine_.empty()) return same;
  return receive_payload(rank);
}

Status MpiExchange::receive_payload(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return mpi_status(MPI_Irecv(all_.data() + index * mine_.size(), int_bytes(mine_), MPI_BYTE, rank,
                              tag_, comm_, &peers_[index].requests[kReceivePayload]),
                    "MPI_Irecv");
}

std::vector<int> MpiExchange::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    bool pending = !peers_[rank].frame_done;
    for (const MPI_Request& request : peers_[rank].requests) {
      if (request != MPI_REQUEST_NULL) pending = true;
    }
    if (pending) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void MpiExchange::give_up(std::unique_ptr<MpiExchange> exchange) {
  if (!exchange->release_requests()) park(std::move(exchange));
}

/// True if MPI is done with all buffers. Errors do not matter any more: the gather has failed, and
/// a request that cannot be finished is let go, its buffers parked.
bool MpiExchange::release_requests() {
  bool released = true;
  for (Peer& peer : peers_) {
    for (std::size_t kind = 0; kind < kRequests; ++kind) {
      MPI_Request& request = peer.requests[kind];
      if (request == MPI_REQUEST_NULL) continue;
      // Receives only: many MPIs cannot cancel a send, and MPI 4 advises against trying.
      if (kind == kReceiveFrame || kind == kReceivePayload) (void)MPI_Cancel(&request);
      int done = 0;
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) continue;
      released = false;
      if (request != MPI_REQUEST_NULL) (void)MPI_Request_free(&request);
    }
  }
  return released;
}

}  // namespace lamppost::boot
