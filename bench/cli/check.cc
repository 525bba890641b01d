// The groups of checks: which subjects run in the same rounds, and the ratios between them.
#include "cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/check_group.h"
#include "harness/peak_memory.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

// Item 1: raw transfers reach the throughput of fio with the same parameters.
void raw_against_fio(CheckGroup& group) {
  const auto content = group.content(large_tensors(group.options()));
  struct Row {
    std::string name;
    std::size_t ours;
    std::vector<std::size_t> fio;  // in both kinds of pages, of which the best counts
  };
  std::vector<Row> rows;
  for (const char* io : {"direct", "uring-direct"}) {
    const IoSettings moving{.io = io, .queue_depth = 8};
    for (const FileOperation operation : {FileOperation::kRead, FileOperation::kWrite}) {
      Row row{fmt::format("raw {} {} against fio", io, name_of(operation)),
              group.add(raw_as_fio(group.place(), content, operation, moving, Pages::kHuge)),
              {}};
      for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
        row.fio.push_back(group.add(fio_run(group.place(), content, operation, moving, pages)));
      }
      rows.push_back(std::move(row));
    }
  }
  group.run();
  for (const Row& row : rows) {
    group.best_ratio({.item = "1", .name = row.name, .required = 0.95, .note = "same bytes and order, reused memory"},
                     {row.ours}, row.fio);
  }
}

// Item 1: the codec adds almost no cost to its raw path.
void codec_against_raw(CheckGroup& group) {
  const auto content = group.content(large_tensors(group.options()));
  struct Pair {
    std::string name;
    std::size_t codec, raw;
  };
  std::vector<Pair> pairs;
  for (const std::string& io : host_paths()) {
    const IoSettings moving{.io = io};
    const Cache cache = cache_for(io);
    pairs.push_back({fmt::format("codec {} read against raw", io),
                     group.add(codec_read(group.place(), content, {}, moving, {.cache = cache})),
                     group.add(raw_read(group.place(), content, moving, Target::kHugePages, cache))});
    pairs.push_back({fmt::format("codec {} write against raw", io),
                     group.add(codec_write(group.place(), content, {.crc32 = false, .sha256 = false}, moving)),
                     group.add(raw_write(group.place(), content, moving))});
  }
  group.run();
  for (const Pair& pair : pairs) group.ratio("1", pair.name, pair.codec, pair.raw, 0.95);
}

