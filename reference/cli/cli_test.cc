// Tests of the tzmark command: exit status, error lines, memory, output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "bytes/cursor.h"
#include "testing/files/command.h"
#include "testing/files/tensors_files.h"
#include "testing/gpu/probe_program.h"
#include "tzmark/digest.h"

namespace tzmark {
namespace {

using nlohmann::json;
using test::CliTest;
using test::Result;
using test::slurp;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;

// A sanitizer needs many times the memory itself, so the bound there is 1 GiB, less than what a false claim would take.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kPeakKibMax = 1 << 20;
#else
constexpr long kPeakKibMax = 64 << 10;
#endif

TEST_F(CliTest, ExitStatusTellsTheClassOfTheError) {
  const std::string good = write("good", test::three_tensors().write());
  EXPECT_EQ(run({"verify", good}).status, 0);
  auto damaged = test::three_tensors().write();
  damaged[damaged.size() - 9] ^= std::byte{1};
  EXPECT_EQ(run({"verify", write("bad", damaged)}).status, 1);
  EXPECT_EQ(run({"verify"}).status, 2);
  EXPECT_EQ(run({"frobnicate"}).status, 2);
  EXPECT_EQ(run({"verify", good, "--io", "telepathy"}).status, 2);
  EXPECT_EQ(run({"verify", path("missing")}).status, 3);
  EXPECT_EQ(run({"verify", directory_.string()}).status, 3);
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_THAT(run({"--version"}).out, MatchesRegex("tzmark [0-9.]+ \\(commit [^)]+\\)\n(.*\n)*"));
}

// Sets a variable of the environment in the child.
std::function<void()> simd_is(const char* value) {
  return [value] { ::setenv("TZMARK_SIMD", value, 1); };
}

TEST_F(CliTest, EveryForcedKernelVerifies) {
  EXPECT_THAT(run({"--version"}).out,
              MatchesRegex("(.*\n)*SHA-256 kernel: (none|sha-ni|avx2|avx512|sha2), lanes: [0-9]+\n"));
  const std::string good = write("good", test::three_tensors().write());
  for (const std::string_view kernel : sha256_kernels()) {
    const std::string name(kernel);
    EXPECT_THAT(run({"--version"}, "/dev/null", simd_is(name.c_str())).out, HasSubstr("SHA-256 kernel: " + name + ","));
    EXPECT_EQ(run({"verify", good}, "/dev/null", simd_is(name.c_str())).status, 0) << name;
  }
}

TEST_F(CliTest, RefusesAForcedKernelThatIsNotThere) {
  const std::string good = write("good", test::three_tensors().write());
  for (const char* const unknown : {"", "fastest", "AVX2"}) {
    // Commands that hash nothing fail too.
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"verify", good}, {"inspect", good}, {"--version"}}) {
      const Result result = run(words, "/dev/null", simd_is(unknown));
      EXPECT_EQ(result.status, 2) << unknown;
      EXPECT_EQ(result.err, "tzmark: error TZE-USE-001: TZMARK_SIMD is \"" + std::string(unknown) +
                                "\", not none, avx2, avx512, sha-ni or sha2\n");
    }
  }
  const auto here = sha256_kernels();
  for (const char* const kernel : {"avx2", "avx512", "sha-ni", "sha2"}) {
    const Result result = run({"verify", good}, "/dev/null", simd_is(kernel));
    EXPECT_EQ(result.status, std::ranges::find(here, kernel) == here.end() ? 4 : 0) << result.err;
  }
}

// A safetensors file with one tensor.
std::string small_safetensors() {
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(56, ' ');
  return std::string("\x38\0\0\0\0\0\0\0", 8) + header + "x";
}

// Makes commands load this library as libcuda during its lifetime.
class CudaLibrary {
 public:
  explicit CudaLibrary(const char* name) { ::setenv("TZMARK_CUDA_LIBRARY", name, 1); }
  ~CudaLibrary() { ::unsetenv("TZMARK_CUDA_LIBRARY"); }
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;
};

