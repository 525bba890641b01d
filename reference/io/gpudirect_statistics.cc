// Taking snapshots of the statistics of libcufile and nvidia-fs, and judging them.
#include "io/gpudirect_statistics.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "io/cufile.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr const char* kCuFileSource = "cuFileGetStatsL3";
constexpr const char* kNvidiaFsFile = "/proc/driver/nvidia-fs/stats";
constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kVerbose = 3;  // the level that counts by GPU and route
// More than any known version fills, so that a newer version does not overflow the buffer.
constexpr std::size_t kStatisticsBytesMax = 64 << 10;

template <typename Counts>
Counted<Counts> none(std::string why_not) {
  return {std::nullopt, std::move(why_not)};
}

template <typename Direction>
void add(RouteCounts& sum, const Direction& one) {
  sum.total += one.total;
  sum.p2p += one.p2p;
  sum.nvfs += one.nvfs;
  sum.posix += one.posix;
  sum.bytes += one.bytes;
}

template <typename Statistics>
Counted<CuFileCounts> sum_of_gpus(std::span<const std::byte> filled) {
  Statistics statistics;
  if (filled.size() < sizeof statistics) return none<CuFileCounts>("the statistics are too short");
  std::memcpy(&statistics, filled.data(), sizeof statistics);
  if (statistics.gpus == 0 || statistics.gpus > Statistics::kGpusMax) {
    return none<CuFileCounts>(fmt::format("the statistics name {} GPUs", statistics.gpus));
  }
  CuFileCounts counts;
  for (const CuFileGpuStatistics& gpu : std::span(statistics.gpu).first(statistics.gpus)) {
    add(counts.reads, gpu.reads);
    add(counts.writes, gpu.writes);
  }
  return {counts, {}};
}

Counted<CuFileCounts> count_cufile() {
  const CuFile& cufile = CuFile::instance();
  if (cufile.calls().statistics == nullptr) return none<CuFileCounts>("this libcufile keeps none (1.15 and later do)");
  alignas(8) std::array<std::byte, kStatisticsBytesMax> filled{};
  const CuFileStatus status = cufile.calls().statistics(filled.data());
  if (status.error != 0) return none<CuFileCounts>("cuFileGetStatsL3: " + cufile_error_text(status.error));
  return parse_cufile(cufile.version(), filled);
}

Counted<NvidiaFsCounts> count_nvidia_fs() {
  const std::string name = system_file(kNvidiaFsFile);
  std::ifstream stream(name);
  if (!stream) return none<NvidiaFsCounts>(name + " cannot be read");
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  return parse_nvidia_fs(content);
}

