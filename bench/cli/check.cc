// The groups of checks: which subjects run in the same rounds, and the ratios between them.
#include "cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cli/check_group.h"
#include "cli/data_size.h"
#include "harness/cgroup.h"
#include "harness/peak_memory.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

// What lanes gain on a CPU with these instructions, and with them a verified read over tensorizer.
struct LanesExpected {
  double sha256, secretbox, verified_read;
};
LanesExpected lanes_expected() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  const bool avx2 = __builtin_cpu_supports("avx2");
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool sha_ni = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
  if (avx512) return {sha_ni ? 2.0 : 5.0, 2.0, sha_ni ? 2.5 : 4.0};
  if (avx2) return {sha_ni && __builtin_cpu_is("amd") ? 1.5 : 1.0, 1.4, 1.6};
#endif
  return {1, 1, 1.6};
}

// Returns the paths that the user named, or else those.
std::vector<std::string> named_or(const CheckOptions& options, std::vector<std::string> paths) {
  return options.io.empty() ? std::move(paths) : options.io;
}

// Makes one content for the paths through the page cache, and one for those that bypass it, when the first path of the
// kind needs it.
class ContentForPath {
 public:
  using Make = Workload (*)(const CheckOptions& options, std::string_view io);
  ContentForPath(CheckGroup& group, Make make) : group_(group), make_(make) {}

  SharedContent operator()(std::string_view io) {
    SharedContent& content = contents_[path_traits(io).bypasses_cache];
    if (!content) content = group_.content(make_(group_.options(), io));
    return content;
  }

 private:
  CheckGroup& group_;
  const Make make_;
  std::map<bool, SharedContent> contents_;
};

// Item 1: raw transfers reach the throughput of fio with the same parameters.
void raw_against_fio(CheckGroup& group) {
  // As much as other checks of these paths: starting fio takes longer than what it times.
  const auto content = group.content(even_workload(32, 2 * group.options().scale_bytes / 32));
  const auto named = named_or(group.options(), usual_paths());
  for (const std::string& io : usual_paths()) {
    if (!has_fio_job(io) || std::ranges::find(named, io) == named.end()) continue;
    const IoSettings moving{.io = io, .queue_depth = 8};
    for (const FileOperation operation : {FileOperation::kRead, FileOperation::kWrite}) {
      std::vector<std::size_t> fio;
      for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
        fio.push_back(group.add(fio_run(group.place(), content, operation, moving, pages)));
      }
      group.best_ratio({.item = "1",
                        .name = fmt::format("raw {} {} against fio", io, name_of(operation)),
                        .required = 0.95,
                        .note = "same bytes and order, reused memory"},
                       {group.add(raw_as_fio(group.place(), content, operation, moving, Pages::kHuge))}, fio);
    }
  }
}

// Without writeback during the write: a device that works behind the page cache would hide what the codec adds.
IoSettings seen_by_the_page_cache(const std::string& io) { return {.io = io, .syncs = false}; }

// Item 1: the codec adds almost no cost to its raw path.
void codec_against_raw(CheckGroup& group) {
  ContentForPath content_for(group, large_tensors), written_for(group, written_tensors);
  for (const std::string& io : named_or(group.options(), usual_paths())) {
    const IoSettings moving = seen_by_the_page_cache(io);
    const Cache cache = cache_for(io);
    const SharedContent content = content_for(io), written = written_for(io);
    // The page cache copies more slowly between places that differ within a cache line, and v4 places tensors anywhere:
    // raw transfers between the same places show what the codec adds.
    const auto as = [&](const FileFormat& stored) {
      return path_traits(io).bypasses_cache ? std::nullopt : std::optional(stored);
    };
    const std::string note =
        path_traits(io).bypasses_cache ? "" : "raw transfers of the tensors from and to the same places";
    group.ratio("1", fmt::format("codec {} read against raw", io),
                group.add(codec_read(group.place(), content, {}, moving, {.cache = cache})),
                group.add(raw_read(group.place(), content, moving, Target::kHugePages, cache, as({}))), 0.95, note);
    const FileFormat unhashed{.crc32 = false, .sha256 = false};
    group.ratio("1", fmt::format("codec {} write against raw", io),
                group.add(codec_write(group.place(), written, unhashed, moving)),
                group.add(raw_write(group.place(), written, moving, as(unhashed))), 0.95, note);
  }
}

