// EnvironmentGuard: sets an environment variable for a scope. Only while no other thread runs.
#pragma once

#include <cstdlib>
#include <string>

namespace lamppost::test {

class EnvironmentGuard {
 public:
  EnvironmentGuard(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~EnvironmentGuard() { unsetenv(name_); }
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;

 private:
  const char* name_;
};

}  // namespace lamppost::test
