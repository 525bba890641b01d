// Workloads compared with published totals, and properties of scaling.
#include "workloads/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tzmark/dtype.h"
#include "tzmark/error.h"
#include "workloads/scale.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kGibibyte = 1 << 30;

bool is_buffer(const TensorShape& tensor) {
  // GPT-2 has "h.0.attn.c_attn.bias" too, which is a parameter.
  return tensor.name.ends_with(".attn.bias") || tensor.name.ends_with(".attention.bias") ||
         tensor.name.ends_with(".masked_bias") || tensor.name.ends_with(".inv_freq");
}

struct Published {
  const char* workload;
  std::uint64_t parameters;
  std::size_t tensors;  // buffers included
  std::uint64_t data_bytes;
};

class PublishedTotals : public testing::TestWithParam<Published> {};

TEST_P(PublishedTotals, AreThoseOfTheList) {
  const Workload workload = make_workload(GetParam().workload);
  std::uint64_t parameters = 0;
  for (const TensorShape& tensor : workload.tensors) parameters += is_buffer(tensor) ? 0 : tensor.elements();
  EXPECT_EQ(parameters, GetParam().parameters);
  EXPECT_EQ(workload.tensors.size(), GetParam().tensors);
  EXPECT_EQ(workload.data_bytes(), GetParam().data_bytes);
  EXPECT_EQ(workload.scaled, 1);
}

// The bytes of gpt2 are those of 137022720 float32 values, and those of pythia-1.4b have 24 masks of 4 MiB in them.
INSTANTIATE_TEST_SUITE_P(Models, PublishedTotals,
                         testing::Values(Published{"gpt2", 124'439'808, 160, 548'090'880},
                                         Published{"pythia-1.4b", 1'414'647'808, 364, 2'929'959'728},
                                         Published{"llama-3.1-8b", 8'030'261'248, 291, 16'060'522'496},
                                         Published{"mixtral-8x7b", 46'702'792'704, 995, 93'405'585'408},
                                         Published{"sdxl-unet", 2'567'463'684, 1680, 5'134'927'368}));

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const WorkloadInfo& info : workloads()) names.emplace_back(info.name);
  return names;
}

class EveryWorkload : public testing::TestWithParam<std::string> {};

TEST_P(EveryWorkload, FitsItsScale) {
  const Workload whole = make_workload(GetParam());
  const bool is_model = make_workload(GetParam(), 2 * whole.data_bytes()).tensors == whole.tensors;
  std::uint64_t random = 88172645463325252;
  for (std::uint64_t wish = kMebibyte; wish < kGibibyte; wish += wish / 3 + random % (wish / 2)) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const Workload workload = make_workload(GetParam(), wish);
    EXPECT_LE(workload.data_bytes(), wish);
    if (is_model && wish >= whole.data_bytes()) {
      EXPECT_EQ(workload.tensors, whole.tensors);
    } else if (wish >= 16 * kMebibyte) {
      EXPECT_GE(static_cast<double>(workload.data_bytes()), 0.9 * static_cast<double>(wish)) << wish;
    }
  }
}

TEST_P(EveryWorkload, HasTensorsThatFilesCanHold) {
  for (const std::optional<std::uint64_t> wish : {std::optional<std::uint64_t>(), std::optional(16 * kMebibyte)}) {
    std::set<std::string> names;
    for (const TensorShape& tensor : make_workload(GetParam(), wish).tensors) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      EXPECT_GT(tensor.data_bytes(), 0u) << tensor.name;
    }
  }
}

TEST_P(EveryWorkload, IsTheSameEachTime) {
  EXPECT_EQ(make_workload(GetParam(), 20 * kMebibyte).tensors, make_workload(GetParam(), 20 * kMebibyte).tensors);
}

std::string name_of_test(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, EveryWorkload, testing::ValuesIn(all_names()), name_of_test);