// Item 2: hashing and encryption cost no more than alone, and overlap with the device.
void steps_on_top(CheckGroup& group) {
  const auto content = group.content(large_tensors(group.options()));
  const std::size_t crc32 = group.add(ceiling(Rung::kCrc32, group.threads()));
  const std::size_t sha256 = group.add(ceiling(Rung::kSha256, group.threads()));
  const std::size_t secretbox = group.add(ceiling(Rung::kSecretbox, group.threads()));
  group.add(ceiling(Rung::kMemcpy, group.threads()));
  struct Row {
    std::string name;
    std::size_t codec, path;
    std::vector<std::size_t> steps;
    bool device_beside;
  };
  std::vector<Row> rows;
  for (const std::string io : {"buffered", "mmap", "direct", "uring-direct"}) {
    const IoSettings moving{.io = io};
    const Cache cache = cache_for(io);
    const bool device = is_direct(io);
    const std::size_t read = group.add(raw_read(group.place(), content, moving, Target::kHugePages, cache));
    const std::size_t write = group.add(raw_write(group.place(), content, moving));
    const auto add_read = [&](const char* what, const FileFormat& stored, Verification verification,
                              std::vector<std::size_t> steps) {
      rows.push_back({fmt::format("{} read, {}", io, what),
                      group.add(codec_read(group.place(), content, stored, moving,
                                           {.verification = verification, .cache = cache})),
                      read, std::move(steps), device});
    };
    const auto add_write = [&](const char* what, const FileFormat& stored, std::vector<std::size_t> steps) {
      rows.push_back({fmt::format("{} write, {}", io, what),
                      group.add(codec_write(group.place(), content, stored, moving)), write, std::move(steps), device});
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
  group.run();
  for (const Row& row : rows) {
    group.against_steps("2", row.name, row.codec, row.path, row.steps, row.device_beside, 0.9);
  }
}

// Item 3: verification costs a read little.
void verified_against_unverified(CheckGroup& group) {
  const auto content = group.content(large_tensors(group.options()));
  const std::size_t crc32 = group.add(
      codec_read(group.place(), content, {}, {}, {.verification = Verification::kCrc32, .cache = Cache::kWarm}));
  const std::size_t none = group.add(codec_read(group.place(), content, {}, {}, {.cache = Cache::kWarm}));
  group.run();
  group.ratio("3", "read verified by CRC32 against unverified", crc32, none, 0.9, "warm cache");
}

struct PeerCheck {
  std::string name;
  std::vector<std::size_t> ours, peers;  // the best of each side counts
  double required;
};

void conclude_peers(CheckGroup& group, const std::vector<PeerCheck>& rows) {
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
  std::vector<std::size_t> writes;
  for (const char* io : {"pwrite", "buffered", "uring", "direct", "uring-direct"}) {
    writes.push_back(group.add(codec_write(group.place(), content, {}, {.io = io})));
  }
  const std::vector<std::size_t> their_writes = peer_write({});
  const std::vector<PeerCheck> rows = {
      {"read", ours_read({}, Verification::kNone), peer_reads(group, content, peers, {}, {}), 2},
      {"read verified", ours_read({}, Verification::kAll), peer_reads(group, content, peers, {}, {.verify = true}),
       1.6},
      {"write with both hashes, pwrite", {writes[0]}, their_writes, 1.2},
      {"write with both hashes, best path", writes, their_writes, 1.5},
      {"write encrypted", {group.add(codec_write(group.place(), content, sealed, {}))}, peer_write(sealed), 1.6},
      {"read encrypted", ours_read(sealed, Verification::kNone), peer_reads(group, content, peers, sealed, {}), 1.4}};
  group.run();
  conclude_peers(group, rows);
}

// Item 4: the same for many tensors.
void peers_on_many_tensors(CheckGroup& group, const Peers& peers) {
  const auto middle = group.content(even_workload(2'000, 256 << 10));
  const auto tiny = group.content(even_workload(10'000, 64));
  const auto ours_read = [&](const SharedContent& content) {
    return std::vector{group.add(codec_read(group.place(), content, {}, {}, {}))};
  };
  const std::vector<PeerCheck> rows = {
      {"read 2,000 tensors of 256 KiB", ours_read(middle), peer_reads(group, middle, peers, {}, {}), 1.5},
      {"write 2,000 tensors of 256 KiB",
       {group.add(codec_write(group.place(), middle, {}, {}))},
       peer_writes(group, middle, peers, {}),
       1.5},
      {"read 10,000 tensors of 64 bytes", ours_read(tiny), peer_reads(group, tiny, peers, {}, {}), 20},
      {"open 10,000 tensors",
       {group.add(codec_open(group.place(), tiny, {}, {}))},
       peer_reads(group, tiny, peers, {}, {.operation = FileOperation::kOpen}),
       10}};
  group.run();
  conclude_peers(group, rows);
}

// Item 5: the memory of a read to a sink is bounded for files of any size.
void memory_to_a_sink(CheckGroup& group, const SharedContent& content) {
  const std::string& file = group.place().file(content, {});
  std::vector<double> ratios;
  std::uint64_t most = 0;
  const double limit = static_cast<double>(256 * kMiB + 256 * content->table().size());
  for (unsigned i = 0; i < group.options().rounds.rounds; ++i) {
    PeakMemory watch;
    Reader::open(file, {}).scan({.verify = Verification::kAll});
    most = std::max(most, watch.stop().anonymous_bytes);
    ratios.push_back(static_cast<double>(most) / limit);
  }
  RatioCheck check{.item = "5",
                   .name = fmt::format("memory of a read to a sink, {} tensors, {} MiB", content->table().size(),
                                       content->data_bytes() / kMiB),
                   .measured = {fmt::format("at most {} bytes", most)},
                   .against = {"256 MiB + 256 bytes per tensor"},
                   .required = 1,
                   .at_most = true,
                   .note = "anonymous memory, sampled every millisecond"};
  group.conclude(std::move(check), std::move(ratios));
}

// Item 5: throughput does not depend on the size of the file.
void sizes_of_files(CheckGroup& group) {
  constexpr std::uint64_t kSmallBytes = 64 * kMiB;
  const std::uint64_t large_bytes = std::min(8 * kGiB, group.options().scale_bytes * 16);
  const auto small = group.content(even_workload(8, kSmallBytes / 8));
  const auto large = group.content(even_workload(64, large_bytes / 64), large_bytes / 64);
  // As many small files as one large file, up to 16.
  const auto copies = static_cast<unsigned>(std::min<std::uint64_t>(16, large_bytes / kSmallBytes));
  const auto read = [&](const SharedContent& content, unsigned times) {
    return group.add(codec_read(group.place(), content, {}, {}, {.target = Target::kSink, .copies = times}));
  };
  const std::size_t of_small = read(small, copies);
  const std::size_t of_large = read(large, 1);
  group.run();
  // The check is symmetric: neither may be much slower.
  std::vector<double> ratios = group.rates(of_large);
  const std::vector<double> others = group.rates(of_small);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] = std::min(ratios[i] / others[i], others[i] / ratios[i]);
  }
  group.conclude({.item = "5",
                  .name = fmt::format("read to a sink, {} MiB against 64 MiB", large_bytes / kMiB),
                  .measured = {group.id(of_large)},
                  .against = {group.id(of_small)},
                  .required = 0.85,
                  .note = "warm cache, unverified; the slower over the faster"},
                 std::move(ratios));
  memory_to_a_sink(group, large);
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
  group.run();
  // All tensors have the same size, so bytes per second are proportional to tensors per second.
  std::vector<double> ratios = group.rates(of_few);
  const std::vector<double> others = group.rates(of_many);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] /= others[i];
  group.conclude({.item = "5",
                  .name = "time per tensor, 1,000,000 against 1,000 tensors",
                  .measured = {group.id(of_many)},
                  .against = {group.id(of_few)},
                  .required = 2,
                  .at_most = true,
                  .note = "warm cache, every tensor read, one thread"},
                 std::move(ratios));
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
  std::optional<Sha256Digest> first;
  for (const std::string& io : host_paths()) {
    RatioCheck check{.item = "6",
                     .name = fmt::format("{} writes and reads the same bytes", io),
                     .measured = {io},
                     .against = {"the bytes of pwrite"},
                     .required = 1};
    const std::string name = group.place().new_name(".tensors");
    try {
      WriteOptions options = write_options({});
      options.io_path = io;
      write_file(name, content->table(), content->source(), options);
      const Sha256Digest digest = file_digest(name);
      if (!first) first = digest;
      ReadOptions reading;
      reading.io_path = io;
      const LoadedTensors loaded = Reader::open(name, std::move(reading)).load();
      bool same = digest == *first && loaded.size() == content->table().size();
      for (std::size_t i = 0; same && i < loaded.size(); ++i) same = std::ranges::equal(loaded[i], (*content)[i]);
      check.ratio = {.median = same ? 1.0 : 0.0, .low = same ? 1.0 : 0.0, .high = same ? 1.0 : 0.0, .samples = 1};
      check.verdict = same ? CheckVerdict::kPass : CheckVerdict::kFail;
      check.note = "faults at every call: ctest -R 'io_test|codec_test'";
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kUnavailable) throw;
      check.note = error.message();
    }
    group.conclude_as_is(std::move(check));
  }
}

// Runs a group. An error ends that group and is recorded in its checks; the other groups still run.
template <typename Run>
void run_group(Workplace& place, const CheckOptions& options, std::string_view item, std::string_view name,
               const GroupDone& done, Run&& run) {
  CheckGroup group(place, options, name);
  try {
    run(group);
  } catch (const Error& error) {
    RatioCheck check{.item = std::string(item), .name = "all of a group", .required = 1, .note = error.what()};
    // Wrong bytes are a failure, anything else is "not measured".
    if (error.code() == ErrorCode::kFileChanged || error.error_class() == ErrorClass::kFile) {
      check.verdict = CheckVerdict::kFail;
    }
    group.conclude_as_is(std::move(check));
  }
  group.finish(done);
}

struct ItemChecks {
  std::string_view item, name;
  void (*run)(CheckGroup&);
};

constexpr ItemChecks kGroups[] = {
    {"1", "fio", raw_against_fio},        {"1", "paths", codec_against_raw},
    {"2", "steps", steps_on_top},         {"3", "crc32", verified_against_unverified},
    {"5", "counts", counts_of_tensors},   {"5", "sizes", sizes_of_files},
    {"6", "bytes", same_bytes},           {"7", "gpu", gpu_memory},
    {"7", "gpu-peers", gpu_against_peer},
};

}  // namespace

json to_json(const RatioCheck& check) {
  const bool measured = check.verdict != CheckVerdict::kNotMeasured;
  return {{"item", check.item},
          {"name", check.name},
          {"measured", check.measured},
          {"against", check.against},
          {"ratio", measured ? to_json(check.ratio) : json(nullptr)},
          {"required", check.required},
          {"at_most", check.at_most},
          {"verdict", verdict_name(check.verdict)},
          {"note", check.note}};
}

void run_checks(const CheckOptions& options, const GroupDone& done) {
  Workplace place(options.directory);
  const auto wanted = [&](std::string_view item) {
    return options.items.empty() || std::ranges::find(options.items, item) != options.items.end();
  };
  for (const ItemChecks& checks : kGroups) {
    if (!wanted(checks.item)) continue;
    run_group(place, options, checks.item, checks.name, done, checks.run);
  }
  if (!wanted("4")) return;
  std::string why;
  const Peers peers = start_peers("tensorizer", why);
  if (peers.empty()) {
    run_group(place, options, "4", "peers", done, [&](CheckGroup& group) {
      group.conclude({.item = "4", .name = "against tensorizer", .required = 1, .note = why}, {});
    });
    return;
  }
  run_group(place, options, "4", "peers", done, [&](CheckGroup& group) { peers_on_large_tensors(group, peers); });
  run_group(place, options, "4", "peers-many", done, [&](CheckGroup& group) { peers_on_many_tensors(group, peers); });
}

std::string check_table(const std::vector<RatioCheck>& checks) {
  std::string text = fmt::format("{:4} {:52} {:>7} {:>16} {:>9}  {}\n", "item", "what", "ratio", "95 % interval",
                                 "required", "verdict");
  for (const RatioCheck& check : checks) {
    const bool measured = check.verdict != CheckVerdict::kNotMeasured;
    const std::string interval =
        check.ratio.low ? fmt::format("{:.2f} - {:.2f}", *check.ratio.low, *check.ratio.high) : std::string("none");
    text += fmt::format("{:4} {:52} {:>7} {:>16} {:>2} {:>6.2f}  {}{}\n", check.item, check.name,
                        measured ? fmt::format("{:.2f}", check.ratio.median) : "-", measured ? interval : "-",
                        check.at_most ? "<=" : ">=", check.required, verdict_name(check.verdict),
                        measured || check.note.empty() ? "" : ": " + check.note);
  }
  return text;
}

}  // namespace tzmark::bench
