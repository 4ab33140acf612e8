// The caller's mistakes: each is refused with a text that names argument and value, nothing is launched,
// and the communicator works afterwards.
#include "support/collective_cases.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lamppost::test {
namespace {

class Misuse : public testing::Test {
 protected:
  Misuse() : group_(2), random_(announce_seed()) {}
  ~Misuse() override { run_and_check(group_, *make_plain_call(2, {9, LP_FLOAT32, false, 0}, random_)); }

  void expect_refused(lpResult_t result, lpResult_t expected, const std::string& text) {
    EXPECT_EQ(result, expected);
    EXPECT_NE(std::string(lpGetLastError(group_[0])).find(text), std::string::npos)
        << "'" << lpGetLastError(group_[0]) << "' does not say '" << text << "'";
    EXPECT_EQ(group_.errors()[0], LP_SUCCESS);
  }
  void expect_refused(const lpAllReduceRMSNormArgs& args, lpResult_t expected,
                      const std::string& text) {
    SCOPED_TRACE(text);
    expect_refused(lpAllReduceRMSNorm(&args, group_[0], nullptr), expected, text);
  }

  RankGroup group_;
  Random random_;
  alignas(16) std::byte memory_[8][4096] = {};
};

TEST_F(Misuse, AllReduceArguments) {
  lpComm_t comm = group_[0];
  std::byte* in = memory_[0];
  std::byte* out = memory_[1];
  expect_refused(lpAllReduce(nullptr, out, 4, LP_FLOAT32, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "in is null");
  expect_refused(lpAllReduce(in, nullptr, 4, LP_FLOAT32, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "out is null");
  expect_refused(lpAllReduce(in + 2, out, 4, LP_FLOAT32, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "in is 0x");
  expect_refused(lpAllReduce(in, out + 1, 4, LP_BFLOAT16, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "not aligned to its 2-byte elements");
  expect_refused(lpAllReduce(in, in + 4, 4, LP_FLOAT32, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "overlaps");
  expect_refused(lpAllReduce(in, out, 4, static_cast<lpDataType_t>(77), LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "type is 77");
  expect_refused(lpAllReduce(in, out, 4, LP_INT32, LP_SUM, comm, nullptr), LP_ERROR_NOT_SUPPORTED,
                 "type is int32");
  expect_refused(lpAllReduce(in, out, 4, LP_FLOAT32, LP_MAX, comm, nullptr), LP_ERROR_NOT_SUPPORTED,
                 "op is 2");
  expect_refused(lpAllReduce(in, out, 4, LP_FLOAT32, static_cast<lpRedOp_t>(9), comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "op is 9");
  expect_refused(lpAllReduce(in, out, static_cast<size_t>(-1), LP_FLOAT32, LP_SUM, comm, nullptr),
                 LP_ERROR_INVALID_ARGUMENT, "count is");
  expect_refused(lpAllReduce(in, out, 4, LP_FLOAT32, LP_SUM, comm, reinterpret_cast<void*>(0x1234)),
                 LP_ERROR_INVALID_HANDLE, "0x1234");
}

TEST_F(Misuse, FusedArguments) {
  lpAllReduceRMSNormArgs good = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
  good.in = memory_[0];
  good.out = memory_[1];
  good.residual_in = memory_[2];
  good.residual_out = memory_[3];
  good.all_reduce_out = memory_[4];
  good.weight = memory_[5];
  good.tokens = 2;
  good.hidden = 64;
  const auto with = [&](auto change) {
    lpAllReduceRMSNormArgs args = good;
    change(args);
    return args;
  };
  using Args = lpAllReduceRMSNormArgs;
  constexpr lpResult_t kInvalid = LP_ERROR_INVALID_ARGUMENT;
  expect_refused(lpAllReduceRMSNorm(nullptr, group_[0], nullptr), kInvalid, "args is null");
  expect_refused(with([](Args& a) { a.magic = 1; }), kInvalid, "INITIALIZER");
  expect_refused(with([](Args& a) { a.version = 9; }), LP_ERROR_VERSION, "version 9");
  expect_refused(with([](Args& a) { a.size = 8; }), LP_ERROR_VERSION, "size 8");
  expect_refused(with([](Args& a) { a.in = nullptr; }), kInvalid, "in is null");
  expect_refused(with([](Args& a) { a.out = nullptr; }), kInvalid, "out is null");
  expect_refused(with([](Args& a) { a.weight = nullptr; }), kInvalid, "weight is null");
  expect_refused(with([](Args& a) { a.tokens = -1; }), kInvalid, "tokens is -1");
  expect_refused(with([](Args& a) { a.hidden = 0; }), kInvalid, "hidden is 0");
  expect_refused(with([](Args& a) { a.hidden = -5; }), kInvalid, "hidden is -5");
  expect_refused(with([](Args& a) { a.hidden = LP_MAX_HIDDEN + 1; }), kInvalid, "hidden is 65537");
  expect_refused(with([](Args& a) { a.epsilon = -1.0f; }), kInvalid, "epsilon is -1");
  expect_refused(with([](Args& a) { a.epsilon = std::nanf(""); }), kInvalid, "epsilon is nan");
  expect_refused(with([](Args& a) { a.weight_bias = std::numeric_limits<float>::infinity(); }),
                 kInvalid, "weight_bias is inf");
  expect_refused(with([](Args& a) { a.type = static_cast<lpDataType_t>(50); }), kInvalid, "type is 50");
  expect_refused(with([](Args& a) { a.weight_type = LP_FLOAT16; }), LP_ERROR_NOT_SUPPORTED,
                 "weight_type is fp16 with type bf16");
  const auto shifted = [](const void* p, int bytes) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(p)) + bytes;
  };
  expect_refused(with([&](Args& a) { a.residual_in = shifted(a.residual_in, 1); }), kInvalid,
                 "residual_in is 0x");
  expect_refused(with([&](Args& a) { a.residual_out = shifted(a.residual_in, 2); }), kInvalid,
                 "overlaps");
  expect_refused(with([&](Args& a) { a.out = shifted(a.in, 16); }), kInvalid, "overlaps");
  expect_refused(with([&](Args& a) { a.all_reduce_out = const_cast<void*>(a.in); }), kInvalid,
                 "overlaps");
  expect_refused(with([&](Args& a) { a.out = const_cast<void*>(a.weight); }), kInvalid, "overlaps");
  expect_refused(with([&](Args& a) { a.out = const_cast<void*>(a.residual_in); }), kInvalid,
                 "overlaps");
}

TEST_F(Misuse, EveryPointerAtEveryOffsetWorksOrIsRefused) {
  for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT32}) {
    const std::uint32_t element = type == LP_FLOAT32 ? 4 : 2;
    for (int pointer = 0; pointer < 6; ++pointer) {
      for (std::uint32_t offset : {1, 2, 4, 8}) {
        lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
        void* p[6];
        for (int i = 0; i < 6; ++i) p[i] = memory_[i] + (i == pointer ? offset : 0);
        args.in = p[0];
        args.out = p[1];
        args.residual_in = p[2];
        args.residual_out = p[3];
        args.all_reduce_out = p[4];
        args.weight = p[5];
        args.type = args.weight_type = type;
        args.tokens = 1;
        args.hidden = 16;
        RankGroup alone(1);
        const lpResult_t result = lpAllReduceRMSNorm(&args, alone[0], nullptr);
        EXPECT_EQ(result, offset % element == 0 ? LP_SUCCESS : LP_ERROR_INVALID_ARGUMENT);
        alone.synchronize();
      }
    }
  }
}

TEST_F(Misuse, Handles) {
  int number = 0;
  lpResult_t error = LP_SUCCESS;
  std::byte* buffer = memory_[0];
  for (lpComm_t bad : {lpComm_t{}, reinterpret_cast<lpComm_t>(0xdeadbeef)}) {
    EXPECT_EQ(lpCommCount(bad, &number), LP_ERROR_INVALID_HANDLE);
    EXPECT_EQ(lpCommGetAsyncError(bad, &error), LP_ERROR_INVALID_HANDLE);
    EXPECT_EQ(lpCommSynchronize(bad), LP_ERROR_INVALID_HANDLE);
    EXPECT_EQ(lpAllReduce(buffer, buffer, 1, LP_FLOAT32, LP_SUM, bad, nullptr),
              LP_ERROR_INVALID_HANDLE);
    EXPECT_NE(std::string(lpGetLastError(nullptr)).find("not a live communicator"), std::string::npos);
  }
  EXPECT_EQ(lpCommDestroy(nullptr), LP_SUCCESS);
  EXPECT_EQ(lpCommDestroy(reinterpret_cast<lpComm_t>(0xdeadbeef)), LP_ERROR_INVALID_HANDLE);

  lpComm_t comm = nullptr;
  ASSERT_EQ(lpCommInitAll(&comm, 1, nullptr, nullptr), LP_SUCCESS);
  EXPECT_EQ(lpCommDestroy(comm), LP_SUCCESS);
  EXPECT_EQ(lpCommDestroy(comm), LP_ERROR_INVALID_HANDLE);
  lpComm_t next = nullptr;  // takes no notice of the old handle
  ASSERT_EQ(lpCommInitAll(&next, 1, nullptr, nullptr), LP_SUCCESS);
  EXPECT_NE(comm, next);
  EXPECT_EQ(lpCommCount(comm, &number), LP_ERROR_INVALID_HANDLE);
  EXPECT_EQ(lpCommDestroy(next), LP_SUCCESS);

  EXPECT_EQ(lpCommCount(group_[0], nullptr), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(lpCommSetTimeout(group_[0], -1), LP_ERROR_INVALID_ARGUMENT);
  lpHealth health = LP_HEALTH_INITIALIZER;
  health.size = 4;
  EXPECT_EQ(lpCommGetHealth(group_[0], &health), LP_ERROR_VERSION);
}

TEST_F(Misuse, StreamsAndGraphs) {
  lpStream_t stream = nullptr;
  lpGraph_t graph = nullptr;
  ASSERT_EQ(lpStreamCreate(group_[0], &stream), LP_SUCCESS);
  EXPECT_EQ(lpStreamEndCapture(stream, &graph), LP_ERROR_INVALID_USAGE);
  ASSERT_EQ(lpStreamBeginCapture(stream), LP_SUCCESS);
  EXPECT_EQ(lpStreamBeginCapture(stream), LP_ERROR_INVALID_USAGE);
  EXPECT_EQ(lpStreamSynchronize(stream), LP_ERROR_NOT_CAPTURABLE);
  EXPECT_EQ(lpStreamDestroy(stream), LP_ERROR_NOT_CAPTURABLE);
  ASSERT_EQ(lpStreamEndCapture(stream, &graph), LP_SUCCESS);
  EXPECT_EQ(lpGraphLaunch(graph, nullptr), LP_ERROR_INVALID_HANDLE);
  EXPECT_EQ(lpGraphLaunch(nullptr, stream), LP_ERROR_INVALID_HANDLE);
  EXPECT_EQ(lpGraphDestroy(graph), LP_SUCCESS);
  EXPECT_EQ(lpGraphDestroy(graph), LP_ERROR_INVALID_HANDLE);
  EXPECT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
  EXPECT_EQ(lpStreamDestroy(stream), LP_ERROR_INVALID_HANDLE);
  EXPECT_EQ(lpStreamSynchronize(stream), LP_ERROR_INVALID_HANDLE);
}

TEST_F(Misuse, TwoCapturesMayGoOnAtOnce) {
  // Their replays are the caller's to order; two in flight are reported by the device.
  lpStream_t streams[2] = {};
  std::byte* buffer = memory_[0];
  for (lpStream_t& stream : streams) {
    ASSERT_EQ(lpStreamCreate(group_[0], &stream), LP_SUCCESS);
    ASSERT_EQ(lpStreamBeginCapture(stream), LP_SUCCESS);
  }
  for (lpStream_t stream : streams) {
    EXPECT_EQ(lpAllReduce(buffer, buffer, 1, LP_FLOAT32, LP_SUM, group_[0], stream), LP_SUCCESS);
  }
  for (lpStream_t stream : streams) {
    lpGraph_t graph = nullptr;
    EXPECT_EQ(lpStreamEndCapture(stream, &graph), LP_SUCCESS);
    EXPECT_EQ(lpGraphDestroy(graph), LP_SUCCESS);
    EXPECT_EQ(lpStreamDestroy(stream), LP_SUCCESS);
  }
}

TEST(MisuseOfInit, ConfigAndRankCount) {
  lpComm_t comms[2] = {};
  const auto init = [&](auto change) {
    lpConfig config = LP_CONFIG_INITIALIZER;
    change(config);
    return lpCommInitAll(comms, 2, nullptr, &config);
  };
  const auto says = [](const std::string& text) {
    return std::string(lpGetLastError(nullptr)).find(text) != std::string::npos;
  };
  EXPECT_EQ(lpCommInitAll(nullptr, 2, nullptr, nullptr), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(lpCommInitAll(comms, 0, nullptr, nullptr), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(lpCommInitAll(comms, 17, nullptr, nullptr), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("rank_count is 17"));
  EXPECT_EQ(init([](lpConfig& c) { c.magic = 0; }), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(init([](lpConfig& c) { c.version = 7; }), LP_ERROR_VERSION);
  EXPECT_EQ(init([](lpConfig& c) { c.slot_bytes = 5000; }), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("slot_bytes is 5000"));
  EXPECT_EQ(init([](lpConfig& c) { c.timeout_ms = -7; }), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("timeout_ms is -7"));
  EXPECT_EQ(init([](lpConfig& c) { c.setup_timeout_ms = 0; }), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(init([](lpConfig& c) { c.early_launch = 2; }), LP_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(init([](lpConfig& c) { c.backend = LP_BACKEND_HIP; }), LP_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(says("hip"));
  EXPECT_EQ(init([](lpConfig& c) { c.backend = static_cast<lpBackend_t>(12); }),
            LP_ERROR_INVALID_ARGUMENT);
  // An old program's smaller struct: fields beyond its size have their defaults.
  EXPECT_EQ(init([](lpConfig& c) {
              c.size = offsetof(lpConfig, slot_bytes);
              c.slot_bytes = 5000;
            }),
            LP_SUCCESS)
      << lpGetLastError(nullptr);
  for (lpComm_t comm : comms) EXPECT_EQ(lpCommDestroy(comm), LP_SUCCESS);
}

}  // namespace
}  // namespace lamppost::test
