// Reading the control pages of another process, which may be stuck, through /proc/PID/fd.
#include "base/file_descriptor.hpp"
#include "base/system_error.hpp"
#include "health/health.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lamppost {
namespace {

namespace fs = std::filesystem;
using device::ControlPage;

/// The page behind one descriptor; false if it is no control page of a version known here.
bool read_page(const fs::path& path, RemoteHealth& remote) {
  FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!descriptor.is_open() || fstat(descriptor.get(), &facts) != 0) return false;
  if (static_cast<std::uint64_t>(facts.st_size) < sizeof(ControlPage)) return false;
  void* memory = mmap(nullptr, sizeof(ControlPage), PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) return false;
  const auto& page = *static_cast<const ControlPage*>(memory);
  const bool is_known =
      page.magic == device::kControlPageMagic && page.version == device::kControlPageVersion;
  if (is_known) {
    remote.process_id = page.process_id;
    remote.communicator_id = page.communicator_id;
    remote.host_name.assign(page.host_name, strnlen(page.host_name, sizeof(page.host_name)));
    remote.health = read_health(page);
  }
  munmap(memory, sizeof(ControlPage));
  return is_known;
}

}  // namespace

Result<std::vector<RemoteHealth>> read_process_health(int process_id) {
  const fs::path folder = fmt::format("/proc/{}/fd", process_id);
  std::error_code error;
  std::vector<RemoteHealth> found;
  const std::string wanted = fmt::format("/memfd:{}", kControlPageName);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;  // a descriptor may close meanwhile
    if (fs::read_symlink(entry->path(), gone).string().rfind(wanted, 0) != 0) continue;
    RemoteHealth remote{};
    if (read_page(entry->path(), remote)) found.push_back(std::move(remote));
  }
  if (error) return system_error(fmt::format("reading {}", folder.string()), error.value());
  return found;
}

}  // namespace lamppost
