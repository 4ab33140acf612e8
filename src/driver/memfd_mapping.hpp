// Memory of this machine that processes share by descriptor (memfd_create(2)): the host backend's
// workspaces, and control pages on every backend.
#pragma once

#include "base/file_descriptor.hpp"
#include "driver/driver.hpp"

namespace lamppost {

class MemfdMapping : public SharedMapping {
 public:
  /// New memory, zero, reserved now. RESOURCE_LIMIT, OUT_OF_MEMORY or SYSTEM.
  static Result<std::shared_ptr<MemfdMapping>> allocate(std::uint64_t bytes, const char* name);
  /// Maps memory whose descriptor another process has sent; it stays the caller's.
  static Result<std::shared_ptr<MemfdMapping>> import(int descriptor, std::uint64_t bytes);
  ~MemfdMapping() override;

  /// Closed after close_export(), and in importers.
  FileDescriptor& descriptor() { return descriptor_; }

 private:
  Status map(int descriptor, std::uint64_t bytes);

  FileDescriptor descriptor_;
};

}  // namespace lamppost
