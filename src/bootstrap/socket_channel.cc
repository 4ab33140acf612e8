#include "bootstrap/socket_channel.hpp"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/system_error.hpp"

namespace lamppost::boot {
namespace {

/// Repeats a system call while a signal handler interrupts it.
template <class Call>
auto retry_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

struct SocketAddress {
  sockaddr_un storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<SocketAddress> parse_address(const std::string& text) {
  SocketAddress address;
  address.storage.sun_family = AF_UNIX;
  const std::size_t limit = sizeof(address.storage.sun_path) - 1;
  if (text.empty() || text == "@" || text.size() > limit) {
    return Status(
        LP_ERROR_INVALID_ARGUMENT,
        fmt::format("bootstrap: socket address '{}' must have 1 to {} bytes", text, limit));
  }
  std::memcpy(address.storage.sun_path, text.data(), text.size());
  std::size_t path_bytes = text.size() + 1;
  if (text[0] == '@') {
    address.storage.sun_path[0] = '\0';
    path_bytes = text.size();  // an abstract name has no terminator
  }
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_bytes);
  return address;
}

Result<FileDescriptor> make_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_error("bootstrap: socket", errno);
  return socket;
}

}  // namespace

Progress SocketChannel::receive(void* target, std::size_t bytes) {
  while (in_done_ < bytes) {
    auto* to = static_cast<std::byte*>(target) + in_done_;
    const ssize_t got =
        retry_interrupted([&] { return ::recv(fd(), to, bytes - in_done_, MSG_DONTWAIT); });
    if (got < 0 && would_block()) return Progress::kPending;
    if (got <= 0) return Progress::kClosed;
    in_done_ += static_cast<std::size_t>(got);
  }
  in_done_ = 0;
  return Progress::kDone;
}

void SocketChannel::start_send(const Frame& frame, const void* payload, std::size_t bytes) {
  out_frame_ = frame;
  out_payload_ = payload;
  out_done_ = 0;
  out_total_ = sizeof(Frame) + bytes;
}

Progress SocketChannel::continue_send() {
  while (sending()) {
    iovec parts[2];
    std::size_t count = 0;
    const std::size_t header_bytes = sizeof(Frame);
    if (out_done_ < header_bytes) {
      auto* header = reinterpret_cast<std::byte*>(&out_frame_);
      parts[count++] = {header + out_done_, header_bytes - out_done_};
    }
    const std::size_t skip = out_done_ > header_bytes ? out_done_ - header_bytes : 0;
    if (const std::size_t left = out_total_ - header_bytes - skip; left > 0) {
      // sendmsg only reads, but iovec has no const.
      auto* payload = static_cast<std::byte*>(const_cast<void*>(out_payload_));
      parts[count++] = {payload + skip, left};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t put =
        retry_interrupted([&] { return ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (put < 0) return would_block() ? Progress::kPending : Progress::kClosed;
    out_done_ += static_cast<std::size_t>(put);
  }
  return Progress::kDone;
}

void SocketChannel::try_send(const Frame& frame) {
  if (sending()) return;  // inside another message the peer would read it as payload
  start_send(frame, nullptr, 0);
  (void)continue_send();
}

int poll_until(std::vector<pollfd>& entries, const Deadline& deadline) {
  for (;;) {
    const int left_ms = deadline.poll_ms();
    const int ready = ::poll(entries.data(), entries.size(), left_ms);
    if (ready < 0 && errno != EINTR) return -1;
    if (ready > 0) return ready;
    if (left_ms == 0) return 0;
  }
}

Result<FileDescriptor> listen_at(const std::string& address, int backlog) {
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  auto made = make_socket();
  if (!made.ok()) return made.status();
  FileDescriptor listener = made.take();
  if (::bind(listener.get(), parsed.value().get(), parsed.value().bytes) != 0) {
    if (errno != EADDRINUSE)
      return system_error(fmt::format("bootstrap: bind to '{}'", address), errno);
    return Status(
        LP_ERROR_BOOTSTRAP,
        fmt::format("bootstrap: socket address '{}' is in use: another job has this name, "
                    "or a socket file was left behind",
                    address));
  }
  if (::listen(listener.get(), backlog) != 0) {
    return system_error(fmt::format("bootstrap: listen at '{}'", address), errno);
  }
  return listener;
}

Result<FileDescriptor> accept_from(const FileDescriptor& listener) {
  const int fd = retry_interrupted(
      [&] { return ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
  // ECONNABORTED: whoever it was has left the queue again.
  if (fd < 0 && !would_block() && errno != ECONNABORTED)
    return system_error("bootstrap: accept", errno);
  return FileDescriptor(fd);
}

Result<FileDescriptor> connect_to(const std::string& address, const Deadline& deadline) {
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  auto made = make_socket();
  if (!made.ok()) return made.status();
  FileDescriptor socket = made.take();
  for (auto pause = std::chrono::microseconds(200);;) {
    const int connected = retry_interrupted(
        [&] { return ::connect(socket.get(), parsed.value().get(), parsed.value().bytes); });
    if (connected == 0) return socket;
    // Not there yet, there but not listening yet, or its queue is full.
    if (errno != ENOENT && errno != ECONNREFUSED && !would_block()) {
      return system_error(fmt::format("bootstrap: connect to '{}'", address), errno);
    }
    if (deadline.passed()) return FileDescriptor();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

}  // namespace lamppost::boot
