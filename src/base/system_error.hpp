// Status of a failed operating system call, with its name, errno and what to do about common ones.
#pragma once

#include <lamppost/status.hpp>

#include <string_view>

namespace lamppost {

/// `error`: errno, read right after the call. EMFILE, ENFILE, ENOMEM on descriptors and mappings
/// become LP_ERROR_RESOURCE_LIMIT or LP_ERROR_OUT_OF_MEMORY, everything else LP_ERROR_SYSTEM.
Status system_error(std::string_view call, int error);

}  // namespace lamppost
