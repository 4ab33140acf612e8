// Names and sizes of the C API's types, for C++ callers and for Lamppost itself. Stateless.
#pragma once

#include <lamppost/lamppost.h>

#include <cstddef>

namespace lamppost {

/// Bytes of one element; 0 for a value that is no lpDataType_t.
constexpr std::size_t element_bytes(lpDataType_t type) {
  switch (type) {
    case LP_INT8:
    case LP_UINT8:
    case LP_FLOAT8_E4M3:
    case LP_FLOAT8_E5M2:
      return 1;
    case LP_FLOAT16:
    case LP_BFLOAT16:
      return 2;
    case LP_INT32:
    case LP_UINT32:
    case LP_FLOAT32:
      return 4;
    case LP_INT64:
    case LP_UINT64:
    case LP_FLOAT64:
      return 8;
  }
  return 0;
}

/// "bf16", "fp16", ...; "invalid type" for a value that is no lpDataType_t.
constexpr const char* type_name(lpDataType_t type) {
  switch (type) {
    case LP_INT8:
      return "int8";
    case LP_UINT8:
      return "uint8";
    case LP_INT32:
      return "int32";
    case LP_UINT32:
      return "uint32";
    case LP_INT64:
      return "int64";
    case LP_UINT64:
      return "uint64";
    case LP_FLOAT16:
      return "fp16";
    case LP_FLOAT32:
      return "fp32";
    case LP_FLOAT64:
      return "fp64";
    case LP_BFLOAT16:
      return "bf16";
    case LP_FLOAT8_E4M3:
      return "fp8_e4m3";
    case LP_FLOAT8_E5M2:
      return "fp8_e5m2";
  }
  return "invalid type";
}

constexpr const char* backend_name(lpBackend_t backend) {
  switch (backend) {
    case LP_BACKEND_AUTO:
      return "auto";
    case LP_BACKEND_HOST:
      return "host";
    case LP_BACKEND_CUDA:
      return "cuda";
    case LP_BACKEND_HIP:
      return "hip";
  }
  return "invalid backend";
}

}  // namespace lamppost