// Item 2: one core hashes several tensors and encrypts faster side by side than the libraries do one after another.
void lanes_against_libraries(CheckGroup& group) {
  const auto one_core = std::make_shared<Ladder>(1);
  const auto compare = [&](std::string name, Rung lanes, Rung library, double required, std::string note) {
    group.ratio("2", std::move(name), group.add(ceiling(one_core, lanes)), group.add(ceiling(one_core, library)),
                required, std::move(note));
  };
  const LanesExpected expected = lanes_expected();
  compare("SHA-256 in lanes against one stream of OpenSSL", Rung::kSha256Lanes, Rung::kSha256, expected.sha256,
          fmt::format("one core, kernel {}, {} streams", sha256_kernel(), sha256_lanes()));
  compare("encryption in lanes against libsodium", Rung::kSecretboxLanes, Rung::kSecretbox, expected.secretbox,
          "one core, messages of 2 MiB");
}

// Item 2: hashing and encryption cost no more than alone, and overlap with the device.
void steps_on_top(CheckGroup& group) {
  // Here, because which kernel is the best changes from second to second where others share the core: laps of some
  // milliseconds have to lie apart, between those of other ratios.
  lanes_against_libraries(group);
  ContentForPath content_for(group, large_tensors), written_for(group, written_tensors);
  const auto ladder = std::make_shared<Ladder>(group.threads());
  const std::size_t crc32 = group.add(ceiling(ladder, Rung::kCrc32));
  const std::size_t sha256 = group.add(ceiling(ladder, Rung::kSha256Lanes));
  const std::size_t secretbox = group.add(ceiling(ladder, Rung::kSecretboxLanes));
  for (const std::string& io : named_or(group.options(), {"buffered", "mmap", "direct", "uring-direct"})) {
    const IoSettings moving = seen_by_the_page_cache(io);
    const Cache cache = cache_for(io);
    const SharedContent content = content_for(io), written = written_for(io);
    const bool device = path_traits(io).bypasses_cache;
    const std::size_t read = group.add(raw_read(group.place(), content, moving, Target::kHugePages, cache));
    const std::size_t write = group.add(raw_write(group.place(), written, moving));
    const auto add_read = [&](const char* what, const FileFormat& stored, Verification verification,
                              const std::vector<std::size_t>& steps) {
      const std::size_t codec =
          group.add(codec_read(group.place(), content, stored, moving, {.verification = verification, .cache = cache}));
      group.against_steps("2", fmt::format("{} read, {}", io, what), codec, read, steps, device, 0.9);
    };
    const auto add_write = [&](const char* what, const FileFormat& stored, const std::vector<std::size_t>& steps) {
      const std::size_t codec = group.add(codec_write(group.place(), written, stored, moving));
      group.against_steps("2", fmt::format("{} write, {}", io, what), codec, write, steps, device, 0.9);
    };
    const FileFormat sealed{.crc32 = false, .encrypted = true};
    add_read("CRC32", {}, Verification::kCrc32, {crc32});
    add_read("CRC32 and SHA-256", {}, Verification::kAll, {crc32, sha256});
    add_read("encrypted", sealed, Verification::kNone, {secretbox});
    add_read("encrypted and SHA-256", sealed, Verification::kAll, {secretbox, sha256});
    add_write("CRC32", {.sha256 = false}, {crc32});
    add_write("CRC32 and SHA-256", {}, {crc32, sha256});
    add_write("encrypted", {.crc32 = false, .sha256 = false, .encrypted = true}, {secretbox});
    add_write("encrypted and SHA-256", sealed, {secretbox, sha256});
  }
}

// Item 3: verification costs a default read no more than the hash itself.
void verified_against_steps(CheckGroup& group) {
  const auto content = group.content(large_tensors(group.options()));
  group.against_steps("3", "default read verified by CRC32",
                      group.add(codec_read(group.place(), content, {}, {}, {.verification = Verification::kCrc32})),
                      group.add(raw_read(group.place(), content, {}, Target::kHugePages, Cache::kWarm)),
                      {group.add(ceiling(std::make_shared<Ladder>(group.threads()), Rung::kCrc32))}, false, 0.9);
}

