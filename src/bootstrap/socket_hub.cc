#include "bootstrap/socket_hub.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/system_error.hpp"

namespace lamppost::boot {
namespace {

// Connections without a hello that are kept open beside the ranks' own. More come only from
// strangers; the oldest goes first, so that they cannot use up the descriptors.
constexpr std::size_t kStrangerLimit = 64;

/// Removes the socket's file, if it has one, when listening ends.
class FileRemover {
 public:
  explicit FileRemover(const std::string& address) : address_(address) {}
  ~FileRemover() {
    if (address_[0] != '@') ::unlink(address_.c_str());
  }

 private:
  const std::string& address_;
};

}  // namespace

SocketHub::SocketHub(const SocketBootstrapOptions& options)
    : options_(options), members_(static_cast<std::size_t>(options.rank_count)) {
  set_timeout_ms(options.timeout_ms);
}

Status SocketHub::join() {
  if (rank_count() == 1) return {};
  auto listener = listen_at(options_.address, rank_count());
  if (!listener.ok()) return listener.status();
  const FileRemover remover(options_.address);
  Status joined = wait_for_hellos(listener.value(), Deadline::after_ms(timeout_ms()));
  if (!joined.ok()) return fail(std::move(joined));
  callers_.clear();

  Frame welcome;
  welcome.kind = FrameKind::kWelcome;
  welcome.secret = options_.secret;
  for (Member& member : members_) {
    if (member.channel) member.channel->try_send(welcome);
  }
  return {};
}

Status SocketHub::wait_for_hellos(const FileDescriptor& listener, Deadline deadline) {
  while (!missing().empty()) {
    std::vector<pollfd> entries{{listener.get(), POLLIN, 0}};
    for (const Caller& caller : callers_) entries.push_back({caller.channel->fd(), POLLIN, 0});
    for (const Member& member : members_) {
      if (member.channel) entries.push_back({member.channel->fd(), POLLIN, 0});
    }
    const int ready = poll_until(entries, deadline);
    if (ready < 0) return system_error("bootstrap: poll", errno);
    if (ready == 0) return timeout_error(kJoinPhase, missing(), deadline.timeout_ms());
    // Everything is non-blocking: looking at all costs less than finding out which one it was.
    Status accepted = accept_all(listener);
    if (!accepted.ok()) return accepted;
    Status read = read_callers(deadline);
    if (!read.ok()) return read;
    Status alive = check_joined();
    if (!alive.ok()) return alive;
  }
  return {};
}

Status SocketHub::accept_all(const FileDescriptor& listener) {
  for (;;) {
    auto accepted = accept_from(listener);
    if (!accepted.ok()) return accepted.status();
    if (!accepted.value().is_open()) return {};
    if (callers_.size() >= members_.size() + kStrangerLimit) callers_.erase(callers_.begin());
    callers_.push_back({std::make_unique<SocketChannel>(accepted.take()), Frame{}});
  }
}

Status SocketHub::read_callers(Deadline& deadline) {
  std::vector<Caller> undecided;
  Status verdict;
  for (Caller& caller : callers_) {
    const Progress progress = caller.channel->receive(&caller.hello, sizeof(Frame));
    if (progress == Progress::kPending) undecided.push_back(std::move(caller));
    if (progress == Progress::kDone && verdict.ok()) verdict = admit(caller, deadline);
  }
  callers_ = std::move(undecided);  // whoever was neither admitted nor undecided is closed here
  return verdict;
}

/// Makes a member of a caller with the right secret. Ok for strangers, too: they are just dropped.
/// One of ours with another version or rank_count fails the group: it would never come right.
Status SocketHub::admit(Caller& caller, Deadline& deadline) {
  const Frame& hello = caller.hello;
  if (hello.magic != kFrameMagic || hello.secret != options_.secret) return {};
  std::string refusal;
  if (hello.version != kFrameVersion || hello.kind != FrameKind::kHello) {
    refusal = fmt::format("rank {} speaks bootstrap version {}, rank 0 version {}", hello.rank,
                          hello.version, kFrameVersion);
  } else if (hello.rank_count != rank_count()) {
    refusal = fmt::format("rank {} was told of {} ranks, rank 0 of {}", hello.rank,
                          hello.rank_count, rank_count());
  } else if (hello.rank < 1 || hello.rank >= rank_count()) {
    refusal = fmt::format("a process came as rank {} of {}", hello.rank, rank_count());
  }
  if (!refusal.empty()) {
    Status status(LP_ERROR_BOOTSTRAP, "bootstrap: " + refusal);
    caller.channel->try_send(verdict_frame(0, status));
    return status;
  }
  Member& member = members_[static_cast<std::size_t>(hello.rank)];
  if (member.channel) {
    const Status taken(LP_ERROR_BOOTSTRAP,
                       fmt::format("bootstrap: rank {} has joined already", hello.rank));
    caller.channel->try_send(verdict_frame(0, taken));
    return {};
  }
  deadline.tighten(Deadline::from_peer(hello.deadline_ns, hello.timeout_ms, kSocketVerdictGraceMs));
  member.channel = std::move(caller.channel);
  member.stage = Stage::kArrived;
  return {};
}

/// A member that says anything before the welcome says that it has failed.
Status SocketHub::check_joined() {
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    Member& member = members_[rank];
    if (!member.channel) continue;
    const Progress progress = member.channel->receive(&member.frame, sizeof(Frame));
    if (progress == Progress::kDone) return verdict_status(member.frame);
    if (progress == Progress::kClosed) return peer_lost_error(kJoinPhase, static_cast<int>(rank));
  }
  return {};
}

