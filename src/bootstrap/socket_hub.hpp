// SocketHub: rank 0's side of the socket bootstrap. It alone decides: it collects, sends the
// result, and passes the first failure to all. Made by socket_bootstrap.cc. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bootstrap/socket_bootstrap.hpp"
#include "bootstrap/socket_channel.hpp"

namespace lamppost::boot {

class SocketHub final : public Bootstrap {
 public:
  explicit SocketHub(const SocketBootstrapOptions& options);

  int rank() const override { return 0; }
  int rank_count() const override { return options_.rank_count; }

  /// Listens until all ranks have joined; see make_socket_bootstrap.
  Status join();
  Status all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) override;

 private:
  /// Where a member's current call stands. Joining is the first call; its hello arrives at once.
  enum class Stage { kFrame, kPayload, kArrived };
  struct Member {
    std::unique_ptr<SocketChannel> channel;  // null: has not joined, or is this rank
    Frame frame;
    Stage stage = Stage::kFrame;
  };
  /// A connection whose hello is not complete yet: perhaps a rank, perhaps a stranger.
  struct Caller {
    std::unique_ptr<SocketChannel> channel;
    Frame hello;
  };

  Status wait_for_hellos(const FileDescriptor& listener, Deadline deadline);
  Status accept_all(const FileDescriptor& listener);
  Status read_callers(Deadline& deadline);
  Status admit(Caller& caller, Deadline& deadline);
  Status check_joined();
  Status collect(const Frame& mine, std::byte* all, Deadline deadline);
  Status advance(int rank, const Frame& mine, std::byte* all, Deadline& deadline);
  Status distribute(const Frame& mine, const std::byte* all, const Deadline& deadline);
  std::vector<int> send_result();
  std::vector<int> missing() const;
  Status fail(Status status);

  SocketBootstrapOptions options_;
  std::vector<Member> members_;  // by rank; [0] is this rank, without a channel
  std::vector<Caller> callers_;
  std::uint64_t sequence_ = 0;
  Status failure_;
};

}  // namespace lamppost::boot