TEST_F(CliTest, VerifyLoadsIntoGpuMemory) {
  test::Content content = test::three_tensors();
  content.add({"large"}, "uint8", {3'000'001});
  auto bytes = content.write();
  const std::string good = write("good", bytes);
  bytes[bytes.size() - 1'000'000] ^= std::byte{1};
  const std::string bad = write("bad", bytes);
  {
    const CudaLibrary none("/nowhere/libcuda.so");
    const Result result = run({"verify", "--device", good});
    EXPECT_EQ(result.status, 4);
    EXPECT_THAT(result.err, HasSubstr("TZE-AVL-001"));
    EXPECT_THAT(result.err, HasSubstr("there is no CUDA driver"));
  }
  const CudaLibrary fake(TZMARK_FAKE_CUDA);
  std::vector<const char*> everyone = {"auto", "host"};
#ifdef TZMARK_HAS_KERNELS
  everyone.push_back("device");
#else
  EXPECT_EQ(run({"verify", "--device", "--compute", "device", good}).status, 4);
#endif
  for (const char* compute : everyone) {
    const Result whole = run({"verify", "--device", "--compute", compute, good});
    EXPECT_EQ(whole.status, 0) << whole.err;
    EXPECT_THAT(whole.out, HasSubstr("into GPU memory"));
    EXPECT_EQ(run({"verify", "--device", "--compute", compute, bad}).err, run({"verify", bad}).err);
  }
  EXPECT_EQ(run({"verify", "--compute", "host", good}).status, 2);
  EXPECT_EQ(run({"verify", "--device", "--structure-only", good}).status, 2);
  const std::string safetensors = write("x.safetensors", small_safetensors());
  EXPECT_EQ(run({"verify", safetensors}).status, 0);
  EXPECT_EQ(run({"verify", "--device", safetensors}).status, 2);
}

TEST_F(CliTest, ErrorsAreOneLineWithFileRuleAndByte) {
  auto damaged = test::three_tensors().write();
  damaged[5] = std::byte{6};
  const std::string name = write("from-the-future", damaged);
  for (const char* command : {"verify", "dump", "inspect"}) {
    const Result result = run({command, name});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "tzmark: " + name + ": error TZR-HDR-003 at byte 5: data version 6 is not one of 1 to 5\n");
  }
}

TEST_F(CliTest, SaysWhatAForeignFileIs) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 548105171\n";
  for (const std::string file : {"m.tensors", "m.safetensors", "m"}) {
    const std::string name = write(file, pointer);
    const std::string rule = file == "m.safetensors" ? "ST-002" : "TZR-HDR-002";
    const std::string format = file == "m.safetensors" ? "safetensors" : ".tensors";
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"verify", name},
                                                                                       {"dump", name},
                                                                                       {"inspect", name},
                                                                                       {"extract", name, "w"},
                                                                                       {"convert", name, path("o")}}) {
      const Result result = run(words);
      EXPECT_EQ(result.status, 1) << words[0];
      EXPECT_EQ(result.err, "tzmark: " + name + ": error " + rule + " at byte 0: this is not a " + format +
                                " file; it looks like a Git LFS pointer to a file of 548105171 bytes: run `git lfs "
                                "pull` in its repository\n");
    }
  }
  // The target and the input of append, and standard input.
  const std::string name = path("m");
  EXPECT_THAT(run({"edit", name, "--drop", "w"}).err, HasSubstr("Git LFS pointer"));
  EXPECT_THAT(run({"append", name, write("good", test::three_tensors().write())}).err, HasSubstr("Git LFS pointer"));
  EXPECT_THAT(run({"verify", "-"}, name).err, HasSubstr("tzmark: -: error TZR-HDR-002 at byte 0: "));
  EXPECT_THAT(run({"verify", "-"}).err, HasSubstr("error TZR-HDR-001 at byte 0: the file is empty"));
}

