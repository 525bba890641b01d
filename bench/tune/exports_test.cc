// Exports: their texts, that shells read them as meant, and that fio runs its job as written.
#include "tune/exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/fio.h"
#include "harness/process.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/profile.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;

ExportedTask exported(const std::string& task, const std::string& io, const std::string& directory = "/data") {
  return {.task = task,
          .setting = {.io = io, .block_bytes = 256 << 10, .queue_depth = 16, .threads = 4, .pages = Pages::kHuge},
          .directory = directory,
          .bytes = 10 * kMiB + 5};
}

Export export_of(const ExportedTask& task, const std::string& name) {
  const std::vector<Export> exports = exports_of(task);
  const auto found = std::ranges::find(exports, name, &Export::name);
  if (found == exports.end()) throw std::runtime_error("no export for " + name);
  return *found;
}

std::string lost_text(const Export& of) {
  std::string text;
  for (const std::string& sentence : of.lost) text += sentence + "\n";
  return text;
}

TEST(Exports, SavesBeginToWriteBackAsTzmarkDoes) {
  ExportedTask save = exported("save", "pwrite");
  const auto begins = [&] {
    return export_of(save, "fio").text.find("\nsync_file_range=write:1\n") != std::string::npos;
  };
  save.is_synced = true;
  EXPECT_TRUE(begins());
  EXPECT_THAT(lost_text(export_of(save, "elbencho")), HasSubstr("sync_file_range"));
  EXPECT_THAT(lost_text(export_of(save, "ior")), HasSubstr("sync_file_range"));
  save.setting.block_bytes = 128 << 10;
  EXPECT_FALSE(begins()) << "small writes wait";
  save = exported("save", "mmap");
  save.is_synced = true;
  EXPECT_FALSE(begins());
  save = exported("save", "pwrite");
  save.is_synced = false;
  EXPECT_FALSE(begins());
  EXPECT_FALSE(lost_text(export_of(save, "elbencho")).find("sync_file_range") != std::string::npos);
}

TEST(Exports, SyncedSavesRegisterNoBuffers) {
  const auto registers = [](const ExportedTask& task) {
    return export_of(task, "fio").text.find("\nfixedbufs\n") != std::string::npos;
  };
  ExportedTask save = exported("save", "uring-direct");
  EXPECT_FALSE(registers(save)) << "the sync of fio 3.39 fails";
  EXPECT_THAT(lost_text(export_of(save, "fio")), HasSubstr("registers no buffers"));
  save.is_synced = false;
  EXPECT_TRUE(registers(save));
  EXPECT_TRUE(registers(exported("load-cold", "uring-direct")));
  EXPECT_FALSE(registers(exported("load-cold", "direct"))) << "no io_uring";
}

TEST(Exports, EachSaysWhatIsLost) {
  for (const char* task : {"load-warm", "load-cold", "save"}) {
    std::vector<std::string> names;
    for (const Export& one : exports_of(exported(task, "uring-direct"))) {
      names.push_back(one.name);
      EXPECT_EQ(one.task, task) << one.name;
      EXPECT_FALSE(one.lost.empty()) << one.name;
      EXPECT_TRUE(one.text.ends_with('\n')) << one.name;
      for (const std::string& sentence : one.lost) EXPECT_TRUE(sentence.ends_with('.')) << sentence;
    }
    const std::vector<std::string> programs = {"fio", "elbencho", "ior", "deepspeed"};
    std::vector<std::string> loaders = programs;
    loaders.insert(loaders.end(), {"runai", "instanttensor", "tensorizer"});
    EXPECT_EQ(names, std::string_view(task) == "save" ? programs : loaders);
  }
}

TEST(Exports, CommandLinesOfElbencho) {
  EXPECT_EQ(export_of(exported("load-cold", "uring-direct"), "elbencho").text,
            "elbencho -w --sync -t 4 -b 262144 -s 10485760 --iodepth 4 --direct --nolive /data/tzmark-tune.elbencho\n"
            "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches\n"
            "elbencho -r -t 4 -b 262144 -s 10485760 --iodepth 4 --direct --nolive /data/tzmark-tune.elbencho\n"
            "elbencho -F --nolive /data/tzmark-tune.elbencho\n");
  // A synchronous path has a thread per transfer.
  const Export save = export_of(exported("save", "pwrite"), "elbencho");
  EXPECT_THAT(save.text, HasSubstr("elbencho -w --sync -t 16 -b 262144 -s 8388608 --nolive"));
  EXPECT_THAT(lost_text(save), HasSubstr("--sync is a phase after the writes"));
}

