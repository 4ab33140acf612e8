// SocketSpoke: the side of ranks 1 and up in the socket bootstrap: it sends to rank 0 and waits for
// rank 0's result or verdict. Made by socket_bootstrap.cc. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bootstrap/socket_bootstrap.hpp"
#include "bootstrap/socket_channel.hpp"

namespace lamppost::boot {

class SocketSpoke final : public Bootstrap {
 public:
  explicit SocketSpoke(const SocketBootstrapOptions& options);

  int rank() const override { return options_.rank; }
  int rank_count() const override { return options_.rank_count; }

  /// Connects and waits for rank 0's welcome; see make_socket_bootstrap.
  Status join();
  Status all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) override;

 private:
  Status greet(const Deadline& deadline);
  Status exchange(const Frame& call, const void* mine, void* all, const Deadline& patience);
  Status send_call(const Frame& call, const void* mine, const Deadline& patience);
  Status receive(void* target, std::size_t bytes, const Frame& call, const Deadline& patience);
  Status fail(Status status);

  SocketBootstrapOptions options_;
  std::unique_ptr<SocketChannel> hub_;
  std::uint64_t sequence_ = 0;
  Status failure_;
};

}  // namespace lamppost::boot