TEST_F(CliTest, TheContentTellsTheFormat) {
  const std::string expected = run({"dump", write("s.safetensors", small_safetensors())}).out;
  EXPECT_THAT(expected, HasSubstr("\"format\": \"safetensors\""));
  for (const char* name : {"4d7a2146", "s.SAFETENSORS", "s.tensors"}) {
    const std::string file = write(name, small_safetensors());
    EXPECT_EQ(run({"dump", file}).out, expected) << name;
    EXPECT_THAT(run({"inspect", file}).out, HasSubstr(": safetensors, 1 tensors"));
    EXPECT_EQ(run({"extract", file, "w"}).out, "x");
    EXPECT_EQ(run({"convert", file, path("out")}).status, 0);
    EXPECT_THAT(run({"verify", path("out")}).out, HasSubstr(": 1 tensors, v1"));
    const Result bytes = run({"inspect", "--bytes", file});
    EXPECT_EQ(bytes.status, 0) << bytes.err;
    EXPECT_THAT(bytes.out, HasSubstr("tensor 0: name = 'w'"));
    EXPECT_THAT(bytes.out, HasSubstr("tensor 0: data = 78"));
  }
  EXPECT_THAT(run({"inspect", "--bytes", "-"}, path("s.safetensors")).out, HasSubstr("tensor 0: name = 'w'"));
  EXPECT_EQ(run({"dump", "-"}, path("s.safetensors")).out, expected);
  EXPECT_EQ(run({"extract", "-", "w"}, path("s.safetensors")).out, "x");
  EXPECT_EQ(run({"dump", write("t.safetensors", test::three_tensors().write())}).out,
            run({"dump", write("t.tensors", test::three_tensors().write())}).out);
  // What is written is chosen by the name, in upper case, too.
  ASSERT_EQ(run({"convert", path("s.safetensors"), path("upper.SAFETENSORS")}).status, 0);
  EXPECT_EQ(slurp(path("upper.SAFETENSORS")), slurp(path("s.safetensors")));
}

TEST_F(CliTest, ADirectoryIsItsModel) {
  fs::create_directory(path("model"));
  const std::string inside = write("model/model.safetensors", small_safetensors());
  EXPECT_EQ(run({"dump", path("model")}).out, run({"dump", inside}).out);
  const Result verified = run({"verify", path("model")});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr(inside + ": 1 tensors"));
  EXPECT_EQ(run({"convert", path("model"), path("out.tensors")}).status, 0);
  EXPECT_EQ(run({"extract", path("model"), "w"}).out, "x");
  write("model/other.safetensors", std::string());
  write("model/model.tensors", std::string());
  const Result several = run({"verify", path("model")});
  EXPECT_EQ(several.status, 2);
  EXPECT_EQ(several.err, "tzmark: " + path("model") +
                             ": error TZE-USE-001: the directory contains 3 models: give the file to read, one of "
                             "model.safetensors, model.tensors, other.safetensors\n");
  fs::create_directory(path("nothing"));
  EXPECT_THAT(run({"inspect", path("nothing")}).err,
              HasSubstr("/nothing: error TZE-ENV-001: the directory contains no"));
}

TEST_F(CliTest, VerifiesSeveralFiles) {
  auto damaged = test::three_tensors().write();
  const std::string good = write("model-rank-0.tensors", damaged);
  damaged[damaged.size() - 9] ^= std::byte{1};
  const std::string bad = write("model-rank-1.tensors", damaged);
  const std::string last = write("s.safetensors", small_safetensors());
  const Result all = run({"verify", good, bad, path("missing"), last});
  EXPECT_EQ(all.status, 3) << "the highest";
  EXPECT_EQ(all.out, run({"verify", good}).out + run({"verify", last}).out);
  EXPECT_EQ(all.err, run({"verify", bad}).err + run({"verify", path("missing")}).err);
  EXPECT_EQ(run({"verify", bad, good}).status, 1);
  EXPECT_EQ(run({"verify", good, last, "--quiet"}).out, "");
  EXPECT_EQ(run({"verify", good, "--structure-only", last}).status, 0);
  EXPECT_EQ(run({"verify", "-", last}, good).status, 0);
  EXPECT_EQ(run({"verify", "-", "-"}, good).status, 2);
  EXPECT_EQ(run({"verify", good, last, "--data-file", bad}).status, 2);
}