TEST(Exports, CommandLinesOfIor) {
  EXPECT_EQ(
      export_of(exported("load-warm", "direct", "/it's here"), "ior").text,
      "mpirun -n 16 ior -a POSIX -t 262144 -b 524288 -o '/it'\\''s here/tzmark-tune.ior' --posix.odirect -w -k -e\n"
      "mpirun -n 16 ior -a POSIX -t 262144 -b 524288 -o '/it'\\''s here/tzmark-tune.ior' --posix.odirect -r -k\n"
      "rm -- '/it'\\''s here/tzmark-tune.ior'\n");
  EXPECT_THAT(export_of(exported("save", "mmap"), "ior").text, HasSubstr("-a MMAP"));
}

TEST(Exports, ConfigurationOfDeepspeed) {
  const Export found = export_of(exported("save", "uring-direct"), "deepspeed");
  EXPECT_EQ(json::parse(found.text), json::parse(R"({"aio": {"block_size": 262144, "queue_depth": 4,
            "intra_op_parallelism": 4, "single_submit": false, "overlap_events": true, "use_gds": false}})"));
  EXPECT_THAT(lost_text(found), Not(HasSubstr("page cache")));
  EXPECT_THAT(lost_text(export_of(exported("save", "uring"), "deepspeed")), HasSubstr("page cache"));
}

TEST(Exports, EnvironmentOfRunai) {
  ExportedTask task = exported("load-cold", "uring-direct");
  const Export small = export_of(task, "runai");
  EXPECT_EQ(small.text, "export RUNAI_STREAMER_CONCURRENCY=2\nexport RUNAI_STREAMER_CHUNK_BYTESIZE=2097152\n");
  EXPECT_THAT(lost_text(small), HasSubstr("16 blocks of 256 KiB in flight become 2 chunks"));
  task.setting.block_bytes = 4 * kMiB;
  task.memory_bytes = kMiB;  // less than what is in flight
  EXPECT_EQ(export_of(task, "runai").text,
            "export RUNAI_STREAMER_CONCURRENCY=16\nexport RUNAI_STREAMER_CHUNK_BYTESIZE=4194304\n"
            "export RUNAI_STREAMER_MEMORY_LIMIT=67108864\n");
}

TEST(Exports, ConfigurationOfInstanttensor) {
  const auto config = [](const std::string& io) {
    return json::parse(export_of(exported("load-cold", io), "instanttensor").text);
  };
  EXPECT_EQ(config("uring-direct"), json::parse(R"({"chunk_size": 262144, "io_depth": 16, "backend": ["URING", "AIO"],
                                                    "buffer_size": 4194304})"));
  EXPECT_EQ(config("pwrite")["backend"], json::parse(R"(["URING_BUFFERED", "AIO_BUFFERED"])"));
  EXPECT_EQ(config("mmap"), json::parse(R"({"chunk_size": 262144, "io_depth": 16, "backend": ["MMAP"],
                                            "concurrency": 4, "buffer_size": 4194304})"));
  EXPECT_EQ(config("gpudirect")["backend"], json::parse(R"(["CUFILE"])"));
  ExportedTask deep = exported("load-cold", "uring-direct");
  deep.setting.queue_depth = 2048;
  const Export limited = export_of(deep, "instanttensor");
  EXPECT_EQ(json::parse(limited.text)["io_depth"], 1024);
  EXPECT_THAT(lost_text(limited), HasSubstr("at most 1024"));
}

TEST(Exports, CallOfTensorizer) {
  EXPECT_EQ(export_of(exported("load-warm", "pwrite"), "tensorizer").text,
            "TensorDeserializer(path, num_readers=16)\n");
}

TEST(Exports, ProfileOfTzmarkIsOneThatItReads) {
  const std::vector<ExportedTask> tasks = {exported("load-warm", "mmap"), exported("load-cold", "uring-direct"),
                                           exported("save", "direct", "/a \"b\"")};
  const Profile profile = parse_profile(tzmark_profile(tasks).text);
  EXPECT_EQ(profile.load_warm->io_path, "mmap");
  EXPECT_EQ(profile.load_cold->io_path, "uring-direct");
  EXPECT_EQ(profile.load_cold->queue_depth, 16u);
  EXPECT_EQ(profile.load_cold->pages, HostMemory::Pages::kHuge);
  EXPECT_EQ(profile.save->block_bytes, 256u << 10);
  EXPECT_FALSE(parse_profile(tzmark_profile(std::span(tasks).first(1)).text).save);
}

