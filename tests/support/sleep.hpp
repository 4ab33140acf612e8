#pragma once

#include <chrono>
#include <thread>

namespace lamppost::test {

inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace lamppost::test
