#include "base/system_error.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

namespace lamppost {

Status system_error(std::string_view call, int error) {
  lpResult_t code = LP_ERROR_SYSTEM;
  std::string_view advice;
  if (error == EMFILE) {
    code = LP_ERROR_RESOURCE_LIMIT;
    advice = "; raise the limit of open files (ulimit -n)";
  } else if (error == ENFILE) {
    code = LP_ERROR_RESOURCE_LIMIT;
    advice = "; the system's file table is full (fs.file-max)";
  } else if (error == ENOSPC) {
    code = LP_ERROR_OUT_OF_MEMORY;
    advice = "; shared memory is full (in a container: --shm-size)";
  } else if (error == ENOMEM) {
    code = LP_ERROR_OUT_OF_MEMORY;
    advice = "; no memory, or too many mappings (vm.max_map_count)";
  }
  return Status(code, fmt::format("{} failed: {} (errno {}){}", call, std::strerror(error), error,
                                  advice));
}

}  // namespace lamppost
