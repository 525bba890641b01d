// Machine facts: the members of the result document, and the parsing of fake sources.
#include "harness/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "harness/fio.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

std::vector<std::string> keys(const json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

TEST(Machine, HasTheFactsOfTheResultDocument) {
  const test::TestDirectory directory;
  const json facts = machine_facts(directory.name());
  EXPECT_THAT(keys(facts),
              testing::UnorderedElementsAre("kernel", "architecture", "cpu", "memory_bytes", "transparent_huge_pages",
                                            "gpu", "storage", "load_average", "versions", "nice", "hypervisor",
                                            "l3_bytes", "numa_nodes", "frequency", "mitigations", "cgroup", "vm"));
  EXPECT_THAT(keys(facts["cpu"]), testing::UnorderedElementsAre("model", "cores", "features", "governor"));
  EXPECT_THAT(keys(facts["transparent_huge_pages"]), testing::UnorderedElementsAre("enabled", "defrag"));
  EXPECT_THAT(keys(facts["storage"]),
              testing::UnorderedElementsAre("directory", "file_system", "mount_options", "device", "device_model",
                                            "rotational", "scheduler", "readahead_bytes", "write_cache",
                                            "queue_requests", "logical_block_bytes", "physical_block_bytes",
                                            "direct_memory_align_bytes", "direct_offset_align_bytes", "free_bytes"));
  EXPECT_THAT(keys(facts["versions"]), testing::UnorderedElementsAre("liburing", "OpenSSL", "libsodium", "ISA-L",
                                                                     "zlib", "fio", "Google Benchmark", "compiler"));
  utsname names{};
  ::uname(&names);
  EXPECT_EQ(facts["kernel"], names.release);
  EXPECT_EQ(facts["storage"]["directory"], directory.name());
  EXPECT_EQ(facts["memory_bytes"].get<std::uint64_t>() / 1024 % 4, 0u);
  EXPECT_GE(facts["memory_bytes"].get<std::uint64_t>(), std::uint64_t{64} << 20);
  EXPECT_GT(facts["storage"]["free_bytes"].get<std::uint64_t>(), 0u);
  EXPECT_EQ(facts["load_average"].size(), 3u);
  EXPECT_EQ(facts["versions"]["fio"], fio_version() ? json(*fio_version()) : json());
  for (const auto& [name, version] : facts["versions"].items()) {
    if (version.is_null()) continue;  // fio alone, as said above
    EXPECT_THAT(version.get<std::string>(), testing::ContainsRegex("[0-9]\\.[0-9]")) << name;
  }
  // Its temporary file is removed.
  EXPECT_THAT(directory.entries(), testing::IsEmpty());
}

TEST(Machine, AbsentDirectoryIsAnError) {
  try {
    machine_facts("/no/such/directory");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOpenFailed);
  }
}

TEST(Cpu, OfX86) {
  const json facts =
      cpu_facts("processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx2 sha_ni avx\n\nprocessor\t: 1\n");
  EXPECT_EQ(facts["model"], "Xeon");
  EXPECT_EQ(facts["features"], json::parse(R"(["avx", "avx2", "sha_ni"])"));
}

TEST(Cpu, OfArm) {
  const json facts = cpu_facts("processor\t: 0\nFeatures\t: fp asimd aes pmull sha2 crc32\n");
  EXPECT_EQ(facts["model"], nullptr);
  EXPECT_EQ(facts["features"], json::parse(R"(["aes", "pmull", "sha2", "crc32", "asimd"])"));
}

TEST(Gpu, IsWhatTheDriverSays) {
  const test::TestDirectory directory;
  const auto add = [&](const std::string& name, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(directory / name).parent_path());
    test::write_whole(directory / name, std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(gpu_facts(directory.name()), nullptr);
  add("gpus/0000:41:00.0/information", "Model: \t\t Some Other\nIRQ:   \t\t 70\n");
  add("gpus/0000:04:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 70\n");
  add("version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version:  11\n");
  EXPECT_EQ(gpu_facts(directory.name()), json::parse(R"({"name": "NVIDIA H200", "driver": "570.86.15"})"));
  add("version", "nothing of the kind\n");
  EXPECT_EQ(gpu_facts(directory.name())["driver"], nullptr);
}

}  // namespace
}  // namespace tzmark::bench