Status SocketHub::all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) {
  if (!failure_.ok()) return failure_;
  const Deadline deadline = Deadline::after_ms(timeout_ms());
  const Frame call = data_frame({0, ++sequence_, bytes, phase}, deadline);
  if (bytes > 0) std::memmove(all, mine, bytes);
  for (std::size_t rank = 1; rank < members_.size(); ++rank) members_[rank].stage = Stage::kFrame;

  Status status = collect(call, static_cast<std::byte*>(all), deadline);
  if (status.ok()) status = distribute(call, static_cast<std::byte*>(all), deadline);
  return status.ok() ? Status() : fail(std::move(status));
}

/// Waits for all calls. Members that have arrived are watched too: their deaths and verdicts count.
Status SocketHub::collect(const Frame& mine, std::byte* all, Deadline deadline) {
  while (!missing().empty()) {
    std::vector<pollfd> entries;
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      entries.push_back({members_[rank].channel->fd(), POLLIN, 0});
    }
    const int ready = poll_until(entries, deadline);
    if (ready < 0) return system_error("bootstrap: poll", errno);
    if (ready == 0) return timeout_error(frame_text(mine), missing(), deadline.timeout_ms());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      Status status = advance(static_cast<int>(i) + 1, mine, all, deadline);
      if (!status.ok()) return status;
    }
  }
  return {};
}

/// Reads what rank `rank` has sent.
Status SocketHub::advance(int rank, const Frame& mine, std::byte* all, Deadline& deadline) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  const auto bytes = static_cast<std::size_t>(mine.bytes);
  for (;;) {
    const bool payload = member.stage == Stage::kPayload;
    void* target = &member.frame;
    if (payload) target = all + static_cast<std::size_t>(rank) * bytes;
    const Progress progress = member.channel->receive(target, payload ? bytes : sizeof(Frame));
    if (progress == Progress::kPending) return {};
    if (progress == Progress::kClosed) return peer_lost_error(frame_text(mine), rank);
    if (payload) {
      member.stage = Stage::kArrived;
      continue;  // perhaps its last words are behind it
    }
    if (member.frame.kind == FrameKind::kVerdict) return verdict_status(member.frame);
    Status same = check_data_frame(mine, member.frame, rank);
    if (!same.ok()) return same;
    if (member.stage == Stage::kArrived) {
      return Status(LP_ERROR_BOOTSTRAP,
                    fmt::format("bootstrap step '{}': rank {} came twice", frame_text(mine), rank));
    }
    deadline.tighten(Deadline::from_peer(member.frame.deadline_ns, member.frame.timeout_ms,
                                         kSocketVerdictGraceMs));
    member.stage = bytes > 0 ? Stage::kPayload : Stage::kArrived;
  }
}

/// Sends the result. A member that has died since it came is found by the next call, on all ranks:
/// the others have the result of this one.
Status SocketHub::distribute(const Frame& mine, const std::byte* all, const Deadline& deadline) {
  Frame result = mine;
  result.bytes = mine.bytes * members_.size();
  for (Member& member : members_) {
    if (member.channel) member.channel->start_send(result, all, result.bytes);
  }
  for (;;) {
    const std::vector<int> unfinished = send_result();
    if (unfinished.empty()) return {};
    std::vector<pollfd> entries;
    entries.reserve(unfinished.size());
    for (int rank : unfinished) {
      entries.push_back({members_[static_cast<std::size_t>(rank)].channel->fd(), POLLOUT, 0});
    }
    const int ready = poll_until(entries, deadline);
    if (ready < 0) return system_error("bootstrap: poll", errno);
    if (ready == 0) return timeout_error(frame_text(mine), unfinished, deadline.timeout_ms());
  }
}

/// Writes to all members what they take now; returns those that have not taken all.
std::vector<int> SocketHub::send_result() {
  std::vector<int> unfinished;
  for (int rank = 1; rank < rank_count(); ++rank) {
    SocketChannel& channel = *members_[static_cast<std::size_t>(rank)].channel;
    if (channel.continue_send() == Progress::kPending) unfinished.push_back(rank);
  }
  return unfinished;
}

std::vector<int> SocketHub::missing() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < rank_count(); ++rank) {
    if (members_[static_cast<std::size_t>(rank)].stage != Stage::kArrived) ranks.push_back(rank);
  }
  return ranks;
}

Status SocketHub::fail(Status status) {
  failure_ = std::move(status);
  const Frame verdict = verdict_frame(0, failure_);
  for (Member& member : members_) {
    if (member.channel) member.channel->try_send(verdict);
  }
  return failure_;
}

}  // namespace lamppost::boot
