// Combines the options; see matrix.h.
#include "cli/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "cli/bounds.h"
#include "program/installation.h"
#include "subjects/others.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

Cache chosen_cache(const BenchOptions& options, std::string_view io) {
  if (path_traits(io).bypasses_cache) return Cache::kDirect;
  return options.cache == "cold" ? Cache::kCold : Cache::kWarm;
}

std::vector<Target> targets_of(const BenchOptions& options) {
  if (options.memory == "sink") return {Target::kSink};
  if (options.memory == "device") return {Target::kDevice};
  if (options.memory == "thp") return {Target::kHugePages};
  if (options.memory == "small-pages") return {Target::kSmallPages};
  return {Target::kHugePages, Target::kSmallPages};
}

DeviceCompute compute_of(const BenchOptions& options) {
  if (options.compute == "auto") return DeviceCompute::kAuto;
  return options.compute == "host" ? DeviceCompute::kHost : DeviceCompute::kDevice;
}

// Makes the subjects: one for each combination of the options.
class Matrix {
 public:
  Matrix(BenchOptions options, Workplace& place, SharedContent content)
      : options_(std::move(options)), place_(place), content_(std::move(content)) {}

  std::vector<Measured> subjects() {
    if (const std::string why = DeviceMemory::why_unavailable(); to_device() && !why.empty()) {
      throw Error(ErrorCode::kUnavailable, why);
    }
    if (options_.encrypt && std::ranges::find(options_.verifications, "crc32") != options_.verifications.end()) {
      throw Error(ErrorCode::kUsage, "--encrypt excludes --verify crc32: encrypted files store no CRC32");
    }
    for (unsigned& threads : options_.threads) threads = thread_count(threads);
    drop_duplicates(options_.threads);
    drop_duplicates(options_.block_bytes);
    drop_duplicates(options_.queue_depths);
    drop_duplicates(options_.verifications);
    for (const std::string& io : chosen_paths(options_.io)) {
      for (const std::uint64_t block : options_.block_bytes) {
        for (const unsigned depth : options_.queue_depths) {
          for (const unsigned threads : options_.threads) {
            add_path({.io = io, .block_bytes = block, .queue_depth = depth, .threads = threads});
          }
        }
      }
    }
    if (!options_.no_ceilings) add_ceilings();
    if (options_.peers) add_peers();
    return std::move(subjects_);
  }

 private:
  void add(std::unique_ptr<Subject> subject) { subjects_.push_back({std::move(subject), {}, {}}); }

  bool to_device() const { return options_.memory == "device"; }

  void add_ceilings() {
    for (const unsigned threads : options_.threads) {
      const auto ladder = std::make_shared<Ladder>(thread_count(threads));
      for (const Rung rung : kRungs) add(ceiling(ladder, rung));
    }
    add_chained_ceilings();
    if (to_device()) add_gpu_ceilings();
  }

  // SHA-256 on fewer threads, where there are fewer tensors than threads.
  void add_chained_ceilings() {
    std::set<unsigned> chained;
    for (const unsigned threads : options_.threads) {
      chained.insert(
          hashing_rung(threads, content_->data_bytes(), content_->workload().largest_tensor_bytes()).threads);
    }
    for (const unsigned threads : options_.threads) chained.erase(threads);
    for (const unsigned threads : chained) add(ceiling(std::make_shared<Ladder>(threads), Rung::kSha256));
  }

  void add_gpu_ceilings() {
    const bool has_kernels = why_no_device_compute().empty();
    for (const GpuRung rung : {GpuRung::kCopy, GpuRung::kFill, GpuRung::kRead, GpuRung::kCrc32, GpuRung::kCrc32Kernel,
                               GpuRung::kSecretbox, GpuRung::kSecretboxKernel}) {
      if (has_kernels || !needs_kernels(rung)) add(ceiling(rung, options_.gpu_set_bytes));
    }
  }

  template <typename T>
  static void drop_duplicates(std::vector<T>& values) {
    std::ranges::sort(values);
    const auto rest = std::ranges::unique(values);
    values.erase(rest.begin(), rest.end());
  }

  bool wants(std::string_view operation) const {
    return std::ranges::find(options_.operations, operation) != options_.operations.end();
  }

  FileFormat stored(std::string_view verification) const {
    return {.layout = *layout_from_name(options_.layout),
            .crc32 = !options_.encrypt && verification != "none",
            .sha256 = verification == "both",
            .encrypted = options_.encrypt};
  }

