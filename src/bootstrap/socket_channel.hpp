// SocketChannel: one end of a connected Unix stream socket that carries frames, without blocking.
// Used by the two sides of the socket bootstrap. Not thread-safe. Every call retries EINTR and
// raises no SIGPIPE; the descriptor is close-on-exec and closes with the object.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "bootstrap/deadline.hpp"
#include "bootstrap/frame.hpp"

namespace lamppost::boot {

/// Phase name, in errors, of connecting and agreeing on who is rank 0 to N-1.
inline constexpr const char* kJoinPhase = "join";

enum class Progress {
  kPending,  // the socket would block; poll and call again
  kDone,
  kClosed  // the peer has closed, or the connection is broken
};

class SocketChannel {
 public:
  /// `socket` is connected and non-blocking.
  explicit SocketChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  /// Reads on towards `bytes` bytes at `target`; the same arguments until kDone.
  Progress receive(void* target, std::size_t bytes);

  /// Starts a message: `frame` is copied, `payload` must stay until the message is out.
  void start_send(const Frame& frame, const void* payload, std::size_t bytes);
  /// Writes on. kDone also when nothing was started.
  Progress continue_send();
  bool sending() const { return out_done_ < out_total_; }

  /// One attempt to send a whole `frame`; failure is ignored, for last words. Between messages
  /// only.
  void try_send(const Frame& frame);

 private:
  FileDescriptor socket_;
  std::size_t in_done_ = 0;
  Frame out_frame_;
  const void* out_payload_ = nullptr;
  std::size_t out_done_ = 0;
  std::size_t out_total_ = 0;
};

/// Waits until one of `entries` is ready or the deadline has passed. Returns the number of ready
/// entries, 0 at the deadline, -1 on failure (errno). Looks once even if the deadline has passed.
int poll_until(std::vector<pollfd>& entries, const Deadline& deadline);

/// Listens at `address` (see SocketBootstrapOptions). Errors: INVALID_ARGUMENT (too long, empty),
/// BOOTSTRAP (in use), SYSTEM, RESOURCE_LIMIT.
Result<FileDescriptor> listen_at(const std::string& address, int backlog);

/// Accepts one waiting connection; an invalid descriptor if there is none.
Result<FileDescriptor> accept_from(const FileDescriptor& listener);

/// Connects to `address`, trying again while nobody listens. An invalid descriptor at the deadline.
Result<FileDescriptor> connect_to(const std::string& address, const Deadline& deadline);

}  // namespace lamppost::boot
