// Device memory that peers can map: a physical allocation of the CUDA virtual memory management API, with
// a POSIX file descriptor as its handle, and one mapping of it (CUDA Driver API, "Virtual Memory
// Management").
#pragma once

#include "base/file_descriptor.hpp"
#include "driver/cuda_device.hpp"

namespace lamppost {

class CudaMapping final : public SharedMapping {
 public:
  /// New memory on `device`, mapped there.
  static Result<std::shared_ptr<CudaMapping>> allocate(std::shared_ptr<CudaDevice> device,
                                                       std::uint64_t bytes);
  /// Maps a peer's memory for `device`. The descriptor stays the caller's.
  static Result<std::shared_ptr<CudaMapping>> import(std::shared_ptr<CudaDevice> device,
                                                     int descriptor, std::uint64_t bytes);
  ~CudaMapping() override;

  /// The exporting descriptor, made on first use; borrowed.
  Result<int> export_descriptor();
  void close_export() { exported_.reset(); }
  /// Lets `other` access the mapping too. Any thread.
  Status reach_from(const CudaDevice& other);

  explicit CudaMapping(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

 private:
  Status map(std::uint64_t bytes);

  std::shared_ptr<CudaDevice> device_;
  CUmemGenericAllocationHandle handle_ = 0;
  bool has_handle_ = false;
  CUdeviceptr reserved_ = 0;
  bool is_mapped_ = false;
  std::uint64_t mapped_bytes_ = 0;  // whole granules
  FileDescriptor exported_;
  std::mutex access_;
};

}  // namespace lamppost
