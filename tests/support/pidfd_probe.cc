#include "support/pidfd_probe.hpp"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_descriptor.hpp"
#include "support/fork_launcher.hpp"

namespace lamppost::test {

std::string why_no_pidfd() {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_getfd)
  int ready[2];
  if (pipe(ready) != 0) return "no pipe";
  ForkedRanks other(1, [&](int) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    const bool is_told = write(ready[1], "x", 1) == 1;
    pause();
    return is_told ? 0 : 1;
  });
  char word = 0;
  const bool is_ready = read(ready[0], &word, 1) == 1;
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, other.pid(0), 0)));
  const FileDescriptor copy(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), 1, 0)));
  const int error = errno;
  close(ready[0]);
  close(ready[1]);
  if (is_ready && copy.is_open()) return {};
  return fmt::format("no pidfd_getfd here: {}", std::strerror(error));
#else
  return "these system headers do not know pidfd_getfd";
#endif
}

}  // namespace lamppost::test