// Runs a command with a pipe as its output, and calls between_reads after its first byte.
template <typename Action>
Result run_piped(const std::string& program, const std::vector<std::string>& arguments, const std::string& err,
                 Action&& between_reads) {
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    ::execv(program.c_str(), const_cast<char* const*>(argv.data()));
    ::_exit(127);
  }
  ::close(ends[1]);
  Result result;
  std::array<char, 4096> block{};
  std::size_t wanted = 1;
  for (ssize_t got = 0; (got = ::read(ends[0], block.data(), wanted)) > 0; wanted = block.size()) {
    if (result.out.empty()) between_reads();
    result.out.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.err = slurp(err);
  return result;
}

TEST_F(CliTest, ExtractPrintsOnlyWhatItVerified) {
  test::Content content;
  content.add({"w"}, "uint8", {8 << 20});
  const auto& data = content.data[0];
  const std::string whole(reinterpret_cast<const char*>(data.data()), data.size());
  const auto bytes = content.write();
  const std::uint64_t last_byte = test::open_bytes(bytes).tensors()[0].data_offset + data.size() - 1;
  const std::string name = write("changing", bytes);
  const Result clean = run_piped(program_, {"extract", name, "w"}, path(".err"), [] {});
  EXPECT_EQ(clean.status, 0) << clean.err;
  EXPECT_TRUE(clean.out == whole);

  // The pipe holds far less than the tensor, so the second read of its end comes after the change.
  const Result changed = run_piped(program_, {"extract", name, "w"}, path(".err"), [&] {
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(last_byte));
    file.put(static_cast<char>(~std::to_integer<int>(data.back())));
  });
  EXPECT_EQ(changed.status, 3);
  EXPECT_THAT(changed.err, HasSubstr("error TZE-ENV-005"));
  EXPECT_LT(changed.out.size(), whole.size());
  EXPECT_TRUE(whole.starts_with(changed.out)) << "bytes that were not verified are printed";
}

TEST_F(CliTest, PrintsOnlyAnErrorWithoutTheRightKey) {
  WriteOptions options;
  options.encrypt = test::with_key();
  const std::string sealed = write("sealed", test::three_tensors().write(options));
  const std::string right = write_secret("right.key", std::string(test::kKeyHex) + "\n");
  const std::string wrong = write_secret("wrong.key", std::string(64, 'f'));
  EXPECT_EQ(run({"dump", sealed, "--key-file", right}).status, 0);
  EXPECT_EQ(run({"verify", sealed, "--key-file", right}).status, 0);
  const std::vector<std::vector<std::string>> keys = {{}, {"--key-file", wrong}, {"--passphrase", "x"}};
  for (const auto& key : keys) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"dump", sealed},
                                                    {"verify", sealed},
                                                    {"extract", sealed, "b"},
                                                    {"convert", sealed, path("plain")}}) {
      auto arguments = command;
      arguments.insert(arguments.end(), key.begin(), key.end());
      const Result result = run(arguments);
      EXPECT_EQ(result.status, 1) << command[0];
      EXPECT_EQ(result.out, "") << command[0];
      EXPECT_THAT(result.err, MatchesRegex("tzmark: [^\n]*error TZR-CRY-0[0-9]+ at byte [^\n]*\n"));
      EXPECT_FALSE(fs::exists(path("plain")));
    }
  }
  EXPECT_EQ(run({"inspect", sealed}).status, 0) << "needs no key";
  EXPECT_EQ(run({"verify", sealed, "--structure-only"}).status, 0) << "needs no key";
}

