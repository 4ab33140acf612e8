// The scripted driver: virtual memory management over memfds, device memory, registered host memory.
// Every piece is freed exactly once, in the real driver's order; anything else is an error.
#include "scripted_driver/state.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace lamppost::test::scripted {
namespace {

constexpr char kMemoryName[] = "scripted-cuda";

std::byte* bytes_at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

/// Nothing there any more, but the addresses stay reserved.
bool close_range(std::uintptr_t address, std::size_t bytes) {
  return mmap(bytes_at(address), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/// The entry of an ordered map of ranges that holds `address`; end: none.
template <class Map, class Bytes>
auto find_range(Map& ranges, std::uintptr_t address, Bytes bytes_of) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  --after;
  return address - after->first < bytes_of(after->second) ? after : ranges.end();
}
std::size_t bytes_of_entry(std::size_t bytes) { return bytes; }
template <class Entry>
std::size_t bytes_of_entry(const Entry& entry) {
  return entry.bytes;
}
template <class Map>
auto find_in(Map& ranges, std::uintptr_t address) {
  return find_range(ranges, address, [](const auto& entry) { return bytes_of_entry(entry); });
}

/// New memory is not zero: what relies on zeros shall fail here.
std::shared_ptr<Allocation> make_allocation(std::size_t bytes, bool is_exportable) {
  auto made = std::make_shared<Allocation>();
  ++state().open_allocations;
  made->descriptor = memfd_create(kMemoryName, MFD_CLOEXEC);
  made->bytes = bytes;
  made->is_exportable = is_exportable;
  if (made->descriptor < 0 || ftruncate(made->descriptor, static_cast<off_t>(bytes)) != 0) {
    return nullptr;
  }
  void* memory = mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, made->descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 0xa5, bytes);
  munmap(memory, bytes);
  return made;
}

bool is_memory_of_a_scripted_driver(int descriptor) {
  std::array<char, 256> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size() - 1);
  return length > 0 && std::strstr(target.data(), kMemoryName) != nullptr;
}

std::uintptr_t reserve(std::size_t bytes) {
  const std::size_t all = bytes + kGranularity;
  void* memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned != start) munmap(memory, aligned - start);
  const std::size_t behind = start + all - (aligned + bytes);
  if (behind != 0) munmap(bytes_at(aligned + bytes), behind);
  return aligned;
}

bool is_granular(std::size_t bytes) { return bytes != 0 && bytes % kGranularity == 0; }

bool is_property(const CUmemAllocationProp& property) {
  constexpr unsigned kPosix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  unsigned fabric = CU_MEM_HANDLE_TYPE_FABRIC;
  if (!state().settings.has_fabric) fabric = 0;
  return property.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         property.location.type == CU_MEM_LOCATION_TYPE_DEVICE && property.location.id >= 0 &&
         property.location.id < state().settings.device_count &&
         (static_cast<unsigned>(property.requestedHandleTypes) & ~(kPosix | fabric)) == 0;
}

}  // namespace

Allocation::~Allocation() {
  if (descriptor >= 0) close(descriptor);
  --state().open_allocations;
}

bool is_open_to(std::uintptr_t address, std::size_t bytes, CUdevice device) {
  State& all = state();
  if (auto found = find_in(all.mappings, address); found != all.mappings.end()) {
    return address + bytes <= found->first + found->second.bytes &&
           found->second.open_to.contains(device);
  }
  if (auto found = find_in(all.device_memory, address); found != all.device_memory.end()) {
    return address + bytes <= found->first + found->second.bytes;
  }
  return false;
}

bool is_known(std::uintptr_t address) {
  State& all = state();
  return find_in(all.mappings, address) != all.mappings.end() ||
         find_in(all.device_memory, address) != all.device_memory.end() ||
         find_in(all.registrations, address) != all.registrations.end();
}

bool is_trap(std::uintptr_t address, CUdevice device) {
  State& all = state();
  if (find_in(all.reservations, address) != all.reservations.end()) {
    return !is_open_to(address, 1, device);
  }
  return !all.settings.has_host_pointer &&
         find_in(all.registrations, address) != all.registrations.end();
}

void free_memory_of(CUdevice device) {
  auto& memory = state().device_memory;
  for (auto at = memory.begin(); at != memory.end();) {
    if (at->second.device != device) {
      ++at;
      continue;
    }
    munmap(bytes_at(at->first), at->second.bytes);
    at = memory.erase(at);
  }
}

}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