  void add_path(const IoSettings& moving) {
    const PathTraits traits = path_traits(moving.io);
    if (traits.moves_device_memory) {
      if (wants("read") && !options_.no_raw) add(device_read(place_, content_, moving));
      if (wants("write") && !options_.no_raw) add(device_write(place_, content_, moving));
      if (!to_device()) return;
    }
    const Cache cache = chosen_cache(options_, moving.io);
    const bool has_fio = options_.fio && has_fio_job(moving.io);
    if (wants("read")) {
      // All reads use one file with both hashes: unverified hashes cost a read almost nothing.
      const FileFormat all = stored("both");
      for (const Target target : targets_of(options_)) {
        for (const std::string& verification : options_.verifications) {
          add(codec_read(place_, content_, all, moving,
                         {.verification = verification_of(verification),
                          .target = target,
                          .cache = cache,
                          .compute = compute_of(options_)}));
        }
        // A read to the GPU through host memory begins with a read into reused host memory.
        if (!options_.no_raw && !traits.moves_device_memory) {
          add(raw_read(place_, content_, moving, to_device() ? Target::kSink : target, cache));
        }
      }
      if (has_fio) add_fio(FileOperation::kRead, moving);
    }
    if (wants("write")) {
      for (const std::string& verification : options_.verifications) {
        add(codec_write(place_, content_, stored(verification), moving, to_device()));
      }
      if (!options_.no_raw && !traits.moves_device_memory) add(raw_write(place_, content_, moving));
      if (has_fio) add_fio(FileOperation::kWrite, moving);
    }
  }

  // fio, and raw transfers that do the same.
  void add_fio(FileOperation operation, const IoSettings& moving) {
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
      add(fio_run(place_, content_, operation, moving, pages));
      add(raw_as_fio(place_, content_, operation, moving, pages));
    }
  }

  void add_peers() {
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) add_peers(pages);
    if (!wants("read")) return;
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
      if (!add_python_module(pages)) break;
    }
    if (to_device() && !options_.encrypt) add_gpu_loaders();
  }

  PeerMemory peer_memory() const { return to_device() ? PeerMemory::kGpu : PeerMemory::kHost; }

  // Loaders of safetensors into GPU memory, as far as they are installed.
  void add_gpu_loaders() {
    for (const std::string_view name : kGpuLoaders) {
      std::string why;
      const auto peer = start_peer(name, installation_prefix(), Pages::kHuge, why, PeerMemory::kGpu);
      add(peer ? peer_run(place_, content_, peer, {.encrypted = false}, {.into_device = true, .safetensors = true})
               : missing_peer(content_, name, why));
    }
  }

  // The module in Python reads the files of both peers; of its writes, driver.py says why they are not compared.
  bool add_python_module(Pages pages) {
    std::string why;
    const auto peer = start_peer(kPythonModule, installation_prefix(), pages, why, peer_memory());
    if (!peer) {
      add(missing_peer(content_, kPythonModule, why));
      return false;
    }
    const auto add_read = [&](const FileFormat& kept, PeerRun run) {
      run.into_device = to_device();
      add(peer_run(place_, content_, peer, kept, run));
    };
    for (const std::string& verification : options_.verifications) {
      if (verification != "crc32") add_read(stored("both"), {.verify = verification != "none"});
    }
    if (options_.encrypt) return true;
    add_read({.encrypted = false}, {.safetensors = true});
    return true;
  }

  void add_peers(Pages pages) {
    for (const std::string_view name : {"tensorizer", "safetensors"}) {
      const bool is_tensorizer = name == "tensorizer";
      if (!is_tensorizer && options_.encrypt) continue;
      std::string why;
      const auto peer = start_peer(name, installation_prefix(), pages, why, peer_memory());
      if (!peer) {
        // On the host they are what was asked for; into a GPU others remain.
        if (!to_device()) throw Error(ErrorCode::kUnavailable, why);
        add(missing_peer(content_, name, why));
        continue;
      }
      const FileFormat kept = is_tensorizer ? stored("both") : FileFormat{.encrypted = false};
      if (wants("read")) {
        for (const std::string& verification : options_.verifications) {
          const bool verify = verification != "none";
          if (verify && (!is_tensorizer || verification == "crc32")) continue;
          add(peer_run(place_, content_, peer, kept,
                       {.operation = FileOperation::kRead, .verify = verify, .into_device = to_device()}));
        }
      }
      // The peers cannot write from GPU memory without a copy to the host.
      if (wants("write") && !to_device())
        add(peer_run(place_, content_, peer, kept, {.operation = FileOperation::kWrite}));
    }
  }

  BenchOptions options_;
  Workplace& place_;
  const SharedContent content_;
  std::vector<Measured> subjects_;
};

}  // namespace

std::vector<std::string> chosen_paths(const std::vector<std::string>& named) {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    const bool is_named = std::ranges::find(named, path.name) != named.end();
    if (!is_named && (!named.empty() || !path.variant_of.empty() || path.traits.is_remote)) continue;
    const std::string reason =
        path.traits.is_remote ? "it reads URLs, which are not measured yet" : path.why_unavailable();
    if (reason.empty()) {
      names.emplace_back(path.name);
    } else if (is_named) {
      throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: {}", path.name, reason));
    }
  }
  for (const std::string& name : named) {
    if (std::ranges::find(names, name) == names.end()) {
      throw Error(ErrorCode::kUsage, fmt::format("there is no I/O path '{}'; --list-io lists them", name));
    }
  }
  return names;
}

std::vector<Measured> matrix_subjects(const BenchOptions& options, Workplace& place, SharedContent content) {
  if (!layout_from_name(options.layout)) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no layout '{}'", options.layout));
  }
  return Matrix(options, place, std::move(content)).subjects();
}

SharedContent matrix_content(const BenchOptions& options) {
  return std::make_shared<TensorContent>(make_workload(options.workload, options.scale_bytes));
}

}  // namespace tzmark::bench
