// lamppost-diag: the health of the communicators of another process, which may be stuck. Reads their
// control pages through /proc; needs no help from the process and no device.
#include "health/health.hpp"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

int main(int argc, char** argv) {
  int process_id = 0;
  CLI::App app{"Shows the health of the Lamppost communicators of a running process."};
  app.add_option("--pid", process_id, "process to look at")->required()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  const auto found = lamppost::read_process_health(process_id);
  if (!found.ok()) {
    fmt::print(stderr, "lamppost-diag: {}\n", found.status().message());
    return 1;
  }
  if (found.value().empty()) fmt::print("process {} has no Lamppost communicator\n", process_id);
  for (const lamppost::RemoteHealth& remote : found.value()) {
    fmt::print("communicator {:016x} on {}, process {}\n{}\n", remote.communicator_id,
               remote.host_name, remote.process_id, lamppost::describe_health(remote.health));
  }
  return 0;
}