TEST_F(CliTest, ConvertKeepsEveryHashThereAndBack) {
  const std::string v1 = write("v1", test::three_tensors().write());
  EXPECT_EQ(run({"convert", v1, path("v4"), "--layout", "v4"}).status, 0);
  EXPECT_EQ(run({"convert", path("v4"), path("back")}).status, 0);
  EXPECT_EQ(slurp(path("back")), slurp(v1)) << "auto is the lowest version, so the file is the same again";
  EXPECT_THAT(run({"inspect", path("v4")}).out, HasSubstr("layout v4, data version 4"));
}

TEST_F(CliTest, ConvertRejectsWhatALayoutCannotHold) {
  test::Content content = test::three_tensors();
  content.add({"ghost"}, "float32", {4}, true);
  const std::string v4 = write("v4", content.write());
  const Result result = run({"convert", v4, path("v1"), "--layout", "v1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("TZR-HDR-006: layout v1 cannot hold this: 'ghost' is a meta tensor"));
  EXPECT_FALSE(fs::exists(path("v1")));
}

TEST_F(CliTest, EncryptsRekeysAndDecrypts) {
  const std::string plain = write("plain", test::three_tensors().write());
  const std::string key = write("a.key", std::string(test::kKeyHex));
  const std::string phrase = write("phrase", "open sesame\n");
  ASSERT_EQ(run({"convert", plain, path("a"), "--encrypt-key-file", key}).status, 0);
  const Result rekeyed = run({"convert", path("a"), path("b"), "--key-file", key, "--encrypt-passphrase-file", phrase,
                              "--opslimit", "1", "--memlimit", "8KiB", "--layout", "v4"});
  ASSERT_EQ(rekeyed.status, 0) << rekeyed.err;
  EXPECT_THAT(run({"inspect", path("b")}).out, HasSubstr("sealed by 2 MiB, passphrase"));
  ASSERT_EQ(run({"convert", path("b"), path("c"), "--passphrase-file", phrase}).status, 0);
  EXPECT_EQ(slurp(path("c")), slurp(plain));
}

TEST_F(CliTest, FailedWritesLeaveNothingBehind) {
  auto damaged = test::three_tensors().write();
  damaged[damaged.size() - 9] ^= std::byte{1};
  const std::string bad = write("bad", damaged);
  EXPECT_EQ(run({"convert", bad, path("out")}).status, 1);
  EXPECT_EQ(run({"convert", bad, path("no/such/directory/out")}).status, 3);
  EXPECT_EQ(run({"extract", bad, R"(["layers",0,"bias"])", "-o", path("out")}).status, 1);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::AnyOf("bad", ".out", ".err"));
  }
}

TEST_F(CliTest, ReadsAndWritesPipes) {
  const std::string file = write("file", test::three_tensors().write());
  EXPECT_EQ(run({"dump", "-"}, file).out, run({"dump", file}).out);
  EXPECT_EQ(run({"verify", "-"}, file).status, 0);
  EXPECT_EQ(run({"convert", "-", "-"}, file).out, slurp(file));
}

