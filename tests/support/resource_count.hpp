// Counts of what a process holds: for tests that nothing leaks.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace lamppost::test {

struct ResourceCount {
  int descriptors = 0;
  int threads = 0;
  int mappings = 0;
  int shared_mappings = 0;  // of memfd memory
  int shm_files = 0;        // in /dev/shm
  friend bool operator==(const ResourceCount&, const ResourceCount&) = default;
};

inline int entries(const char* folder) {
  int count = 0;
  std::error_code error;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder, error)) ++count;
  return count;
}

/// Of this process.
inline ResourceCount count_resources() {
  ResourceCount count;
  count.descriptors = entries("/proc/self/fd");
  count.threads = entries("/proc/self/task");
  count.shm_files = entries("/dev/shm");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ++count.mappings;
    if (line.find("/memfd:lamppost") != std::string::npos) ++count.shared_mappings;
  }
  return count;
}

}  // namespace lamppost::test
