#include "bootstrap/socket_spoke.hpp"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "base/system_error.hpp"

namespace lamppost::boot {

SocketSpoke::SocketSpoke(const SocketBootstrapOptions& options) : options_(options) {
  set_timeout_ms(options.timeout_ms);
}

Status SocketSpoke::join() {
  const Deadline deadline = Deadline::after_ms(timeout_ms());
  auto connected = connect_to(options_.address, deadline);
  if (!connected.ok()) return connected.status();
  if (!connected.value().is_open()) return timeout_error(kJoinPhase, {0}, timeout_ms());
  hub_ = std::make_unique<SocketChannel>(connected.take());
  Status greeted = greet(deadline);
  return greeted.ok() ? Status() : fail(std::move(greeted));
}

Status SocketSpoke::greet(const Deadline& deadline) {
  Frame hello = data_frame({rank(), 0, 0, kJoinPhase}, deadline);
  hello.kind = FrameKind::kHello;
  hello.secret = options_.secret;
  hello.rank_count = rank_count();
  const Deadline patience = deadline.plus_ms(kSocketVerdictGraceMs);
  Status sent = send_call(hello, nullptr, patience);
  if (!sent.ok()) return sent;
  Frame answer;
  Status received = receive(&answer, sizeof(answer), hello, patience);
  if (received.code() == LP_ERROR_PEER_LOST) {
    return Status(LP_ERROR_PEER_LOST,
                  "bootstrap step 'join': rank 0 is gone (it ended or gave up), or it refused this "
                  "rank because its secret is another");
  }
  if (!received.ok()) return received;
  if (answer.magic == kFrameMagic && answer.kind == FrameKind::kVerdict) {
    return verdict_status(answer);
  }
  if (answer.magic != kFrameMagic || answer.version != kFrameVersion ||
      answer.kind != FrameKind::kWelcome || answer.secret != options_.secret) {
    return Status(
        LP_ERROR_BOOTSTRAP,
        fmt::format("bootstrap: what listens at '{}' is not rank 0 of this job", options_.address));
  }
  return {};
}

Status SocketSpoke::all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) {
  if (!failure_.ok()) return failure_;
  const Deadline deadline = Deadline::after_ms(timeout_ms());
  const Frame call = data_frame({rank(), ++sequence_, bytes, phase}, deadline);
  // Rank 0 knows this rank's deadline and judges when it passes; only if rank 0 itself is silent
  // does this rank judge, a little later.
  Status status = exchange(call, mine, all, deadline.plus_ms(kSocketVerdictGraceMs));
  return status.ok() ? Status() : fail(std::move(status));
}

Status SocketSpoke::exchange(const Frame& call, const void* mine, void* all,
                             const Deadline& patience) {
  Status sent = send_call(call, mine, patience);
  if (!sent.ok()) return sent;
  Frame answer;
  Status received = receive(&answer, sizeof(answer), call, patience);
  if (!received.ok()) return received;
  if (answer.magic == kFrameMagic && answer.kind == FrameKind::kVerdict) {
    return verdict_status(answer);
  }
  Frame expected = call;
  expected.bytes = call.bytes * static_cast<std::uint64_t>(rank_count());
  Status same = check_data_frame(expected, answer, 0);
  if (!same.ok()) return same;
  return receive(all, static_cast<std::size_t>(expected.bytes), call, patience);
}

/// Sends this rank's part. Ok also if rank 0 answers or closes first: then its answer, a verdict,
/// is what to read next.
Status SocketSpoke::send_call(const Frame& call, const void* mine, const Deadline& patience) {
  hub_->start_send(call, mine, static_cast<std::size_t>(call.bytes));
  while (hub_->continue_send() == Progress::kPending) {
    std::vector<pollfd> entries{{hub_->fd(), POLLIN | POLLOUT, 0}};
    const int ready = poll_until(entries, patience);
    if (ready < 0) return system_error("bootstrap: poll", errno);
    if (ready == 0) return timeout_error(frame_text(call), {0}, patience.timeout_ms());
    if ((entries[0].revents & POLLIN) != 0) break;
  }
  return {};
}

Status SocketSpoke::receive(void* target, std::size_t bytes, const Frame& call,
                            const Deadline& patience) {
  for (;;) {
    const Progress progress = hub_->receive(target, bytes);
    if (progress == Progress::kDone) return {};
    if (progress == Progress::kClosed) return peer_lost_error(frame_text(call), 0);
    std::vector<pollfd> entries{{hub_->fd(), POLLIN, 0}};
    const int ready = poll_until(entries, patience);
    if (ready < 0) return system_error("bootstrap: poll", errno);
    if (ready == 0) return timeout_error(frame_text(call), {0}, patience.timeout_ms());
  }
}

/// Keeps the failure and tells rank 0, which passes it on. If it came from rank 0, nobody listens.
Status SocketSpoke::fail(Status status) {
  failure_ = std::move(status);
  hub_->try_send(verdict_frame(rank(), failure_));
  return failure_;
}

}  // namespace lamppost::boot
