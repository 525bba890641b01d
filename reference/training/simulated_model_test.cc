// The model of a simulated training run, partitioned over ranks.
#include "training/simulated_model.h"

#include <gtest/gtest.h>

#include <set>

namespace tzmark::cli {
namespace {

SimulatedModelOptions options_of(std::uint32_t rank, std::uint32_t world_size) {
  return {.state_bytes = 1 << 20,
          .seed = 3,
          .strategy = Sharding::Strategy::kZeroPartitioned,
          .rank = rank,
          .world_size = world_size,
          .owned = std::nullopt};
}

TEST(SimulatedModelTest, AssignsEachWeightOnce) {
  std::set<std::string> names;
  std::size_t weights = 0;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const SimulatedModel model(options_of(rank, 3));
    EXPECT_EQ(model.optimizer().size(), 2 * model.model().size());
    weights += model.model().size();
    for (const CheckpointTensor& weight : model.model()) names.insert(weight.name);
  }
  EXPECT_EQ(weights, SimulatedModel(options_of(0, 1)).model().size());
  EXPECT_EQ(names.size(), weights);
}

TEST(SimulatedModelTest, KeepsTheWeightsThatItOwned) {
  SimulatedModelOptions options = options_of(0, 3);
  options.owned = {"model.norm.weight"};
  const SimulatedModel model(options);
  ASSERT_EQ(model.model().size(), 1);
  EXPECT_EQ(model.model()[0].name, "model.norm.weight");
  EXPECT_EQ(model.sharding().owned_params, options.owned);
}

// With more ranks than weights, some get nothing, and go on with nothing.
TEST(SimulatedModelTest, MayOwnNothing) {
  SimulatedModelOptions options = options_of(99, 100);
  options.owned.emplace();
  SimulatedModel model(options);
  EXPECT_TRUE(model.model().empty());
  EXPECT_EQ(model.data_bytes(), 0);
  EXPECT_NO_THROW(model.load({}, 5));
  EXPECT_NO_THROW(model.advance());
}

}  // namespace
}  // namespace tzmark::cli