// The number behind a label such as " readMiB=" in the first line that has both.
std::optional<std::uint64_t> number_in_line(std::string_view content, std::string_view line_begins,
                                            std::string_view label) {
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    const std::size_t at = line.starts_with(line_begins) ? line.find(label) : std::string_view::npos;
    if (at == std::string_view::npos) continue;
    std::uint64_t number = 0;
    const char* const begin = line.data() + at + label.size();
    if (std::from_chars(begin, line.data() + line.size(), number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

// Counters that decreased were reset in between.
bool subtract(std::uint64_t& after, std::uint64_t before) {
  if (after < before) return false;
  after -= before;
  return true;
}

bool subtract(RouteCounts& after, const RouteCounts& before) {
  return subtract(after.total, before.total) && subtract(after.p2p, before.p2p) && subtract(after.nvfs, before.nvfs) &&
         subtract(after.posix, before.posix) && subtract(after.bytes, before.bytes);
}

// Adds the bytes of one direction. Returns whether they had to be apportioned to several routes.
bool add_bytes(GpuDirectAttestation& attestation, const RouteCounts& counts) {
  const std::uint64_t known = counts.p2p + counts.nvfs + counts.posix;
  if (known == 0) return false;
  const auto share = [&](std::uint64_t operations) {
    const long double part = static_cast<long double>(operations) / static_cast<long double>(known);
    return static_cast<std::uint64_t>(part * static_cast<long double>(counts.bytes));
  };
  const std::uint64_t p2p = share(counts.p2p), nvfs = share(counts.nvfs);
  attestation.p2p_bytes += p2p;
  attestation.nvfs_bytes += nvfs;
  attestation.posix_bytes += counts.posix == 0 ? 0 : counts.bytes - p2p - nvfs;
  return counts.p2p != known && counts.nvfs != known && counts.posix != known;
}

std::string route_of(std::uint64_t p2p, std::uint64_t nvfs, std::uint64_t posix) {
  if ((p2p > 0) + (nvfs > 0) + (posix > 0) != 1) return "mixed";
  return p2p > 0 ? "p2p" : nvfs > 0 ? "nvidia-fs" : "posix";
}

// Returns why this source tells nothing; empty if the attestation is filled.
std::string attest_by_cufile(GpuDirectAttestation& attestation, const GpuDirectSnapshot& before,
                             const GpuDirectSnapshot& after) {
  for (const auto* snapshot : {&before, &after}) {
    if (!snapshot->cufile.counts) return snapshot->cufile.why_not;
  }
  CuFileCounts delta = *after.cufile.counts;
  if (!subtract(delta.reads, before.cufile.counts->reads) || !subtract(delta.writes, before.cufile.counts->writes)) {
    return "the counters were reset meanwhile";
  }
  const std::uint64_t counted = delta.reads.bytes + delta.writes.bytes;
  const std::uint64_t moved = after.read_bytes - before.read_bytes + after.write_bytes - before.write_bytes;
  if (delta.reads.bytes < after.read_bytes - before.read_bytes ||
      delta.writes.bytes < after.write_bytes - before.write_bytes) {
    return fmt::format("it counted {} of {} bytes", counted, moved);
  }
  const std::uint64_t p2p = delta.reads.p2p + delta.writes.p2p, nvfs = delta.reads.nvfs + delta.writes.nvfs,
                      posix = delta.reads.posix + delta.writes.posix;
  const std::uint64_t total = delta.reads.total + delta.writes.total;
  if (p2p + nvfs + posix == 0) return fmt::format("it counted {} operations and no route", total);
  attestation.source = kCuFileSource;
  attestation.route = route_of(p2p, nvfs, posix);
  const bool reads_shared = add_bytes(attestation, delta.reads), writes_shared = add_bytes(attestation, delta.writes);
  if (reads_shared || writes_shared) {
    attestation.note = "bytes are apportioned: the source counts only operations by route";
  }
  if (total > p2p + nvfs + posix) {
    attestation.route = "mixed";
    attestation.note = fmt::format("{} of {} operations used another route", total - p2p - nvfs - posix, total);
  }
  return {};
}

std::string attest_by_nvidia_fs(GpuDirectAttestation& attestation, const GpuDirectSnapshot& before,
                                const GpuDirectSnapshot& after) {
  for (const auto* snapshot : {&before, &after}) {
    if (!snapshot->nvidia_fs.counts) return snapshot->nvidia_fs.why_not;
  }
  NvidiaFsCounts delta = *after.nvidia_fs.counts;
  const NvidiaFsCounts& first = *before.nvidia_fs.counts;
  if (!subtract(delta.reads, first.reads) || !subtract(delta.read_bytes, first.read_bytes) ||
      !subtract(delta.writes, first.writes) || !subtract(delta.write_bytes, first.write_bytes)) {
    return "the counters were reset meanwhile";
  }
  const std::uint64_t operations = delta.reads + delta.writes;
  if (operations == 0) return "nvidia-fs transferred nothing, so the route is P2P or POSIX";
  // Each counter is rounded down to whole MiB, and an operation may be extended to whole blocks at both ends.
  constexpr std::uint64_t kBlockBytes = 4096;
  const std::uint64_t counted = delta.read_bytes + delta.write_bytes;
  const std::uint64_t moved = after.read_bytes - before.read_bytes + after.write_bytes - before.write_bytes;
  if (counted > moved + 2 * kMiB + operations * 2 * kBlockBytes) {
    return fmt::format("it counted {} bytes for {} transferred: another process uses it, too", counted, moved);
  }
  attestation.source = kNvidiaFsFile;
  attestation.nvfs_bytes = counted;
  attestation.route = "nvidia-fs";
  attestation.note = "the counters include all processes of the machine";
  if (counted + 2 * kMiB < moved) {
    attestation.route = "mixed";
    attestation.note += fmt::format("; the other {} bytes used P2P or POSIX", moved - counted);
  }
  return {};
}

}  // namespace

GpuDirectMoved& gpudirect_moved() {
  static GpuDirectMoved moved;
  return moved;
}

Counted<NvidiaFsCounts> parse_nvidia_fs(std::string_view content) {
  // nvidia-fs omits the counters while its module parameter rw_stats_enabled is 0.
  const auto reads = number_in_line(content, "Reads", " n=");
  const auto read_mib = number_in_line(content, "Reads", " readMiB=");
  const auto writes = number_in_line(content, "Writes", " n=");
  const auto write_mib = number_in_line(content, "Writes", " writeMiB=");
  if (!reads || !read_mib || !writes || !write_mib) {
    return none<NvidiaFsCounts>(content.find("IO stats: Disabled") != std::string_view::npos
                                    ? "nvidia-fs counts nothing (its parameter rw_stats_enabled is 0)"
                                    : "the statistics of nvidia-fs have an unknown format");
  }
  return {NvidiaFsCounts{*reads, *read_mib * kMiB, *writes, *write_mib * kMiB}, {}};
}

Counted<CuFileCounts> parse_cufile(int version, std::span<const std::byte> filled) {
  if (version >= 1150 && version < 1190) return sum_of_gpus<CuFileStatistics115>(filled);
  if (version >= 1190 && version < 1210) return sum_of_gpus<CuFileStatistics119>(filled);
  // The structure contains no version, and has changed before; misread counters would look plausible.
  return none<CuFileCounts>(
      fmt::format("the layout of cuFile {}.{} is not known", version / 1000, version % 1000 / 10));
}

GpuDirectSnapshot gpudirect_snapshot() {
  const GpuDirectMoved& moved = gpudirect_moved();
  return {count_cufile(), count_nvidia_fs(), moved.read_bytes, moved.write_bytes, moved.edge_bytes};
}

GpuDirectAttestation attest(const GpuDirectSnapshot& before, const GpuDirectSnapshot& after) {
  GpuDirectAttestation attestation;
  attestation.edge_bytes = after.edge_bytes - before.edge_bytes;
  if (after.read_bytes == before.read_bytes && after.write_bytes == before.write_bytes) {
    attestation.note = "libcufile transferred no bytes";
    return attestation;
  }
  const std::string not_cufile = attest_by_cufile(attestation, before, after);
  if (not_cufile.empty()) return attestation;
  const std::string not_nvidia_fs = attest_by_nvidia_fs(attestation, before, after);
  if (not_nvidia_fs.empty()) return attestation;
  attestation.note = fmt::format("{}: {}; {}: {}", kCuFileSource, not_cufile, kNvidiaFsFile, not_nvidia_fs);
  return attestation;
}

struct GpuDirectObserver::State {
  GpuDirectSnapshot before;
  std::optional<int> level;  // the previous level of statistics
};

GpuDirectObserver::GpuDirectObserver() = default;
GpuDirectObserver::~GpuDirectObserver() = default;

void GpuDirectObserver::begin() {
  const CuFile& cufile = CuFile::instance();
  if (!cufile.why_unavailable().empty()) throw Error(ErrorCode::kUnavailable, cufile.why_unavailable());
  state_ = std::make_unique<State>();
  const CuFileCalls& calls = cufile.calls();
  std::string why_not;
  if (calls.set_statistics_level != nullptr && calls.start_statistics != nullptr) {
    int level = 0;
    if (calls.get_statistics_level != nullptr && calls.get_statistics_level(&level).error == 0) state_->level = level;
    CuFileStatus status = calls.set_statistics_level(kVerbose);
    if (status.error != 0) why_not = "cuFileSetStatsLevel: " + cufile_error_text(status.error);
    if (why_not.empty()) status = calls.start_statistics();
    if (why_not.empty() && status.error != 0) why_not = "cuFileStatsStart: " + cufile_error_text(status.error);
  }
  state_->before = gpudirect_snapshot();
  if (!why_not.empty()) state_->before.cufile = none<CuFileCounts>(why_not);
}

GpuDirectAttestation GpuDirectObserver::end() {
  if (state_ == nullptr) throw Error(ErrorCode::kUsage, "GpuDirectObserver::end without begin");
  const GpuDirectAttestation attestation = attest(state_->before, gpudirect_snapshot());
  const CuFileCalls& calls = CuFile::instance().calls();
  if (state_->level && calls.set_statistics_level != nullptr) {
    static_cast<void>(calls.set_statistics_level(*state_->level));
  }
  state_.reset();
  return attestation;
}

}  // namespace tzmark