struct PeerCheck {
  std::string name;
  std::vector<std::size_t> ours, peers;  // the best of each side counts
  double required;
};

void declare(CheckGroup& group, const std::vector<PeerCheck>& rows) {
  for (const PeerCheck& row : rows) {
    group.best_ratio(
        {.item = "4", .name = row.name, .required = row.required, .note = "warm cache, same bytes, best of each side"},
        row.ours, row.peers);
  }
}

std::vector<std::size_t> peer_writes(CheckGroup& group, const SharedContent& content, const Peers& peers,
                                     const FileFormat& stored) {
  std::vector<std::size_t> writes;
  for (const auto& peer : peers) {
    writes.push_back(group.add(peer_run(group.place(), content, peer, stored, {.operation = FileOperation::kWrite})));
  }
  return writes;
}

// Item 4: tensorizer, on large tensors.
void peers_on_large_tensors(CheckGroup& group, const Peers& peers) {
  const auto content = group.content(large_tensors(group.options()));
  const FileFormat sealed{.crc32 = false, .encrypted = true};
  const auto ours_read = [&](const FileFormat& stored, Verification verification) {
    return std::vector{group.add(codec_read(group.place(), content, stored, {}, {.verification = verification}))};
  };
  const auto peer_write = [&](const FileFormat& stored) { return peer_writes(group, content, peers, stored); };
  // The first is that of the default path.
  const auto ours_write = [&](const FileFormat& stored) {
    std::vector<std::size_t> writes;
    for (const std::string& io : usual_paths()) {
      if (path_traits(io).maps_file) continue;
      writes.push_back(group.add(codec_write(group.place(), content, stored, {.io = io})));
    }
    return writes;
  };
  const std::vector<std::size_t> writes = ours_write({}), sealed_writes = ours_write(sealed);
  const std::vector<std::size_t> their_writes = peer_write({}), their_sealed_writes = peer_write(sealed);
  const std::vector<PeerCheck> rows = {
      {"read", ours_read({}, Verification::kNone), peer_reads(group, content, peers, {}, {}), 2},
      {"read verified", ours_read({}, Verification::kAll), peer_reads(group, content, peers, {}, {.verify = true}),
       lanes_expected().verified_read},
      {"write with both hashes, pwrite", {writes[0]}, their_writes, 1.4},
      {"write with both hashes, best path", writes, their_writes, 2},
      {"write encrypted, pwrite", {sealed_writes[0]}, their_sealed_writes, 1.4},
      {"write encrypted, best path", sealed_writes, their_sealed_writes, 2.5},
      {"read encrypted", ours_read(sealed, Verification::kNone), peer_reads(group, content, peers, sealed, {}), 2}};
  declare(group, rows);
}

