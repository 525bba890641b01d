// The texts of the exports; see exports.h. docs/tuning-exports.md names the versions whose options these are.
#include "tune/exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/profile.h"

namespace tzmark::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMiB = 1 << 20;

bool is_save(const ExportedTask& task) { return task.task == "save"; }
bool is_cold(const ExportedTask& task) { return task.task == "load-cold"; }
bool is_served(const ExportedTask& task) { return task.task == "load-server"; }

PathTraits traits_of(const Setting& setting) { return path_traits(setting.io); }
bool is_direct(const Setting& setting) { return traits_of(setting).bypasses_cache; }
// The asynchronous paths are those of io_uring.
bool is_uring(const Setting& setting) { return traits_of(setting).is_asynchronous; }
// Whether a save that is synced at its end submits its writes to the device at once.
bool starts_writeback(const ExportedTask& task) {
  return is_save(task) && task.is_synced && traits_of(task.setting).starts_writeback &&
         task.setting.block_bytes >= kWritebackBytesMin;
}
constexpr const char* kWritesBackLate =
    "tzmark begins to write to the device at once (sync_file_range), which this program does not: it waits longer for "
    "its sync.";

// Transfers in flight at once, as jobs of one each or as threads with a queue.
struct Shares {
  unsigned jobs = 1;
  unsigned depth = 1;  // of each
};

Shares shares_of(const Setting& setting) {
  const unsigned in_flight = std::max(1U, setting.queue_depth);
  if (!is_uring(setting)) return {in_flight, 1};
  const unsigned threads = std::clamp(setting.threads, 1U, in_flight);
  return {threads, (in_flight + threads - 1) / threads};
}

// The bytes of a file of whole blocks, as many for each job.
std::uint64_t file_bytes(const ExportedTask& task, unsigned jobs) {
  const std::uint64_t round = task.setting.block_bytes * jobs;
  return std::max<std::uint64_t>(1, task.bytes / round) * round;
}

void add_if(std::vector<std::string>& lost, bool condition, const std::string& what) {
  if (condition) lost.push_back(what);
}

// What a plain transfer loses of what tzmark does.
std::vector<std::string> lost_of_transfers(const Setting& setting, std::string_view program) {
  std::vector<std::string> lost;
  lost.push_back(fmt::format("{} moves one file of equal blocks: no tensors, no index, no hashes.", program));
  add_if(lost, traits_of(setting).moves_device_memory,
         fmt::format("The rate is of transfers to GPU memory; {} as written here uses host memory.", program));
  return lost;
}

void require_plain(const ExportedTask& task) {
  const std::string& directory = task.directory;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(directory, is_control)) {
    throw Error(ErrorCode::kUsage, "the name of the directory has control characters, which no export can hold");
  }
  if (task.setting.block_bytes == 0 || task.setting.queue_depth == 0 || task.setting.threads == 0) {
    throw Error(ErrorCode::kUsage, "an export needs the block size, queue depth and threads, not a default");
  }
}

std::string name_in(const ExportedTask& task, std::string_view program) {
  return fmt::format("{}{}tzmark-tune.{}", task.directory, task.directory.ends_with('/') ? "" : "/", program);
}

// A job file ends a line at ; and #, expands $, and cannot hold a backslash before a colon.
bool fits_job_file(const std::string& directory) { return directory.find_first_of(";#$\\") == std::string::npos; }

// fio separates names by colons.
std::string fio_name(const ExportedTask& task) {
  if (!fits_job_file(task.directory)) return "tzmark-tune.fio";
  std::string escaped;
  for (const char c : name_in(task, "fio")) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
  return escaped;
}

std::string fio_engine(const Setting& setting) {
  if (is_uring(setting)) return "io_uring";
  if (traits_of(setting).maps_file) return "mmap";
  return traits_of(setting).drops_pages ? "pvsync2" : "psync";
}

std::string fio_pattern(const ExportedTask& task, const Shares& shares) {
  std::string pattern = is_save(task) ? "write" : "read";
  if (shares.jobs > 1) pattern += fmt::format(":{}", (shares.jobs - 1) * task.setting.block_bytes);
  return pattern;
}

