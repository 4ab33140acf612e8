// The selector: every supported call maps to exactly one kernel that exists, everything else to a reason.
#include "select/selector.hpp"

#include <lamppost/types.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lamppost::test {
namespace {

TEST(Selector, EveryWorldTypeAndEpilogueHasAKernelOfItsKey) {
  for (std::uint32_t world = 1; world <= LP_MAX_RANKS; ++world) {
    for (lpDataType_t type : {LP_BFLOAT16, LP_FLOAT16, LP_FLOAT32}) {
      for (Epilogue epilogue : {Epilogue::kNone, Epilogue::kRmsNorm}) {
        CollectiveCall call;
        call.type = type;
        call.epilogue = epilogue;
        call.rows = 3;
        call.columns = LP_MAX_HIDDEN;
        auto choice = select(call, {world, 256 * 1024, 4, 128});
        ASSERT_TRUE(choice.ok()) << choice.status().message();
        const KernelInfo& kernel = kKernels[choice.value().kernel];
        EXPECT_EQ(kernel.type, type);
        EXPECT_EQ(kernel.epilogue, epilogue);
        EXPECT_TRUE(kernel.world == 0 || kernel.world == world);
        EXPECT_GT(choice.value().extent_per_launch, 0u);
      }
    }
  }
}

TEST(Selector, LaunchesFitASlot) {
  CollectiveCall call;
  call.epilogue = Epilogue::kRmsNorm;
  call.type = LP_BFLOAT16;
  for (std::uint64_t hidden : {1, 7, 8, 9, 2880, 65536}) {
    call.columns = hidden;
    const auto rows = select(call, {4, 1 << 20, 4, 128}).value().extent_per_launch;
    EXPECT_LE(rows * wire_row_bytes(hidden, LP_BFLOAT16), 1u << 20);
    EXPECT_GT((rows + 1) * wire_row_bytes(hidden, LP_BFLOAT16), 1u << 20);
  }
}

TEST(Selector, ALaunchHasARowABlockWhereThatIsNear) {
  CollectiveCall call;
  call.epilogue = Epilogue::kRmsNorm;
  call.type = LP_BFLOAT16;
  call.columns = 7168;  // 146 rows fit a slot of 2 MiB
  const auto rows = [&](std::uint32_t world, std::uint32_t blocks, std::uint32_t threads) {
    return select(call, {world, 2 << 20, blocks, threads}).value().extent_per_launch;
  };
  EXPECT_EQ(rows(2, 132, 1024), 132u);
  EXPECT_EQ(rows(2, 1000, 1024), 146u);
  EXPECT_EQ(rows(2, 66, 1024), 146u);   // too few blocks
  EXPECT_EQ(rows(2, 132, 512), 146u);   // two fragments a thread
  EXPECT_EQ(rows(3, 132, 1024), 146u);  // no kernel of this world
}

TEST(Selector, OtherTypesAreRefusedWithAReason) {
  CollectiveCall call;
  call.type = LP_INT32;
  call.columns = 8;
  const auto choice = select(call, {4, 1 << 20, 4, 128});
  EXPECT_EQ(choice.status().code(), LP_ERROR_NOT_SUPPORTED);
  EXPECT_NE(choice.status().message().find("int32"), std::string::npos);
}

TEST(KernelTable, SymbolsAreUniqueAndSpellTheirKey) {
  std::set<std::string> symbols;
  for (const KernelInfo& kernel : kKernels) {
    EXPECT_TRUE(symbols.insert(kernel.symbol).second) << kernel.symbol;
    if (kernel.algorithm != Algorithm::kOneShotLamport) continue;
    const std::string world = kernel.world == 0 ? "any" : "w" + std::to_string(kernel.world);
    const std::string expected = std::string("all_reduce_one_shot_lamport_") +
                                 type_name(kernel.type) + "_" + world +
                                 (kernel.epilogue == Epilogue::kNone ? "_sum" : "_rmsnorm");
    EXPECT_EQ(kernel.symbol, expected);
  }
}

}  // namespace
}  // namespace lamppost::test