TEST(Workloads, UnknownNameIsAnsweredWithTheList) {
  try {
    make_workload("gpt3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    for (const std::string& name : all_names()) EXPECT_THAT(error.message(), testing::HasSubstr(name));
  }
}

TEST(Workloads, TooLittleForATensorIsAnError) {
  for (const std::string& name : all_names()) EXPECT_THROW(make_workload(name, 1), Error) << name;
}

TEST(Scaling, KeepsTheMixOfTheModel) {
  const Workload whole = make_workload("mixtral-8x7b");
  const Workload small = make_workload("mixtral-8x7b", 64 * kMebibyte);
  ASSERT_EQ(small.tensors.size(), whole.tensors.size());
  EXPECT_NEAR(small.scaled, 64.0 * kMebibyte / static_cast<double>(whole.data_bytes()), small.scaled / 10);
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    EXPECT_EQ(small.tensors[i].name, whole.tensors[i].name);
    EXPECT_EQ(small.tensors[i].dtype, whole.tensors[i].dtype);
    ASSERT_EQ(small.tensors[i].shape.size(), whole.tensors[i].shape.size());
    for (std::size_t j = 0; j < whole.tensors[i].shape.size(); ++j) {
      const auto was = static_cast<double>(whole.tensors[i].shape[j]);
      const auto is = static_cast<double>(small.tensors[i].shape[j]);
      // The experts stay, and all else shrinks by the factor of the hidden size, but for what rounding down takes.
      if (was == 8) {
        EXPECT_EQ(is, 8);
      } else {
        EXPECT_NEAR(is / was, std::sqrt(small.scaled), 0.05 * std::sqrt(small.scaled)) << whole.tensors[i].name;
      }
    }
  }
}

TEST(Scaling, EqualDimensionsStayEqual) {
  std::set<std::uint64_t> hidden;
  for (const TensorShape& tensor : make_workload("llama-3.1-8b", 32 * kMebibyte).tensors) {
    if (tensor.name.ends_with("layernorm.weight")) hidden.insert(tensor.shape[0]);
    if (tensor.name.ends_with("gate_proj.weight")) hidden.insert(tensor.shape[1]);
  }
  EXPECT_EQ(hidden.size(), 1u);
}

TEST(Scaling, GoesDownToDimensionsOfOne) {
  const std::vector<TensorShape> tensors = {{"a", "float32", {100, 3}}, {"b", "float16", {}}};
  EXPECT_EQ(scale_to_fit(tensors, 14), (std::vector<TensorShape>{{"a", "float32", {1, 3}}, {"b", "float16", {}}}));
  EXPECT_EQ(scale_to_fit(tensors, 1202), tensors);
  EXPECT_EQ(scale_to_fit(tensors, 1201)[0].shape, (std::vector<std::uint64_t>{99, 3}));
  EXPECT_THROW(scale_to_fit(tensors, 13), Error);
}

TEST(ManyTiny, IsBetween64BytesAnd16KiB) {
  const Workload workload = make_workload("many-tiny");
  const auto [least, most] = std::ranges::minmax(workload.tensors, {}, &TensorShape::data_bytes);
  EXPECT_GE(least.data_bytes(), 64u);
  EXPECT_LT(least.data_bytes(), 128u);
  EXPECT_LE(most.data_bytes(), 16u << 10);
  EXPECT_GT(most.data_bytes(), 15u << 10);
  EXPECT_GT(workload.tensors.size(), 10'000u);
}

TEST(ManyTiny, HasNoListThatFillsTheMemory) {
  try {
    make_workload("many-tiny", std::uint64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
  }
}

TEST(Mixed, HasLargeMiddleAndTiny) {
  for (const std::uint64_t bytes : {64 * kMebibyte, kGibibyte, 64 * kGibibyte}) {
    std::uint64_t large_bytes = 0;
    std::size_t tiny = 0;
    std::size_t middle = 0;
    std::size_t large = 0;
    for (const TensorShape& tensor : make_workload("mixed", bytes).tensors) {
      tiny += tensor.name.starts_with("tiny.");
      middle += tensor.name.starts_with("middle.");
      large += tensor.name.starts_with("large.");
      if (tensor.name.starts_with("large.")) large_bytes += tensor.data_bytes();
    }
    EXPECT_EQ(large, 4u);
    EXPECT_GT(middle, 8u);
    EXPECT_GT(tiny, 4 * middle);
    EXPECT_GT(large_bytes, bytes / 10 * 7);
  }
}

TEST(EvenWorkload, HasItsCountAndSizes) {
  const Workload workload = even_workload(2000, 256 << 10);
  EXPECT_EQ(workload.tensors.size(), 2000u);
  EXPECT_EQ(workload.data_bytes(), std::uint64_t{2000} * (256 << 10));
  EXPECT_EQ(workload.tensors.back().data_bytes(), 256u << 10);
}

}  // namespace
}  // namespace tzmark::bench