TEST_F(CliTest, ExtractWritesAllBytesOrNone) {
  const test::Content content = test::three_tensors();
  const std::string file = write("file", content.write());
  EXPECT_EQ(run({"extract", file, "b"}).out, as_text(content.data[1]));
  EXPECT_EQ(run({"extract", file, R"(["layers", 0, "bias"])", "-o", path("raw")}).status, 0);
  EXPECT_EQ(slurp(path("raw")), as_text(content.data[2]));
  const Result missing = run({"extract", file, "absent"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("TZE-USE-002: there is no tensor 'absent'"));
}

TEST_F(CliTest, DumpIsCanonicalJson) {
  const json dump = json::parse(run({"dump", write("f", test::three_tensors().write())}).out);
  EXPECT_EQ(dump.at("layout"), "v1");
  EXPECT_EQ(dump.at("tensors").at(2).at("path"), json::parse(R"(["layers",0,"bias"])"));
  EXPECT_EQ(dump.at("tensors").at(1).at("module_index"), 1);
}

TEST_F(CliTest, ShowsProgressOnTerminalsOrIfForced) {
  const std::string file = write("file", test::three_tensors().write());
  EXPECT_EQ(run({"verify", file}).err, "");
  EXPECT_THAT(run({"verify", file, "--progress"}).err, HasSubstr("verify: "));
  EXPECT_THAT(run({"convert", file, path("out"), "--progress"}).err, HasSubstr("convert: "));
}

// Rejecting a file with false sizes takes memory in proportion to the real size.
TEST_F(CliTest, FalseSizesTakeNoMemory) {
  const auto good = test::three_tensors().write();
  const auto with = [&](std::size_t at, std::uint64_t value) {
    auto bytes = good;
    store(std::span(bytes), at, value);
    return bytes;
  };
  const Reader reader = test::open_bytes(good);
  const std::size_t entry_end = reader.index_begin() + reader.index_used();
  const std::map<std::string, std::vector<std::byte>> lies = {
      {"count-2-40", with(57, std::uint64_t{1} << 40)},
      {"index-2-60", with(65, std::uint64_t{1} << 60)},
      {"tensor-2-62", with(entry_end - 8, std::uint64_t{1} << 62)},
      {"header-2-62", with(reader.tensors()[0].header_offset, std::uint64_t{1} << 62)},
  };
  for (const auto& [name, bytes] : lies) {
    for (const char* command : {"verify", "dump", "inspect"}) {
      const Result result = run({command, write(name, bytes)});
      EXPECT_EQ(result.status, 1) << name;
      EXPECT_LT(result.peak_kib, kPeakKibMax) << name << " " << command;
    }
  }
}

// Zeros of a sparse file may fill the index, so only entries may take memory.
TEST_F(CliTest, ZerosInTheIndexTakeNoMemory) {
  auto bytes = test::three_tensors().write();
  const std::uint64_t shift = 256 << 20;
  const Reader reader = test::open_bytes(bytes);
  std::vector<std::byte> records(
      bytes.begin() + static_cast<std::ptrdiff_t>(reader.index_begin() + reader.index_length()), bytes.end());
  // Entries stay in place; both offsets of each move by the length of the zeros.
  const std::span<const std::byte> entries(bytes.data() + reader.index_begin(), reader.index_used());
  ByteReader index(entries, reader.index_begin(), ErrorCode::kIndexEntryPastEnd, "the index");
  std::vector<std::byte> moved;
  ByteWriter writer(moved);
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    IndexEntry entry;
    decode_index_entry(index, Layout::kV1, entry);
    encode_index_entry(writer, Layout::kV1, entry, entry.header_offset + shift, entry.data_offset + shift);
  }
  std::ranges::copy(moved, bytes.begin() + static_cast<std::ptrdiff_t>(reader.index_begin()));
  store(std::span(bytes), 65, reader.index_length() + shift);
  bytes.resize(reader.index_begin() + reader.index_used());
  const std::string name = write("sparse", bytes);
  fs::resize_file(name, reader.index_begin() + reader.index_length() + shift);
  std::ofstream(name, std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(records.data()), static_cast<std::streamsize>(records.size()));
  const Result result = run({"verify", name});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(result.peak_kib, kPeakKibMax);
}

