// The number in an enum that a C caller filled in. To load a value that the enum does not have is
// undefined in C++, so it is looked at before it is used. Pure.
#pragma once

#include <cstring>

namespace lamppost {

template <class Enum>
int raw_enum(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

}  // namespace lamppost