Export fio_job(const ExportedTask& task) {
  const Setting& setting = task.setting;
  const Shares shares = shares_of(setting);
  const std::uint64_t bytes = file_bytes(task, shares.jobs);
  const std::uint64_t per_job = bytes / shares.jobs;
  const std::string where = fits_job_file(task.directory) ? "" : fmt::format("cd {} && ", shell_quoted(task.directory));
  // A job file cannot ask for huge pages, without which direct transfers take up to twice as long.
  const std::string environment = setting.pages == Pages::kHuge ? malloc_setting(setting.pages) + " " : "";
  std::string text = fmt::format("; {} with {}; leaves tzmark-tune.fio. Run by: {}{}fio FILE\n[{}]\n", task.task,
                                 label_of(setting), where, environment, task.task);
  const auto add = [&](std::string_view name, const auto& value) { text += fmt::format("{}={}\n", name, value); };
  add("filename", fio_name(task));
  add("ioengine", fio_engine(setting));
  add("rw", fio_pattern(task, shares));
  add("bs", setting.block_bytes);
  // The jobs take blocks in turn, so that the disk sees one front that moves through the file.
  add("io_size", per_job);
  add("size", bytes - (shares.jobs - 1) * setting.block_bytes);
  add("offset_increment", setting.block_bytes);
  add("filesize", bytes);
  add("numjobs", shares.jobs);
  text += "thread\ngroup_reporting\n";
  add("direct", is_direct(setting) ? 1 : 0);
  // fio 3.39 asks for the sync with the number of a registered buffer, which the kernel refuses.
  const bool registers_buffers = is_uring(setting) && !(is_save(task) && task.is_synced);
  if (is_uring(setting)) {
    add("iodepth", shares.depth);
    text += "iodepth_batch_complete_min=1\nregisterfiles\n";
  }
  if (registers_buffers) text += "fixedbufs\n";
  if (traits_of(setting).polls_submissions) text += "sqthread_poll\n";
  add("mem_align", 2 * kMiB);
  if (is_save(task)) {
    add("end_fsync", task.is_synced ? 1 : 0);
    if (starts_writeback(task)) text += "sync_file_range=write:1\n";
    add("fallocate", is_direct(setting) ? "native" : "none");
  } else if (is_cold(task)) {
    text += "invalidate=1\n";
  } else {
    // A direct path reads from the disk in any case; fio's reading ahead of time fails with it.
    text += is_direct(setting) ? "invalidate=0\n" : "invalidate=0\npre_read=1\n";
  }
  std::vector<std::string> lost = lost_of_transfers(setting, "fio");
  lost.push_back(task.to_device ? "fio ends in host memory: the copy to the GPU is not part of its rate."
                                : "fio reuses one buffer per transfer; a load fills new memory.");
  add_if(lost, !where.empty(), "A job file cannot hold the name of the directory: run it there.");
  add_if(lost, !environment.empty(),
         "Only the environment in the first line gives fio huge pages: without it, direct transfers are slower.");
  add_if(lost, is_uring(setting) && !registers_buffers,
         "The job registers no buffers, because fio 3.39 fails to sync with them.");
  add_if(lost, is_save(task),
         "fio writes over a file that exists and leaves its size: delete tzmark-tune.fio of an earlier job first.");
  add_if(lost, traits_of(setting).drops_pages, "fio 3.33 has no RWF_DONTCACHE: the job leaves pages in the cache.");
  add_if(lost, traits_of(setting).uses_stdio, "fio has no stdio: the job calls pread and pwrite.");
  add_if(lost, is_cold(task) && !is_direct(setting), "fio drops the pages of its own file only, before it starts.");
  return {"fio", task.task, fmt::format("{}.fio", task.task), std::move(text), std::move(lost)};
}

Export elbencho_lines(const ExportedTask& task) {
  const Setting& setting = task.setting;
  const Shares shares = shares_of(setting);
  const std::string file = shell_quoted(name_in(task, "elbencho"));
  const std::string common = fmt::format(
      "-t {} -b {} -s {}{}{} --nolive {}", shares.jobs, setting.block_bytes, file_bytes(task, shares.jobs),
      shares.depth > 1 ? fmt::format(" --iodepth {}", shares.depth) : "", is_direct(setting) ? " --direct" : "", file);
  std::string text;
  if (is_save(task)) {
    text = fmt::format("elbencho -w{} {}\n", task.is_synced ? " --sync" : "", common);
  } else {
    text = fmt::format("elbencho -w --sync {}\n", common);
    if (is_cold(task)) text += "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches\n";
    text += fmt::format("elbencho -r {}\n", common);
  }
  text += fmt::format("elbencho -F --nolive {}\n", file);
  std::vector<std::string> lost = lost_of_transfers(setting, "elbencho");
  lost.push_back("Each thread of elbencho moves a range of its own; tzmark's take blocks in turn.");
  add_if(lost, is_uring(setting) && shares.depth > 1, "Its asynchronous transfers are libaio's, not io_uring's.");
  add_if(lost, is_uring(setting) && shares.depth > 1 && !is_direct(setting),
         "libaio waits in the submission of a transfer through the page cache: the queue depth has no effect.");
  add_if(lost, traits_of(setting).maps_file, "elbencho maps the file with --mmap, which is not in the line.");
  add_if(lost, starts_writeback(task), kWritesBackLate);
  add_if(lost, is_save(task) && task.is_synced,
         "--sync is a phase after the writes: add its time to theirs before you compare.");
  add_if(lost, setting.pages == Pages::kHuge, "It takes no huge pages.");
  return {"elbencho", task.task, {}, std::move(text), std::move(lost)};
}

