#include "bootstrap/socket_bootstrap.hpp"

#include <fmt/core.h>

#include <utility>

#include "bootstrap/socket_hub.hpp"
#include "bootstrap/socket_spoke.hpp"

namespace lamppost {
namespace {

Status check_options(const SocketBootstrapOptions& options) {
  std::string wrong;
  if (options.rank_count < 1 || options.rank_count > LP_MAX_RANKS) {
    wrong = fmt::format("rank_count {} is not in 1..{}", options.rank_count, LP_MAX_RANKS);
  } else if (options.rank < 0 || options.rank >= options.rank_count) {
    wrong = fmt::format("rank {} is not in 0..{}", options.rank, options.rank_count - 1);
  } else if (options.timeout_ms <= 0) {
    wrong = fmt::format("timeout_ms {} is not positive", options.timeout_ms);
  }
  return wrong.empty() ? Status() : Status(LP_ERROR_INVALID_ARGUMENT, "bootstrap: " + wrong);
}

template <class Side>
Result<std::unique_ptr<Bootstrap>> join_as(const SocketBootstrapOptions& options) {
  auto side = std::make_unique<Side>(options);
  Status joined = side->join();
  if (!joined.ok()) return joined;
  return std::unique_ptr<Bootstrap>(std::move(side));
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> make_socket_bootstrap(const SocketBootstrapOptions& options) {
  Status checked = check_options(options);
  if (!checked.ok()) return checked;
  return options.rank == 0 ? join_as<boot::SocketHub>(options)
                           : join_as<boot::SocketSpoke>(options);
}

}  // namespace lamppost
