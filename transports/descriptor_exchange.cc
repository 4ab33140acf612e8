#include "transports/descriptor_exchange.hpp"

#include "base/system_error.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace lamppost {
namespace {

using Clock = std::chrono::steady_clock;

/// Where a rank receives, and the number its senders must show.
struct Mailbox {
  std::uint64_t address;  // abstract socket name: "lamppost-" and this in hexadecimal
  std::uint64_t secret;
};

struct Greeting {
  std::uint64_t secret;  // the receiver's
  std::uint32_t rank;    // the sender's
};

sockaddr_un socket_address(const Mailbox& mailbox, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("lamppost-{:016x}", mailbox.address);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // leading 0: abstract
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<FileDescriptor> open_mailbox(Mailbox& mailbox) {
  if (getrandom(&mailbox, sizeof(mailbox), 0) != sizeof(mailbox)) {
    return system_error("getrandom", errno);
  }
  FileDescriptor socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.is_open()) return system_error("socket", errno);
  socklen_t bytes = 0;
  const sockaddr_un address = socket_address(mailbox, bytes);
  if (bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return system_error("bind of a Unix socket", errno);
  }
  return socket_fd;
}

/// True when sent; false: the receiver's queue is full, try again.
Result<bool> send_descriptor(int socket_fd, const Mailbox& to, std::uint32_t rank, int descriptor) {
  socklen_t address_bytes = 0;
  sockaddr_un address = socket_address(to, address_bytes);
  Greeting greeting{to.secret, rank};
  iovec data{&greeting, sizeof(greeting)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = address_bytes;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return false;
  if (errno == ECONNREFUSED || errno == ENOENT) {
    return Status(LP_ERROR_BOOTSTRAP,
                  "a rank's socket is not reachable: ranks must share a network namespace");
  }
  return system_error("sendmsg with a descriptor", errno);
}

/// Takes one message, if there is one, into received[sender].
Status receive_descriptor(int socket_fd, const Mailbox& mine, const std::vector<bool>& wanted,
                          std::vector<FileDescriptor>& received) {
  Greeting greeting{};
  iovec data{&greeting, sizeof(greeting)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return system_error("recvmsg of a descriptor", errno);
  }
  FileDescriptor descriptor;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
    descriptor = FileDescriptor(fd);
  }
  const bool is_stranger = bytes != sizeof(greeting) || greeting.secret != mine.secret ||
                           greeting.rank >= wanted.size() || !wanted[greeting.rank];
  if (is_stranger) return {};  // dropped, and its descriptor closed
  if (!descriptor.is_open()) {
    return Status(LP_ERROR_RESOURCE_LIMIT,
                  fmt::format("the descriptor of rank {} could not be received; raise the limit of "
                              "open files (ulimit -n)",
                              greeting.rank));
  }
  received[greeting.rank] = std::move(descriptor);
  return {};
}

/// " 2, 3": the ranks whose descriptor has not come; empty if all have.
std::string missing_ranks(const std::vector<bool>& wanted,
                          const std::vector<FileDescriptor>& received) {
  std::string missing;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (!wanted[r] || received[r].is_open()) continue;
    missing += fmt::format("{}{}", missing.empty() ? " " : ", ", r);
  }
  return missing;
}

/// Sends to all and receives from all, both without blocking, so that no order can deadlock.
Status exchange(const Bootstrap& bootstrap, int socket_fd, const std::vector<Mailbox>& mailboxes,
                int mine, const std::vector<bool>& wanted, std::vector<FileDescriptor>& received) {
  const auto rank = static_cast<std::uint32_t>(bootstrap.rank());
  const auto deadline = Clock::now() + std::chrono::milliseconds(bootstrap.timeout_ms());
  std::vector<bool> to_send = wanted;
  while (true) {
    bool all_sent = true;
    for (std::size_t r = 0; r < to_send.size(); ++r) {
      if (!to_send[r]) continue;
      Result<bool> sent = send_descriptor(socket_fd, mailboxes[r], rank, mine);
      if (!sent.ok()) return sent.status();
      to_send[r] = !sent.value();
      all_sent = all_sent && sent.value();
    }
    const std::string missing = missing_ranks(wanted, received);
    if (all_sent && missing.empty()) return {};
    if (Clock::now() >= deadline) {
      return Status(LP_ERROR_TIMEOUT,
                    fmt::format("no memory descriptor from rank{} within {} ms", missing,
                                bootstrap.timeout_ms()));
    }
    pollfd wait{socket_fd, POLLIN, 0};
    poll(&wait, 1, all_sent ? 100 : 1);
    Status status = receive_descriptor(socket_fd, mailboxes[rank], wanted, received);
    if (!status.ok()) return status;
  }
}

}  // namespace

Result<std::vector<FileDescriptor>> exchange_descriptors(Bootstrap& bootstrap, int mine,
                                                         const std::vector<bool>& wanted) {
  Mailbox mailbox{};
  Result<FileDescriptor> socket_fd = open_mailbox(mailbox);
  Status status = vote(bootstrap, socket_fd.status(), "open a descriptor mailbox");
  if (!status.ok()) return status;
  std::vector<Mailbox> mailboxes;
  status = all_gather_value(bootstrap, mailbox, mailboxes, "exchange of descriptor mailboxes");
  if (!status.ok()) return status;
  std::vector<FileDescriptor> received(wanted.size());
  status = vote(bootstrap,
                exchange(bootstrap, socket_fd.value().get(), mailboxes, mine, wanted, received),
                "exchange of memory descriptors");
  if (!status.ok()) return status;
  return received;
}

}  // namespace lamppost