// Item 4: the same for many tensors.
void peers_on_many_tensors(CheckGroup& group, const Peers& peers) {
  const auto middle = group.content(even_workload(2'000, 256 << 10));
  const auto tiny = group.content(even_workload(10'000, 64));
  const auto ours_read = [&](const SharedContent& content, Verification verification = Verification::kNone) {
    return std::vector{group.add(codec_read(group.place(), content, {}, {}, {.verification = verification}))};
  };
  const std::vector<PeerCheck> rows = {
      {"read 2,000 tensors of 256 KiB", ours_read(middle), peer_reads(group, middle, peers, {}, {}), 1.5},
      {"read 2,000 tensors of 256 KiB verified", ours_read(middle, Verification::kAll),
       peer_reads(group, middle, peers, {}, {.verify = true}), 4},
      {"write 2,000 tensors of 256 KiB",
       {group.add(codec_write(group.place(), middle, {}, {}))},
       peer_writes(group, middle, peers, {}),
       1.5},
      {"read 10,000 tensors of 64 bytes", ours_read(tiny), peer_reads(group, tiny, peers, {}, {}), 20},
      {"open 10,000 tensors",
       {group.add(codec_open(group.place(), tiny, {}, {}))},
       peer_reads(group, tiny, peers, {}, {.operation = FileOperation::kOpen}),
       10}};
  declare(group, rows);
}

// Item 5: the memory of a read to a sink is bounded for files of any size.
void memory_to_a_sink(CheckGroup& group, const SharedContent& content) {
  constexpr unsigned kRounds = 7;
  const std::string& file = group.place().file(content, {}, Cache::kWarm);
  std::uint64_t most_bytes = 0;
  for (unsigned i = 0; i < kRounds; ++i) {
    PeakMemory watch;
    Reader::open(file, {}).scan({.verify = Verification::kAll});
    most_bytes = std::max(most_bytes, watch.stop().anonymous_bytes);
  }
  const double share =
      static_cast<double>(most_bytes) / static_cast<double>(256 * kMiB + 256 * content->table().size());
  group.conclude({.item = "5",
                  .name = fmt::format("memory of a read to a sink, {} tensors, {} MiB", content->table().size(),
                                      content->data_bytes() / kMiB),
                  .measured = {fmt::format("at most {} bytes", most_bytes)},
                  .against = {"256 MiB + 256 bytes per tensor"},
                  .ratio = {.estimate = share, .low = share, .high = share, .pairs = kRounds},
                  .at_most = true,
                  .verdict = share <= 1 ? BoundVerdict::kPass : BoundVerdict::kFail,
                  .note = "anonymous memory, sampled every millisecond"});
}

// Item 5: the codec keeps up with its path in files of any size.
void sizes_of_files(CheckGroup& group) {
  constexpr std::uint64_t kSmallBytes = 64 * kMiB;
  std::vector<std::uint64_t> sizes = {kSmallBytes};
  // Of 32 equal tensors, so that sizes which differ by less are the same workload.
  const std::uint64_t larger_bytes = std::min(2 * kGiB / 8, group.options().scale_bytes) * 8 / 32 * 32;
  if (larger_bytes > kSmallBytes) sizes.push_back(larger_bytes);
  for (const std::uint64_t bytes : sizes) {
    const auto content = group.content(even_workload(32, bytes / 32));
    group.ratio("5", fmt::format("read to a sink, {} MiB, against raw", bytes / kMiB),
                group.add(codec_read(group.place(), content, {}, {}, {.target = Target::kSink})),
                group.add(raw_read(group.place(), content, {}, Target::kSink, Cache::kWarm)), 0.85, "warm, unverified");
    if (bytes != kSmallBytes) memory_to_a_sink(group, content);
  }
}

// Item 5: a tensor costs the same in a file of a thousand and of a million tensors.
void counts_of_tensors(CheckGroup& group) {
  constexpr std::uint64_t kFew = 1'000, kMany = 1'000'000, kBytes = 64;
  const auto few = group.content(even_workload(kFew, kBytes));
  const auto many = group.content(even_workload(kMany, kBytes));
  // One thread, because a small file gets no more in any case.
  const IoSettings moving{.threads = 1};
  const std::size_t of_few = group.add(codec_read(group.place(), few, {}, moving, {.copies = 200}));
  const std::size_t of_many = group.add(codec_read(group.place(), many, {}, moving, {}));
  // All tensors have the same size, so bytes per second are proportional to tensors per second.
  group.against({.item = "5",
                 .name = "tensors per second, 1,000,000 against 1,000 tensors",
                 .required = 0.5,
                 .note = "warm cache, every tensor read, one thread"},
                {of_many, of_few}, [](std::span<const double> seconds) { return seconds.front(); });
  memory_to_a_sink(group, many);
}

Sha256Digest file_digest(const std::string& file_name) {
  const auto file = open_file(file_name, OpenMode::kRead);
  HostMemory memory(file->size());
  file->read_at(0, memory.bytes());
  return sha256(memory.bytes());
}

// Item 6: every path writes the same bytes and reads the same tensors.
void same_bytes(CheckGroup& group) {
  const auto content = group.content(make_workload("mixed", 32 * kMiB));
  const auto write = [&](const std::string& io) {
    std::string name = group.place().new_name(".tensors");
    WriteOptions options = write_options({});
    options.io_path = io;
    write_file(name, content->table(), content->source(), options);
    return name;
  };
  const Sha256Digest expected = file_digest(write("pwrite"));
  for (const std::string& io : named_or(group.options(), host_paths())) {
    RatioCheck check{.item = "6",
                     .name = fmt::format("{} writes and reads the same bytes", io),
                     .measured = {io},
                     .against = {"the bytes of pwrite"},
                     .required = 1};
    try {
      const std::string name = write(io);
      ReadOptions reading;
      reading.io_path = io;
      const LoadedTensors loaded = Reader::open(name, std::move(reading)).load();
      bool same = file_digest(name) == expected && loaded.size() == content->table().size();
      for (std::size_t i = 0; same && i < loaded.size(); ++i) same = std::ranges::equal(loaded[i], (*content)[i]);
      const double share = same ? 1 : 0;
      check.ratio = {.estimate = share, .low = share, .high = share, .pairs = 1};
      check.verdict = same ? BoundVerdict::kPass : BoundVerdict::kFail;
      check.note = "faults at every call: ctest -R 'io_test|codec_test'";
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kUnavailable) throw;
      check.note = error.message();
    }
    group.conclude(std::move(check));
  }
}

struct Group {
  std::string_view item;
  std::string name;
  // Of the budget: about the seconds that its ratios need on a machine with two cores.
  unsigned budget_share;
  std::function<void(CheckGroup&)> declare;
  // Held at a time, where it does not grow with --scale.
  std::uint64_t memory_bytes = 0;
};

// In an order in which the groups with the most ratios, which can use any time, get what the others leave.
const Group kGroups[] = {
    {"6", "bytes", 5, same_bytes, 192 * kMiB},
    {"3", "crc32", 5, verified_against_steps},
    {"5", "counts", 20, counts_of_tensors, 900 * kMiB},
    {"5", "sizes", 30, sizes_of_files, 288 * kMiB},
    {"7", "gpu", 80, gpu_memory},
    {"7", "gpu-peers", 40, gpu_against_peer},
    {"7", "gpu-python", 80, gpu_python},
    {"7", "gpu-checkpoint", 10, gpu_checkpoint},
    {"1", "fio", 80, raw_against_fio},
    {"1", "paths", 160, codec_against_raw},
    {"2", "steps", 260, steps_on_top},
};

// Item 1 is the first.
constexpr std::string_view kNames[] = {"raw",   "hash", "verify", "peers",      "sizes",
                                       "bytes", "gpu",  "python", "safetensors"};

// Models, and one tensor without any parallelism between tensors.
constexpr std::string_view kModuleWorkloads[] = {"gpt2", "llama-3.1-8b", "one-huge"};

// Runs a group. An error ends that group and is recorded in its checks; the other groups still run.
void run_group(Workplace& place, const CheckOptions& options, const Group& declared, std::chrono::nanoseconds budget,
               DisturbanceFilter& filter, const GroupDone& done) {
  CheckGroup group(place, options, declared.name);
  if (const CgroupLimits limits = cgroup_limits();
      limits.memory_bytes && declared.memory_bytes > limits.memory_left_bytes.value_or(*limits.memory_bytes)) {
    group.conclude(
        {.item = std::string(declared.item),
         .name = "all of a group",
         .note = fmt::format("it needs about {} MiB, and {}", declared.memory_bytes / kMiB, limit_text(limits))});
    return group.finish(done);
  }
  const auto give_up = [&](const std::exception& error, std::optional<BoundVerdict> verdict) {
    group.conclude(
        {.item = std::string(declared.item), .name = "all of a group", .verdict = verdict, .note = error.what()});
  };
  try {
    const auto begin = options.contests.now();
    declared.declare(group);
    group.run(budget - (options.contests.now() - begin), filter);
  } catch (const Error& error) {
    // What this machine lacks is "not measured"; a path that breaks, or moves wrong bytes, has failed.
    const bool is_missing = error.error_class() == ErrorClass::kUnavailable;
    give_up(error, is_missing ? std::nullopt : std::optional(BoundVerdict::kFail));
  } catch (const std::exception& error) {
    give_up(error, BoundVerdict::kFail);
  }
  group.finish(done);
}

std::string_view verdict_text(const RatioCheck& check) {
  return check.verdict ? verdict_name(*check.verdict) : "not measured";
}

}  // namespace

std::size_t large_tensors_for(std::size_t threads, std::size_t lanes) {
  constexpr std::size_t kLargeTensorsMax = 512;
  return std::clamp(threads * lanes, kLargeTensorsMin, kLargeTensorsMax);
}

json to_json(const RatioCheck& check) {
  const bool has_interval = std::isfinite(check.ratio.high) && check.ratio.pairs > 0;
  const json ratio = {{"median", check.ratio.estimate},
                      {"low", has_interval ? json(check.ratio.low) : json()},
                      {"high", has_interval ? json(check.ratio.high) : json()},
                      {"samples", check.ratio.pairs}};
  return {{"item", check.item},
          {"name", check.name},
          {"measured", check.measured},
          {"against", check.against},
          {"ratio", check.verdict && check.ratio.pairs > 0 ? ratio : json()},
          {"required", check.required},
          {"at_most", check.at_most},
          {"verdict", verdict_text(check)},
          {"disturbed_laps", check.disturbed_laps},
          {"elapsed_ns", check.elapsed_ns},
          {"note", check.note}};
}

std::vector<std::string> check_names() { return {std::begin(kNames), std::end(kNames)}; }

MachineConditions run_checks(Workplace& place, const CheckOptions& options, const GroupDone& done) {
  std::string why_no_peer;
  Peers peers;
  std::vector<Group> groups;
  const auto wanted = [&](std::string_view item) {
    const std::string_view name = kNames[item.front() - '1'];
    return options.names.empty() || std::ranges::find(options.names, name) != options.names.end();
  };
  for (const Group& group : kGroups) {
    if (wanted(group.item)) groups.push_back(group);
  }
  if (wanted("4")) {
    peers = start_peers("tensorizer", why_no_peer);
    if (peers.empty()) {
      groups.push_back({"4", "peers", 0, [&](CheckGroup& group) {
                          group.conclude({.item = "4", .name = "against tensorizer", .note = why_no_peer});
                        }});
    } else {
      groups.push_back({"4", "peers", 60, [&](CheckGroup& group) { peers_on_large_tensors(group, peers); }});
      groups.push_back({"4", "peers-many", 40, [&](CheckGroup& group) { peers_on_many_tensors(group, peers); }});
    }
  }
  std::vector<std::string> workloads(std::begin(kModuleWorkloads), std::end(kModuleWorkloads));
  if (!options.workload.empty()) workloads = {options.workload};
  for (const std::string& workload : workloads) {
    if (wanted("8")) {
      groups.push_back({"8", fmt::format("python {}", workload), 40,
                        [workload](CheckGroup& group) { python_module(group, workload); }});
    }
    if (wanted("9")) {
      groups.push_back({"9", fmt::format("python safetensors {}", workload), 20,
                        [workload](CheckGroup& group) { python_module_safetensors(group, workload); }});
    }
  }
  DisturbanceFilter filter(options.contests.is_disturbed);
  const auto end = options.contests.now() + options.contests.budget;
  unsigned shares = 0;
  for (const Group& group : groups) shares += group.budget_share;
  for (const Group& group : groups) {
    if (options.contests.is_stopped()) break;
    const auto rest = std::max(end - options.contests.now(), std::chrono::nanoseconds(0));
    run_group(place, options, group, rest * group.budget_share / std::max(1U, shares), filter, done);
    shares -= group.budget_share;
  }
  return filter.conditions();
}

std::string check_table(const std::vector<RatioCheck>& checks) {
  std::string text = fmt::format("{:4} {:52} {:>7} {:>16} {:>5} {:>9}  {}\n", "item", "what", "ratio", "95 % interval",
                                 "laps", "required", "verdict");
  for (const RatioCheck& check : checks) {
    const std::string interval = !check.verdict ? "-"
                                 : std::isfinite(check.ratio.high)
                                     ? fmt::format("{:.2f} - {:.2f}", check.ratio.low, check.ratio.high)
                                     : "none";
    text += fmt::format("{:4} {:52} {:>7} {:>16} {:>5} {:>2} {:>6.2f}  {}{}\n", check.item, check.name,
                        check.ratio.pairs > 0 ? fmt::format("{:.2f}", check.ratio.estimate) : "-", interval,
                        check.ratio.pairs, check.at_most ? "<=" : ">=", check.required, verdict_text(check),
                        check.verdict || check.note.empty() ? "" : ": " + check.note);
  }
  std::map<std::string_view, std::size_t> tally;
  for (const RatioCheck& check : checks) ++tally[verdict_text(check)];
  std::string sums;
  for (const auto& [verdict, count] : tally) sums += fmt::format("{}{} {}", sums.empty() ? "" : "; ", count, verdict);
  return text + sums + "\n";
}

}  // namespace tzmark::bench