Export ior_lines(const ExportedTask& task) {
  const Setting& setting = task.setting;
  // The backend AIO of IOR hands its transfers over at the end of the file, so POSIX with a task each is the nearest.
  const unsigned tasks = std::max(1U, setting.queue_depth);
  const std::string file = shell_quoted(name_in(task, "ior"));
  const std::string common = fmt::format(
      "mpirun -n {} ior -a {} -t {} -b {} -o {}{}", tasks, traits_of(setting).maps_file ? "MMAP" : "POSIX",
      setting.block_bytes, file_bytes(task, tasks) / tasks, file, is_direct(setting) ? " --posix.odirect" : "");
  std::string text;
  if (is_save(task)) {
    text = fmt::format("{} -w -k{}\n", common, task.is_synced ? " -e" : "");
  } else {
    text = fmt::format("{} -w -k -e\n", common);
    if (is_cold(task)) text += "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches\n";
    text += fmt::format("{} -r -k\n", common);
  }
  text += fmt::format("rm -- {}\n", file);
  std::vector<std::string> lost = lost_of_transfers(setting, "IOR");
  lost.push_back(
      "Each task of IOR is a process that moves a range of its own, one transfer at a time; tzmark's threads "
      "take blocks in turn.");
  add_if(lost, is_uring(setting), "IOR has no io_uring: each transfer in flight is a process.");
  add_if(lost, starts_writeback(task), kWritesBackLate);
  add_if(lost, setting.pages == Pages::kHuge, "It takes no huge pages.");
  return {"ior", task.task, {}, std::move(text), std::move(lost)};
}

Export deepspeed_config(const ExportedTask& task) {
  const Setting& setting = task.setting;
  const Shares shares = shares_of(setting);
  const ordered_json aio = {{"block_size", setting.block_bytes},
                            {"queue_depth", shares.depth},
                            {"intra_op_parallelism", shares.jobs},
                            {"single_submit", false},
                            {"overlap_events", true},
                            {"use_gds", traits_of(setting).moves_device_memory}};
  std::vector<std::string> lost;
  lost.push_back(
      "DeepSpeed moves the swapped tensors of ZeRO-Infinity with it, and checkpoints with FastPersist; it "
      "has one set of numbers for reads and writes.");
  lost.push_back("Its transfers are libaio's with O_DIRECT, whatever the path here.");
  add_if(lost, !is_direct(setting),
         fmt::format("{} goes through the page cache, so its rate says little about DeepSpeed.", setting.io));
  lost.push_back("block_size cuts each tensor: smaller ones are one transfer each.");
  return {"deepspeed", task.task, fmt::format("deepspeed-{}.json", task.task),
          ordered_json{{"aio", aio}}.dump(2) + "\n", std::move(lost)};
}

std::uint64_t held_bytes(const ExportedTask& task) {
  return std::max(task.memory_bytes, task.setting.bytes_in_flight());
}

Export runai_environment(const ExportedTask& task) {
  constexpr std::uint64_t kLeastChunkBytes = 2 * kMiB;
  const Setting& setting = task.setting;
  const std::uint64_t chunk_bytes = std::max(setting.block_bytes, kLeastChunkBytes);
  // With larger chunks, fewer of them are as many bytes in flight.
  const std::uint64_t threads = std::max<std::uint64_t>(1, setting.bytes_in_flight() / chunk_bytes);
  std::string text = fmt::format("export RUNAI_STREAMER_CONCURRENCY={}\nexport RUNAI_STREAMER_CHUNK_BYTESIZE={}\n",
                                 threads, chunk_bytes);
  if (task.memory_bytes != 0) text += fmt::format("export RUNAI_STREAMER_MEMORY_LIMIT={}\n", held_bytes(task));
  std::vector<std::string> lost;
  add_if(lost, chunk_bytes != setting.block_bytes,
         fmt::format("Chunks have at least 2 MiB, so {} blocks of {} KiB in flight become {} chunk{}.",
                     setting.queue_depth, setting.block_bytes / 1024, threads, threads == 1 ? "" : "s"));
  lost.emplace_back(is_served(task)
                        ? "The streamer reads safetensors files: the rate here is that of a .tensors file."
                        : "Each chunk in flight is a thread that reads through the page cache; there is no O_DIRECT "
                          "and no io_uring.");
  add_if(lost, task.memory_bytes != 0,
         "The memory limit covers whole tensors in host memory: it is raised to the largest of them.");
  return {"runai", task.task, fmt::format("runai-{}.env", task.task), std::move(text), std::move(lost)};
}