TEST(Exports, OfAServerAreThoseOfWhatReadsUrls) {
  const ExportedTask task = exported("load-server", "http", "https://models.example/model.tensors");
  std::vector<Export> exports = exports_of_served(task, /*is_s3=*/false);
  ASSERT_EQ(exports.size(), 1U);
  EXPECT_EQ(exports[0].name, "tensorizer");
  EXPECT_THAT(exports[0].text, HasSubstr("num_readers=16"));
  EXPECT_THAT(lost_text(exports[0]), Not(HasSubstr("page cache")));
  exports = exports_of_served(task, /*is_s3=*/true);
  ASSERT_EQ(exports.size(), 2U);
  EXPECT_EQ(exports[0].name, "runai");
  EXPECT_THAT(lost_text(exports[0]), Not(HasSubstr("page cache")));
  const Profile profile = parse_profile(tzmark_profile({&task, 1}).text);
  ASSERT_TRUE(profile.load_cold);
  EXPECT_FALSE(profile.load_cold->io_path) << "it would keep the profile from files of this machine";
  EXPECT_EQ(profile.load_cold->queue_depth, 16U);
  EXPECT_FALSE(profile.load_warm);
}

TEST(Exports, RefuseNamesThatNoTextCanHold) {
  for (const char* directory : {"/a\nb", "/a\x1b", "/a\x7f"}) {
    EXPECT_THROW(exports_of(exported("save", "pwrite", directory)), Error) << directory;
  }
  ExportedTask unresolved = exported("save", "pwrite");
  unresolved.setting.queue_depth = 0;
  EXPECT_THROW(exports_of(unresolved), Error);
}

TEST(ShellQuoted, IsReadBackByAShell) {
  for (const std::string word :
       {"plain", "", "a b", "it's", "$HOME `id` \\ \"", "*", "-x", "~", "#", "a;b&c|d", "\xff"}) {
    const CommandResult result = run_command({"sh", "-c", "printf %s " + shell_quoted(word)}, std::chrono::seconds(10));
    EXPECT_EQ(result.output, word);
  }
  EXPECT_EQ(shell_quoted("/data/x-1.y"), "/data/x-1.y");
  EXPECT_THROW(shell_quoted("a\nb"), Error);
}

class FioJobFile : public testing::Test {
 protected:
  // Runs the job as a user does, in that directory, and checks what it moved.
  void run_job(const std::string& task, const IoPath& path, const std::string& directory) {
    const Export job = export_of(exported(task, std::string(path.name), directory), "fio");
    const std::string name = parent_ / *job.file_name;
    test::write_whole(name, std::as_bytes(std::span(job.text)));
    // What an earlier job left must not be taken for this one's.
    const std::string file = directory + "/tzmark-tune.fio";
    std::filesystem::remove(file);
    const bool is_named = job.text.find("filename=" + parent_.name()) != std::string::npos;
    const std::string from = is_named ? "/" : directory;
    const CommandResult result = run_command(
        {"sh", "-c", "cd " + shell_quoted(from) + " && fio --output-format=json " + name}, std::chrono::minutes(1));
    ASSERT_EQ(result.end, "") << job.text << result.error_tail;
    const std::size_t begin = result.output.find('{');
    ASSERT_NE(begin, std::string::npos) << result.output;
    const json document = json::parse(result.output.substr(begin));
    const json& moved = document.at("jobs").at(0).at(task == "save" ? "write" : "read");
    // Whole blocks, as many for each of 4 or 16 jobs.
    const std::uint64_t bytes = path.name.starts_with("uring") ? 10 * kMiB : 8 * kMiB;
    EXPECT_EQ(moved.at("io_bytes"), bytes) << task << " " << path.name << "\n" << job.text;
    EXPECT_EQ(std::filesystem::file_size(file), bytes) << task << " " << path.name << "\n" << job.text;
  }

  test::TestDirectory parent_;
};

TEST_F(FioJobFile, RunsAsWritten) {
  if (!fio_version()) GTEST_SKIP() << "no fio";
  const std::string directory = parent_ / "it's \"50%\": a";
  std::filesystem::create_directory(directory);
  for (const char* task : {"save", "load-warm", "load-cold"}) {
    for (const IoPath& path : io_paths()) {
      if (!path.traits.is_remote && path.why_unavailable().empty()) run_job(task, path, directory);
    }
  }
}

TEST_F(FioJobFile, RunsInADirectoryWhoseNameItCannotHold) {
  if (!fio_version()) GTEST_SKIP() << "no fio";
  const std::string directory = parent_ / "a;b#c$d\\e: ";
  std::filesystem::create_directory(directory);
  const auto paths = io_paths();
  const auto path = std::ranges::find(paths, "pwrite", &IoPath::name);
  const Export job = export_of(exported("save", "pwrite", directory), "fio");
  EXPECT_THAT(job.text, HasSubstr("Run by: cd " + shell_quoted(directory) +
                                  " && GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio FILE\n"));
  EXPECT_THAT(lost_text(job), HasSubstr("run it there"));
  run_job("save", *path, directory);
  run_job("load-cold", *path, directory);
}

}  // namespace
}  // namespace tzmark::bench
