#include "transports/descriptor_sockets.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/system_error.hpp"

namespace lamppost {
namespace {

using Clock = std::chrono::steady_clock;

/// Where a rank receives, and the number its senders must show.
struct Mailbox {
  std::uint64_t address;  // abstract socket name: "lamppost-" and this in hexadecimal; 0: none
  std::uint64_t secret;
};

struct Greeting {
  std::uint64_t secret;   // the receiver's
  std::uint32_t rank;     // the sender's
  std::uint32_t is_sent;  // 0: the sender has failed to send its descriptor, and none will come
};

sockaddr_un socket_address(const Mailbox& mailbox, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lamppost-{:016x}", mailbox.address);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // leading 0: abstract
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<FileDescriptor> open_socket() {
  FileDescriptor socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.is_open()) return system_error("opening a Unix socket", errno);
  return socket_fd;
}

/// Writes `mailbox` only if all went well.
Result<FileDescriptor> open_mailbox(Mailbox& mailbox) {
  Mailbox drawn{};
  if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn)) return system_error("getrandom", errno);
  drawn.address |= 1;
  Result<FileDescriptor> socket_fd = open_socket();
  if (!socket_fd.ok()) return socket_fd;
  socklen_t bytes = 0;
  const sockaddr_un address = socket_address(drawn, bytes);
  if (bind(socket_fd.value().get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return system_error("bind of a Unix socket", errno);
  }
  mailbox = drawn;
  return socket_fd;
}

Status unreachable(std::size_t rank, int error) {
  const Status status =
      system_error(fmt::format("reaching the Unix socket of rank {}", rank), error);
  const bool is_unknown = error == ECONNREFUSED || error == ENOENT;
  return Status(status.code(),
                status.message() + (is_unknown ? "; ranks must share a network namespace" : ""));
}

/// Whether this rank could send to all it wants something from; nothing is sent.
Status reach_all(const std::vector<Mailbox>& mailboxes, const std::vector<bool>& wanted) {
  const Result<FileDescriptor> socket_fd = open_socket();
  if (!socket_fd.ok()) return socket_fd.status();
  for (std::size_t r = 0; r < mailboxes.size(); ++r) {
    if (!wanted[r]) continue;
    if (mailboxes[r].address == 0) {
      return Status(LP_ERROR_ABORTED, fmt::format("rank {} has no Unix socket", r));
    }
    socklen_t bytes = 0;
    const sockaddr_un address = socket_address(mailboxes[r], bytes);
    if (connect(socket_fd.value().get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
      return unreachable(r, errno);
    }
  }
  return {};
}

/// One message with room for a descriptor.
struct Envelope {
  Greeting greeting{};
  iovec data{&greeting, sizeof(greeting)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};

  Envelope() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  void put(int descriptor) {
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  FileDescriptor take() {
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
    return FileDescriptor(descriptor);
  }
};

/// Sends to all and receives from all, both without blocking, so that no order can deadlock. A
/// failure with one peer is kept, and the others are served: they would wait in vain.
class Correspondence {
 public:
  Correspondence(int rank, int socket_fd, const std::vector<Mailbox>& mailboxes,
                 const DescriptorRequest& request)
      : rank_(static_cast<std::uint32_t>(rank)),
        socket_fd_(socket_fd),
        mailboxes_(mailboxes),
        mine_(request.mine),
        to_send_(request.wanted.size(), Parcel::kNothing),
        awaited_(request.wanted),
        received_(request.wanted.size()) {
    for (std::size_t r = 0; r < to_send_.size(); ++r) {
      if (request.wanted[r]) to_send_[r] = Parcel::kDescriptor;
    }
  }

  /// The first failure, if there was one.
  Status run(std::chrono::milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    while (true) {
      const bool all_sent = send_all();
      const std::string missing = missing_ranks();
      if (all_sent && missing.empty()) return failure_;
      if (Clock::now() >= deadline) {
        keep(Status(LP_ERROR_TIMEOUT, fmt::format("no memory descriptor from rank{} within {} ms",
                                                  missing, timeout.count())));
        return failure_;
      }
      pollfd wait{socket_fd_, POLLIN, 0};
      poll(&wait, 1, all_sent ? 100 : 1);
      receive();
    }
  }

  std::vector<FileDescriptor> take_received() { return std::move(received_); }

 private:
  enum class Parcel { kNothing, kDescriptor, kRegret };

  void keep(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }

  bool send_all() {
    bool all_sent = true;
    for (std::size_t r = 0; r < to_send_.size(); ++r) {
      if (to_send_[r] != Parcel::kNothing) send(r);
      all_sent = all_sent && to_send_[r] == Parcel::kNothing;
    }
    return all_sent;
  }

  void send(std::size_t r) {
    Parcel& parcel = to_send_[r];
    socklen_t address_bytes = 0;
    sockaddr_un address = socket_address(mailboxes_[r], address_bytes);
    Envelope envelope;
    envelope.message.msg_name = &address;
    envelope.message.msg_namelen = address_bytes;
    envelope.greeting = {mailboxes_[r].secret, rank_, parcel == Parcel::kDescriptor ? 1u : 0u};
    if (parcel == Parcel::kDescriptor) {
      envelope.put(mine_);
    } else {
      envelope.message.msg_controllen = 0;
    }
    if (sendmsg(socket_fd_, &envelope.message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      parcel = Parcel::kNothing;
      return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return;  // its queue is full
    keep(unreachable(r, errno));
    if (parcel == Parcel::kRegret) awaited_[r] = false;  // nor will anything come from there
    parcel = parcel == Parcel::kDescriptor ? Parcel::kRegret : Parcel::kNothing;
  }

  /// Takes one message, if there is one.
  void receive() {
    Envelope envelope;
    const ssize_t bytes = recvmsg(socket_fd_, &envelope.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (bytes < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      keep(system_error("recvmsg of a descriptor", errno));
      awaited_.assign(awaited_.size(), false);
      return;
    }
    FileDescriptor descriptor = envelope.take();
    const Greeting& greeting = envelope.greeting;
    const bool is_stranger = bytes != sizeof(greeting) || greeting.rank >= awaited_.size() ||
                             greeting.secret != mailboxes_[rank_].secret ||
                             !awaited_[greeting.rank];
    if (is_stranger) return;  // dropped, and its descriptor closed
    awaited_[greeting.rank] = false;
    if (!descriptor.is_open()) keep(not_received(greeting));
    received_[greeting.rank] = std::move(descriptor);
  }

  static Status not_received(const Greeting& greeting) {
    if (greeting.is_sent == 0) {
      return Status(LP_ERROR_ABORTED, fmt::format("rank {} could not send", greeting.rank));
    }
    return Status(LP_ERROR_RESOURCE_LIMIT,
                  fmt::format("the descriptor of rank {} could not be received; raise the limit of "
                              "open files (ulimit -n)",
                              greeting.rank));
  }

  /// " 2, 3": the ranks from which nothing has come; empty if there are none.
  std::string missing_ranks() const {
    std::string missing;
    for (std::size_t r = 0; r < awaited_.size(); ++r) {
      if (awaited_[r]) missing += fmt::format("{}{}", missing.empty() ? " " : ", ", r);
    }
    return missing;
  }

  std::uint32_t rank_;
  int socket_fd_;
  const std::vector<Mailbox>& mailboxes_;
  int mine_;
  std::vector<Parcel> to_send_;  // by rank, as all below
  std::vector<bool> awaited_;
  std::vector<FileDescriptor> received_;
  Status failure_;
};

}  // namespace

DescriptorOutcome exchange_by_sockets(Bootstrap& bootstrap, const DescriptorRequest& request) {
  DescriptorOutcome outcome;
  Mailbox mailbox{};
  Result<FileDescriptor> socket_fd = request.fault.check(bootstrap.rank(), "socket");
  if (socket_fd.status().ok()) socket_fd = open_mailbox(mailbox);
  std::vector<Mailbox> mailboxes;
  outcome.bootstrap =
      all_gather_value(bootstrap, mailbox, mailboxes, "exchange of descriptor mailboxes");
  if (!outcome.bootstrap.ok()) return outcome;

  Status reached = socket_fd.status();
  if (reached.ok()) reached = reach_all(mailboxes, request.wanted);
  outcome.bootstrap = gather_verdict(
      bootstrap, reached, "connect Unix sockets for memory descriptors", outcome.verdict);
  if (!outcome.bootstrap.ok() || !outcome.verdict.ok()) return outcome;

  Correspondence correspondence(bootstrap.rank(), socket_fd.value().get(), mailboxes, request);
  // Half the deadline: who waits here in vain must still meet the others in the vote.
  const Status exchanged =
      correspondence.run(std::chrono::milliseconds((bootstrap.timeout_ms() + 1) / 2));
  outcome.bootstrap =
      gather_verdict(bootstrap, exchanged, "exchange memory descriptors", outcome.verdict);
  if (outcome.verdict.ok()) outcome.received = correspondence.take_received();
  return outcome;
}

}  // namespace lamppost
