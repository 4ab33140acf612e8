#include "transports/descriptor_pidfd.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <mutex>

#include "base/system_error.hpp"

namespace lamppost {
namespace {

// The same on all architectures; C libraries know them since 2.36, their headers of the kernel
// earlier.
#ifdef SYS_pidfd_open
constexpr long kPidfdOpen = SYS_pidfd_open;
#else
constexpr long kPidfdOpen = 434;
#endif
#ifdef SYS_pidfd_getfd
constexpr long kPidfdGetfd = SYS_pidfd_getfd;
#else
constexpr long kPidfdGetfd = 438;
#endif

using Secret = std::array<std::uint64_t, 2>;

/// What a rank needs to take another's descriptor.
struct Pass {
  std::int32_t process;     // 0: the rank has nothing to give
  std::int32_t descriptor;  // that process' numbers
  std::int32_t proof;       // a file that holds `secret`
  std::int32_t unused;
  Secret secret;  // a process of that number in another PID namespace does not have it
};

/// Fills `pass` with what this rank tells; the result keeps the proof alive.
Result<FileDescriptor> issue_pass(int descriptor, Pass& pass) {
  if (getrandom(&pass.secret, sizeof(pass.secret), 0) != sizeof(pass.secret)) {
    return system_error("getrandom", errno);
  }
  FileDescriptor proof(memfd_create("lamppost-proof", MFD_CLOEXEC));
  if (!proof.is_open()) return system_error("memfd_create", errno);
  if (pwrite(proof.get(), &pass.secret, sizeof(pass.secret), 0) != sizeof(pass.secret)) {
    return system_error("pwrite to a memfd", errno);
  }
  pass.process = getpid();
  pass.descriptor = descriptor;
  pass.proof = proof.get();
  return proof;
}

/// kernel.yama.ptrace_scope; -1: this kernel has no Yama.
int ptrace_scope() {
  int scope = -1;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

std::string advice(int error) {
  if (error == ENOSYS)
    return "; it takes Linux 5.6, and a container whose seccomp profile allows it";
  if (error == ESRCH || error == EBADF) return "; ranks must share a PID namespace";
  if (error != EPERM && error != EACCES) return {};
  const int scope = ptrace_scope();
  if (scope >= 2) return fmt::format("; kernel.yama.ptrace_scope is {}, ranks need 0 or 1", scope);
  return "; ranks must be of one user and PID namespace, and a container must allow it "
         "(--cap-add=SYS_PTRACE)";
}

Status refusal(const char* call, int rank, int error) {
  const Status status = system_error(fmt::format("{} of rank {}", call, rank), error);
  return Status(status.code(), status.message() + advice(error));
}

Result<FileDescriptor> copy_descriptor(const FileDescriptor& process, int number, int rank) {
  FileDescriptor copy(static_cast<int>(syscall(kPidfdGetfd, process.get(), number, 0)));
  if (!copy.is_open()) return refusal("pidfd_getfd", rank, errno);
  return copy;
}

Result<FileDescriptor> take_descriptor(const Pass& from, int rank) {
  const FileDescriptor process(static_cast<int>(syscall(kPidfdOpen, from.process, 0)));
  if (!process.is_open()) return refusal("pidfd_open", rank, errno);
  const Result<FileDescriptor> proof = copy_descriptor(process, from.proof, rank);
  if (!proof.ok()) return proof.status();
  Secret found{};
  const ssize_t bytes = pread(proof.value().get(), &found, sizeof(found), 0);
  if (bytes != sizeof(found) || found != from.secret) {
    return Status(LP_ERROR_SYSTEM,
                  fmt::format("process {} is not rank {}: ranks must share a PID namespace",
                              from.process, rank));
  }
  return copy_descriptor(process, from.descriptor, rank);
}

Status take_all(const std::vector<Pass>& passes, const std::vector<bool>& wanted,
                std::vector<FileDescriptor>& received) {
  for (std::size_t r = 0; r < passes.size(); ++r) {
    if (!wanted[r]) continue;
    if (passes[r].process == 0) {
      return Status(LP_ERROR_ABORTED, fmt::format("rank {} has no descriptor to take", r));
    }
    Result<FileDescriptor> taken = take_descriptor(passes[r], static_cast<int>(r));
    if (!taken.ok()) return taken.status();
    received[r] = taken.take();
  }
  return {};
}

/// While one exists, Yama lets every process of this user take descriptors out of this one (scope 1
/// asks for that; elsewhere nothing changes). What the program had asked for before is forgotten
/// afterwards.
class LeaveToTrace {
 public:
  LeaveToTrace() { count(1); }
  ~LeaveToTrace() { count(-1); }
  LeaveToTrace(const LeaveToTrace&) = delete;
  LeaveToTrace& operator=(const LeaveToTrace&) = delete;

 private:
  static void count(int change) {
    static std::mutex mutex;
    static int leaves = 0;  // ranks of this process may need it at the same time
    if (ptrace_scope() != 1) return;
    const std::lock_guard lock(mutex);
    leaves += change;
    prctl(PR_SET_PTRACER, leaves > 0 ? PR_SET_PTRACER_ANY : 0, 0, 0, 0);
  }
};

}  // namespace

DescriptorOutcome exchange_by_pidfd(Bootstrap& bootstrap, const DescriptorRequest& request) {
  constexpr const char* kStep = "take memory descriptors by pidfd";
  DescriptorOutcome outcome;
  Pass mine{};
  Result<FileDescriptor> proof = request.fault.check(bootstrap.rank(), "pidfd");
  if (proof.status().ok()) proof = issue_pass(request.mine, mine);
  std::vector<Pass> passes;
  outcome.bootstrap = all_gather_value(bootstrap, mine, passes, "exchange of descriptor numbers");
  if (!outcome.bootstrap.ok()) return outcome;

  const auto attempt = [&] {
    outcome.received = std::vector<FileDescriptor>(passes.size());
    Status taken = proof.status();
    if (taken.ok()) taken = take_all(passes, request.wanted, outcome.received);
    outcome.bootstrap = gather_verdict(bootstrap, taken, kStep, outcome.verdict);
  };
  attempt();
  if (!outcome.bootstrap.ok() || outcome.verdict.ok()) return outcome;
  const LeaveToTrace leave;  // not at once: another part of the program may have asked for its own
  outcome.bootstrap = bootstrap.barrier("leave to take descriptors");
  if (outcome.bootstrap.ok()) attempt();
  return outcome;
}

}  // namespace lamppost
