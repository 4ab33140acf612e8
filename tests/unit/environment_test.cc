// Environment variables: what is understood, and that the rest is refused with a text.
#include "base/environment.hpp"
#include "lamppost/device/control_page.hpp"
#include "support/environment_guard.hpp"

#include <gtest/gtest.h>

namespace lamppost::test {
namespace {

TEST(PlantedFaultText, Delay) {
  auto fault = parse_planted_fault("rank=1,call=17,phase=publish,delay_ms=500");
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault.value().rank, 1);
  EXPECT_EQ(fault.value().call, 17u);
  EXPECT_EQ(fault.value().phase, static_cast<std::uint32_t>(device::Phase::kPublish));
  EXPECT_EQ(fault.value().delay_ms, 500u);
}

TEST(PlantedFaultText, EveryPhaseByItsName) {
  const std::pair<const char*, device::Phase> phases[] = {{"start", device::Phase::kStart},
                                                          {"publish", device::Phase::kPublish},
                                                          {"header", device::Phase::kHeader},
                                                          {"data", device::Phase::kData},
                                                          {"arrive", device::Phase::kArrive}};
  for (const auto& [name, phase] : phases) {
    auto fault = parse_planted_fault(std::string("phase=") + name);
    ASSERT_TRUE(fault.ok()) << name;
    EXPECT_EQ(fault.value().phase, static_cast<std::uint32_t>(phase)) << name;
  }
}

TEST(PlantedFaultText, StepFailsOnlyItsRank) {
  auto fault = parse_planted_fault("rank=2,step=fill");
  ASSERT_TRUE(fault.ok());
  EXPECT_TRUE(fault.value().check(1, "fill").ok());
  EXPECT_TRUE(fault.value().check(2, "import").ok());
  EXPECT_EQ(fault.value().check(2, "fill").code(), LP_ERROR_SYSTEM);
}

TEST(PlantedFaultText, SeveralStepsFailOnOneRank) {
  auto fault = parse_planted_fault("rank=0,step=socket,step=pidfd");
  ASSERT_TRUE(fault.ok());
  EXPECT_EQ(fault.value().check(0, "socket").code(), LP_ERROR_SYSTEM);
  EXPECT_EQ(fault.value().check(0, "pidfd").code(), LP_ERROR_SYSTEM);
  EXPECT_TRUE(fault.value().check(0, "import").ok());
  EXPECT_TRUE(fault.value().check(1, "socket").ok());
}

TEST(PlantedFaultText, NonsenseIsRefusedAndNamed) {
  EXPECT_TRUE(parse_planted_fault("").ok());
  for (const char* text : {"rank", "rank=", "rank=1x", "=3", "colour=red", "rank=1,,call=2"}) {
    EXPECT_EQ(parse_planted_fault(text).status().code(), LP_ERROR_INVALID_ARGUMENT) << text;
  }
  EXPECT_NE(parse_planted_fault("rank=1,colour=red").status().message().find("colour=red"),
            std::string::npos);
}

TEST(IntegerVariable, UnsetGoodAndBad) {
  EXPECT_FALSE(integer_from_environment("LAMPPOST_TEST_NUMBER").value().has_value());
  {
    const EnvironmentGuard guard("LAMPPOST_TEST_NUMBER", "42");
    EXPECT_EQ(integer_from_environment("LAMPPOST_TEST_NUMBER").value(), 42u);
  }
  const EnvironmentGuard guard("LAMPPOST_TEST_NUMBER", "-3");
  const auto bad = integer_from_environment("LAMPPOST_TEST_NUMBER");
  EXPECT_NE(bad.status().message().find("LAMPPOST_TEST_NUMBER='-3'"), std::string::npos);
}

}  // namespace
}  // namespace lamppost::test