// ---- Virtual memory ------------------------------------------------------------------------------
// These need no context, as in the real driver: the device is in the arguments.

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity,
                                               const CUmemAllocationProp* property,
                                               CUmemAllocationGranularity_flags) {
  return call("cuMemGetAllocationGranularity", kNeedsInit, [&] {
    if (!is_property(*property)) return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                             const CUmemAllocationProp* property, unsigned long long flags) {
  return call("cuMemCreate", kNeedsInit | kUnsafeInCapture, [&] {
    const Lock lock(state().mutex);
    if (flags != 0 || !is_granular(bytes) || !is_property(*property)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto made = make_allocation(
        bytes, (property->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0);
    if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = new_handle();
    state().allocations[*handle] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    return state().allocations.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment,
                                     CUdeviceptr, unsigned long long flags) {
  return call("cuMemAddressReserve", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    const bool is_alignment = (alignment & (alignment - 1)) == 0 && alignment <= kGranularity;
    if (flags != 0 || !is_granular(bytes) || !is_alignment) return CUDA_ERROR_INVALID_VALUE;
    *address = reserve(bytes);
    if (*address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    state().reservations[*address] = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return call("cuMemAddressFree", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    State& all = state();
    const auto found = all.reservations.find(address);
    if (found == all.reservations.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    const auto mapped = all.mappings.lower_bound(address);
    if (mapped != all.mappings.end() && mapped->first < address + bytes) {
      return CUDA_ERROR_INVALID_VALUE;  // still mapped
    }
    all.reservations.erase(found);
    munmap(bytes_at(address), bytes);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return call("cuMemMap", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    State& all = state();
    const auto allocation = all.allocations.find(handle);
    const auto range = find_in(all.reservations, address);
    if (flags != 0 || offset != 0 || !is_granular(bytes) || address % kGranularity != 0 ||
        allocation == all.allocations.end() || bytes > allocation->second->bytes ||
        range == all.reservations.end() || address + bytes > range->first + range->second) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto next = all.mappings.lower_bound(address);
    if (find_in(all.mappings, address) != all.mappings.end() ||
        (next != all.mappings.end() && next->first < address + bytes)) {
      return CUDA_ERROR_INVALID_VALUE;  // something is mapped there
    }
    if (mmap(bytes_at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             allocation->second->descriptor, 0) == MAP_FAILED) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    all.mappings[address] = {bytes, allocation->second, {}};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return call("cuMemUnmap", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    const auto found = state().mappings.find(address);
    if (found == state().mappings.end() || found->second.bytes != bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!close_range(address, bytes)) return CUDA_ERROR_UNKNOWN;
    state().mappings.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                                size_t count) {
  return call("cuMemSetAccess", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    const auto found = state().mappings.find(address);
    if (found == state().mappings.end() || found->second.bytes != bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; ++i) {
      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
          access[i].location.id >= state().settings.device_count ||
          access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      found->second.open_to.insert(access[i].location.id);
    }
    const bool opened = mprotect(bytes_at(address), bytes, PROT_READ | PROT_WRITE) == 0;
    return opened ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  });
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
  return call("cuMemExportToShareableHandle", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    const auto found = state().allocations.find(handle);
    if (flags != 0 || found == state().allocations.end() || !found->second->is_exportable) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    const int descriptor = fcntl(found->second->descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(shareable) = descriptor;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* os_handle, CUmemAllocationHandleType type) {
  return call("cuMemImportFromShareableHandle", kNeedsInit, [&] {
    const Lock lock(state().mutex);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
    struct stat facts {};
    if (fstat(given, &facts) != 0 || !is_memory_of_a_scripted_driver(given) ||
        !is_granular(static_cast<size_t>(facts.st_size))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto imported = std::make_shared<Allocation>();
    ++state().open_allocations;
    imported->descriptor = fcntl(given, F_DUPFD_CLOEXEC, 0);
    imported->bytes = static_cast<size_t>(facts.st_size);
    if (imported->descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *handle = new_handle();
    state().allocations[*handle] = std::move(imported);
    return CUDA_SUCCESS;
  });
}

// ---- Device memory and registered host memory ----------------------------------------------------

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return call("cuMemAlloc", kNeedsInit | kNeedsContext | kUnsafeInCapture, [&] {
    const Lock lock(state().mutex);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(memory, 0xa5, bytes);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    state().device_memory[*address] = {bytes, current_context()->device};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  return call("cuMemFree", kNeedsInit | kNeedsContext | kUnsafeInCapture | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    if (address == 0) return CUDA_SUCCESS;
    const auto found = state().device_memory.find(address);
    if (found == state().device_memory.end()) return CUDA_ERROR_INVALID_VALUE;
    munmap(bytes_at(address), found->second.bytes);
    state().device_memory.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostRegister(void* memory, size_t bytes, unsigned flags) {
  return call("cuMemHostRegister", kNeedsInit | kNeedsContext | kUnsafeInCapture, [&] {
    const Lock lock(state().mutex);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (address % 4096 != 0 || bytes == 0 || bytes % 4096 != 0 || (flags & ~kKnown) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (find_in(state().registrations, address) != state().registrations.end()) {
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    void* alias = memory;
    if (!state().settings.has_host_pointer) {
      alias = mremap(memory, 0, bytes, MREMAP_MAYMOVE);  // the same pages (shared memory only) again
      if (alias == MAP_FAILED) return CUDA_ERROR_NOT_SUPPORTED;
    }
    state().registrations[address] = {bytes, flags, static_cast<std::byte*>(alias)};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostUnregister(void* memory) {
  return call("cuMemHostUnregister", kNeedsInit | kNeedsContext | kUnsafeInCapture | kActsAnyway,
              [&] {
                const Lock lock(state().mutex);
                const auto found =
                    state().registrations.find(reinterpret_cast<std::uintptr_t>(memory));
                if (found == state().registrations.end()) {
                  return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
                }
                if (found->second.device_address != memory) {
                  munmap(found->second.device_address, found->second.bytes);
                }
                state().registrations.erase(found);
                return CUDA_SUCCESS;
              });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned flags) {
  return call("cuMemHostGetDevicePointer", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto host = reinterpret_cast<std::uintptr_t>(memory);
    const auto found = find_in(state().registrations, host);
    if (flags != 0 || found == state().registrations.end() ||
        (found->second.flags & CU_MEMHOSTREGISTER_DEVICEMAP) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *address = reinterpret_cast<CUdeviceptr>(found->second.device_address) + (host - found->first);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  return call("cuPointerGetAttribute", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER || !is_known(address)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *static_cast<CUdeviceptr*>(value) = address;
    return CUDA_SUCCESS;
  });
}
