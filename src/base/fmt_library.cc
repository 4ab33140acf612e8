// fmt's implementation, compiled here and nowhere else: in header-only use every translation unit
// would compile all of it again. The others include <fmt/core.h>, which declares what this emits.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <cstdio>

namespace lamppost {

// Taking the address of an inline function makes the compiler emit it.
[[gnu::used]] std::string (*const kFmtVformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] void (*const kFmtVprint)(std::FILE*, fmt::string_view, fmt::format_args) =
    &fmt::vprint;
[[gnu::used]] void (*const kFmtVprintStdout)(fmt::string_view, fmt::format_args) = &fmt::vprint;

}  // namespace lamppost