TEST_F(CliTest, EndsQuietlyWhenAPipeIsClosed) {
  const std::string file = write("file", test::three_tensors().write());
  const std::string program = std::string(std::getenv("TZMARK_BUILD_DIR")) + "/bin/tzmark";
  const std::string command = test::shell_word(program) + " inspect --bytes " + test::shell_word(file) + " | true";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

// Parses the bytes that inspect --bytes --unfolded shows, in their order.
std::vector<std::byte> shown_bytes(const std::string& out) {
  constexpr std::size_t kHexAt = 14, kHexLength = 48;
  std::vector<std::byte> bytes;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(std::stoull(line), bytes.size()) << line;
    std::istringstream words(line.substr(kHexAt, kHexLength));
    for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  return bytes;
}

TEST_F(CliTest, InspectShowsEveryByteOnceOfGoodAndBrokenFiles) {
  std::vector<std::vector<std::byte>> good = {test::three_tensors().write()};
  WriteOptions sealed;
  sealed.encrypt = test::with_key(1024);
  good.push_back(test::three_tensors().write(sealed));
  for (const Layout layout :
       {Layout::kV4, Layout::kV5FlaggedDims, Layout::kV5LongDims, Layout::kV5HeadersFirst, Layout::kV5Segments}) {
    WriteOptions options;
    options.layout = layout;
    good.push_back(test::three_tensors().write(std::move(options)));
  }
  std::vector<std::vector<std::byte>> broken;
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    auto& bytes = broken.emplace_back(good[static_cast<std::size_t>(i) % good.size()]);
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    // Most fields are near the start.
    if (!bytes.empty()) bytes[random() % std::min<std::size_t>(bytes.size(), 400)] = static_cast<std::byte>(random());
  }
  good.push_back(good[0]);
  good.back().insert(good.back().end(), 20, std::byte{7});  // trailing bytes
  const auto inspect = [&](const std::vector<std::byte>& bytes) {
    const Result result = run({"inspect", "--bytes", "--unfolded", write("file", bytes)});
    EXPECT_EQ(shown_bytes(result.out), bytes);
    EXPECT_EQ(result.status == 0, result.err.empty());
    const Result verified = run({"verify", "--structure-only", path("file")});
    EXPECT_EQ(result.status, verified.status) << result.err << verified.err;
    return result;
  };
  for (const auto& bytes : good) EXPECT_EQ(inspect(bytes).err, "");
  for (const auto& bytes : broken) inspect(bytes);
  const Result cut = inspect({good[0].begin(), good[0].begin() + 70});
  EXPECT_THAT(cut.out, HasSubstr("file header: tensor count = 3\n"));
  EXPECT_THAT(cut.err, HasSubstr("/file: error TZR-IDX-001 at byte 65: index: index_length runs past byte 70, "));
}

TEST_F(CliTest, InspectFoldsLongDataAndReadsPipesAndDetachedData) {
  test::Content content = test::three_tensors();
  content.add({"large"}, "uint8", {1000});
  const std::string file = write("file", content.write());
  const Result folded = run({"inspect", "--bytes", file});
  EXPECT_THAT(folded.out, HasSubstr("tensor 3: data = "));
  EXPECT_THAT(folded.out, HasSubstr("         ...  (968 more bytes)\n"));
  EXPECT_EQ(run({"inspect", "--bytes", "-"}, file).out, folded.out);
  ASSERT_EQ(run({"convert", file, path("head"), "--layout", "v5-segments", "--split"}).status, 0);
  const Result head = run({"inspect", "--bytes", path("head")});
  EXPECT_EQ(head.status, 0) << head.err;
  EXPECT_THAT(head.out, HasSubstr("feature flags = bits 255\n"));
  EXPECT_THAT(head.out, HasSubstr("tensor header 3, hash 1: hash value = "));
  EXPECT_THAT(head.out, ::testing::Not(HasSubstr("data = ")));
}

TEST_F(CliTest, InspectReportsAFileThatShrinks) {
  test::Content content;
  content.add({"w"}, "uint8", {8 << 20});
  const std::string file = write("file", content.write());
  const Result result = run_piped(program_, {"inspect", "--bytes", "--unfolded", file}, path(".err"),
                                  [&] { fs::resize_file(file, 100); });
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, MatchesRegex("tzmark: .*/file: error TZE-ENV-005 at byte [0-9]+: "
                                       "the file became shorter or unreadable\n"));
}

// A file of terabytes takes neither time nor memory, as the command reads no data.
TEST_F(CliTest, InspectShowsHugeFiles) {
  const std::string file = write("file", test::three_tensors().write());
#ifdef __SANITIZE_THREAD__
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 36;  // its shadow leaves no room for more
#else
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 42;
#endif
  fs::resize_file(file, kBytes);
  const Result result = run({"inspect", "--bytes", file});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("file: rest, ignored\n"));
  EXPECT_LT(result.peak_kib, kPeakKibMax);
}

}  // namespace
}  // namespace tzmark
