#pragma once

namespace lamppost::test {

/// Whether this build has a sanitizer: a call then takes ten to fifty times as long, and tests run
/// fewer of their cases and smaller ones. LAMPPOST_TEST_ALL in the environment brings some of them
/// back.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

}  // namespace lamppost::test
