#include "driver/cuda_memory.hpp"

#include <fmt/core.h>

namespace lamppost {
namespace {

using Use = CudaContextScope::Use;

CUmemAllocationProp properties_on(const CudaDevice& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.device()}};
  return properties;
}

Result<std::uint64_t> whole_granules(const CudaDevice& device, std::uint64_t bytes) {
  const CUmemAllocationProp properties = properties_on(device);
  std::size_t granule = 0;
  Status status = cuda_status(device.api(),
                              device.api().cuMemGetAllocationGranularity(
                                  &granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                              "cuMemGetAllocationGranularity");
  if (!status.ok()) return status;
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

Result<std::shared_ptr<CudaMapping>> CudaMapping::allocate(std::shared_ptr<CudaDevice> device,
                                                           std::uint64_t bytes) {
  const CudaApi& api = device->api();
  const CudaContextScope scope(api, device->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  const Result<std::uint64_t> whole = whole_granules(*device, bytes);
  if (!whole.ok()) return whole.status();
  const CUmemAllocationProp properties = properties_on(*device);
  const std::string purpose =
      fmt::format("allocate {} bytes on {}", whole.value(), device->facts().name);
  auto mapping = std::make_shared<CudaMapping>(std::move(device));
  Status status =
      cuda_status(api, api.cuMemCreate(&mapping->handle_, whole.value(), &properties, 0),
                  "cuMemCreate", purpose.c_str());
  if (!status.ok()) return status;
  mapping->has_handle_ = true;
  mapping->mapped_bytes_ = whole.value();
  status = mapping->map(bytes);
  if (!status.ok()) return status;
  return mapping;
}

Result<std::shared_ptr<CudaMapping>> CudaMapping::import(std::shared_ptr<CudaDevice> device,
                                                         int descriptor, std::uint64_t bytes) {
  const CudaApi& api = device->api();
  const CudaContextScope scope(api, device->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  const Result<std::uint64_t> whole = whole_granules(*device, bytes);
  if (!whole.ok()) return whole.status();
  auto mapping = std::make_shared<CudaMapping>(std::move(device));
  void* os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  Status status =
      cuda_status(api,
                  api.cuMemImportFromShareableHandle(&mapping->handle_, os_handle,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  "cuMemImportFromShareableHandle", "open a peer's memory");
  if (!status.ok()) return status;
  mapping->has_handle_ = true;
  mapping->mapped_bytes_ = whole.value();
  status = mapping->map(bytes);
  if (!status.ok()) return status;
  return mapping;
}

Status CudaMapping::map(std::uint64_t bytes) {
  const CudaApi& api = device_->api();
  Status status = cuda_status(api, api.cuMemAddressReserve(&reserved_, mapped_bytes_, 0, 0, 0),
                              "cuMemAddressReserve");
  if (!status.ok()) return status;
  status = cuda_status(api, api.cuMemMap(reserved_, mapped_bytes_, 0, handle_, 0), "cuMemMap");
  if (!status.ok()) return status;
  is_mapped_ = true;
  status = reach_from(*device_);
  if (!status.ok()) return status;
  address_ = reinterpret_cast<std::byte*>(reserved_);
  bytes_ = bytes;
  return {};
}

Status CudaMapping::reach_from(const CudaDevice& other) {
  const std::lock_guard lock(access_);
  const CudaContextScope scope(other.api(), other.context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {other.device()}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuda_status(other.api(), other.api().cuMemSetAccess(reserved_, mapped_bytes_, &access, 1),
                     "cuMemSetAccess", "give a device access to a rank's memory");
}

CudaMapping::~CudaMapping() {
  const CudaApi& api = device_->api();
  const CudaContextScope scope(api, device_->context(), Use::kSetUp);
  if (!scope.status().ok()) return;  // kept: what the driver may still map is never reused
  if (is_mapped_) (void)api.cuMemUnmap(reserved_, mapped_bytes_);
  if (reserved_ != 0) (void)api.cuMemAddressFree(reserved_, mapped_bytes_);
  if (has_handle_) (void)api.cuMemRelease(handle_);
}

Result<int> CudaMapping::export_descriptor() {
  if (exported_.is_open()) return exported_.get();
  const CudaApi& api = device_->api();
  const CudaContextScope scope(api, device_->context(), Use::kSetUp);
  if (!scope.status().ok()) return scope.status();
  int descriptor = -1;
  Status status = cuda_status(api,
                              api.cuMemExportToShareableHandle(
                                  &descriptor, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                              "cuMemExportToShareableHandle");
  if (!status.ok()) return status;
  exported_ = FileDescriptor(descriptor);
  return descriptor;
}

}  // namespace lamppost