Export instanttensor_config(const ExportedTask& task) {
  constexpr unsigned kMostInFlight = 1024;
  const Setting& setting = task.setting;
  const unsigned in_flight = std::min(setting.queue_depth, kMostInFlight);
  const bool has_workers = traits_of(setting).maps_file || traits_of(setting).moves_device_memory;
  ordered_json config = {{"chunk_size", setting.block_bytes}, {"io_depth", in_flight}};
  std::vector<std::string> lost;
  if (traits_of(setting).maps_file) {
    config["backend"] = {"MMAP"};
  } else if (traits_of(setting).moves_device_memory) {
    config["backend"] = {"CUFILE"};
  } else if (is_direct(setting)) {
    config["backend"] = {"URING", "AIO"};
  } else {
    config["backend"] = {"URING_BUFFERED", "AIO_BUFFERED"};
  }
  if (has_workers) config["concurrency"] = std::min(in_flight, std::max(1U, setting.threads));
  config["buffer_size"] = std::max(held_bytes(task), setting.block_bytes * in_flight);
  add_if(lost, in_flight != setting.queue_depth, "It has at most 1024 transfers in flight.");
  add_if(lost, !has_workers, "concurrency is left out: its asynchronous backends do not use it.");
  lost.push_back(
      "buffer_size is GPU memory; it grows to the largest tensor, and with N ranks it must be N times this.");
  add_if(lost, !task.to_device,
         "It ends in GPU memory: the copy to the GPU is part of its load, and not of the rate here.");
  lost.push_back("Releases before 0.2 have no backend, and io_depth is per thread there.");
  return {"instanttensor", task.task, fmt::format("instanttensor-{}.json", task.task), config.dump(2) + "\n",
          std::move(lost)};
}

Export tensorizer_call(const ExportedTask& task) {
  const Setting& setting = task.setting;
  std::string text = fmt::format("TensorDeserializer(path, num_readers={})\n", std::max(1U, setting.queue_depth));
  std::vector<std::string> lost;
  lost.emplace_back(is_served(task)
                        ? "Each reader has a connection of its own and reads whole tensors one after another: the "
                          "range size does not carry over."
                        : "Each reader reads whole tensors through the page cache, one after another: block size, "
                          "O_DIRECT and io_uring do not carry over.");
  lost.push_back("Each reader is a thread that also verifies and copies; more of them than cores gain little.");
  if (!is_served(task)) lost.emplace_back("More than one reader needs a file that can seek, and plaid_mode off.");
  return {"tensorizer", task.task, {}, std::move(text), std::move(lost)};
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (std::ranges::any_of(word, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw Error(ErrorCode::kUsage, "the name has control characters, which no command line can hold");
  }
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return quoted + "'";
}

std::vector<Export> exports_of(const ExportedTask& task) {
  require_plain(task);
  std::vector<Export> exports = {fio_job(task), elbencho_lines(task), ior_lines(task), deepspeed_config(task)};
  if (is_save(task)) return exports;
  for (Export loader : {runai_environment(task), instanttensor_config(task), tensorizer_call(task)}) {
    exports.push_back(std::move(loader));
  }
  return exports;
}

std::vector<Export> exports_of_served(const ExportedTask& task, bool is_s3) {
  require_plain(task);
  std::vector<Export> exports;
  // The streamer reads s3 URLs, and no http ones.
  if (is_s3) exports.push_back(runai_environment(task));
  exports.push_back(tensorizer_call(task));
  return exports;
}

Export tzmark_profile(std::span<const ExportedTask> tasks) {
  Profile profile;
  for (const ExportedTask& task : tasks) {
    const Setting& setting = task.setting;
    const ProfileSettings settings{
        // A file on a server has one path, and the numbers may serve others.
        .io_path = is_served(task) ? std::nullopt : std::optional(setting.io),
        .block_bytes = setting.block_bytes,
        .queue_depth = setting.queue_depth,
        .threads = setting.threads,
        .pages = setting.pages == Pages::kHuge ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall};
    (task.task == "save"                ? profile.save
     : is_cold(task) || is_served(task) ? profile.load_cold
                                        : profile.load_warm) = settings;
    profile.note = fmt::format("tzmark tune {}{}", task.directory, task.to_device ? ", into GPU memory" : "");
  }
  return {"tzmark",
          "all",
          "tzmark-profile.json",
          serialize(profile),
          {"Commands of tzmark do not choose the page size of their memory; the library's Reader::load does.",
           "Checkpoints have no queue depth of their own."}};
}

}  // namespace tzmark::bench
