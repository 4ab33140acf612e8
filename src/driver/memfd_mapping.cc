#include "driver/memfd_mapping.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.hpp"

namespace lamppost {

Result<std::shared_ptr<MemfdMapping>> MemfdMapping::allocate(std::uint64_t bytes,
                                                             const char* name) {
  auto mapping = std::make_shared<MemfdMapping>();
  mapping->descriptor_ = FileDescriptor(memfd_create(name, MFD_CLOEXEC));
  if (!mapping->descriptor_.is_open()) return system_error("memfd_create", errno);
  // Reserves the memory now: a full tmpfs must be an error here, not a bus error in a kernel.
  const int error = posix_fallocate(mapping->descriptor_.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    return system_error(fmt::format("allocating {} bytes of shared memory", bytes), error);
  }
  Status status = mapping->map(mapping->descriptor_.get(), bytes);
  if (!status.ok()) return status;
  return mapping;
}

Result<std::shared_ptr<MemfdMapping>> MemfdMapping::import(int descriptor, std::uint64_t bytes) {
  auto mapping = std::make_shared<MemfdMapping>();
  Status status = mapping->map(descriptor, bytes);
  if (!status.ok()) return status;
  return mapping;
}

MemfdMapping::~MemfdMapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

Status MemfdMapping::map(int descriptor, std::uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return system_error(fmt::format("mmap of {} bytes of shared memory", bytes), errno);
  }
  address_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  return {};
}

}  // namespace lamppost
