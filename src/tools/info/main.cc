// lamppost-info: what this installation of Lamppost is, what it can use here, and which switches
// are in force. Reads only; exits with 0, or with 1 if the command line is wrong.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/info/facts.hpp"

int main(int argc, char** argv) {
  using namespace lamppost::info;
  bool json = false;
  bool version = false;
  CLI::App app("Shows what Lamppost can use on this machine, and why not what it cannot.",
               "lamppost-info");
  app.add_flag("--json", json, "Write JSON");
  app.add_flag("--version", version, "Print the library's version and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;  // 0: --help
  }
  const Facts facts = gather_facts();
  if (version) {
    fmt::print("lamppost-info {}\n", facts.library_version);
  } else {
    fmt::print("{}", json ? to_json(facts) : to_text(facts));
  }
  return 0;
}
