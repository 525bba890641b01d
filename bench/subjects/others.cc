// fio, peers and ceilings as subjects; see others.h.
#include "subjects/others.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "harness/fio.h"
#include "harness/free_memory.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

class FioRun final : public Subject {
 public:
  FioRun(Workplace& place, SharedContent content, FileOperation operation, const IoSettings& moving, Pages pages)
      : place_(place), content_(std::move(content)), moving_(moving) {
    RunDescription& d = description_;
    d.subject = "fio";
    d.operation = operation;
    d.io_requested = d.io_actual = moving.io;
    d.workload = content_->workload().name;
    d.workload_label = content_->workload().label();
    d.is_default_block = moving.block_bytes == 0;
    d.threads = thread_count(moving.threads);
    d.target = Target::kSink;
    d.cache = operation == FileOperation::kRead ? Cache::kDirect : Cache::kNone;
    d.pages = pages;
    d.bytes = content_->data_bytes();
  }

  void verify() override {
    if (!fio_version()) throw Error(ErrorCode::kUnavailable, "fio is not installed");
    RunDescription& d = description_;
    const std::string raw = place_.raw_file(content_, Cache::kDirect);
    const auto file = open_file(raw, OpenMode::kRead, moving_.io);
    d.queue_depth = queue_depth(*file, moving_);
    d.block_bytes = moving_.block_bytes = block_bytes(*file, moving_);
    job_ = as_fio_job(*content_, d.operation, moving_, *d.queue_depth);
    job_.pages = *d.pages;
    job_.file_name = d.operation == FileOperation::kRead ? raw : place_.new_name(".fio");
    d.bytes = fio_bytes(job_);
    // In a run of its own, because looking at its memory stops fio for a while.
    see_pages(fio_huge_share(job_));
  }

  Sample run() override {
    Sample sample;
    if (description_.operation == FileOperation::kRead) {
      sample.resident_share = make_cache_state(job_.file_name, Cache::kDirect, job_.block_bytes * job_.queue_depth);
    } else {
      std::filesystem::remove(job_.file_name);
      touch_free_memory(job_.block_bytes * job_.queue_depth);
    }
    const RunTimer watch(place_.directory());
    const FioResult result = run_fio(job_);
    sample.elapsed_ns = result.elapsed_ns;
    sample.cpu_ns = result.cpu_ns;
    if (description_.operation == FileOperation::kWrite) sync_written(job_.file_name, sample);
    watch.stop_device(sample);
    latency_.merge(result.latency);
    submission_.merge(result.submission);
    description_.peer = {{"name", "fio"}, {"version", result.version}, {"detail", ""}};
    return sample;
  }

 private:
  Workplace& place_;
  const SharedContent content_;
  IoSettings moving_;
  FioJob job_;
};

class Ceiling final : public Subject {
 public:
  // measure: returns bytes per second after about the given time.
  Ceiling(std::string_view name, unsigned threads, Target target,
          std::function<double(std::chrono::nanoseconds)> measure)
      : measure_(std::move(measure)) {
    description_.subject = "ceiling";
    description_.detail = name;
    description_.threads = threads;
    description_.workload = "memory";
    description_.target = target;
  }

  Sample run() override {
    // States the measured rate as the time for a fixed number of bytes.
    constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;
    description_.bytes = kBytes;
    Sample sample;
    const double rate = measure_(std::chrono::milliseconds(20));
    sample.elapsed_ns = static_cast<std::uint64_t>(static_cast<double>(kBytes) / rate * 1e9);
    return sample;
  }

 private:
  const std::function<double(std::chrono::nanoseconds)> measure_;
};

// The list of tensors that a peer reads.
json tensor_list(const TensorContent& content, const std::string& data_file) {
  json tensors = json::array();
  std::uint64_t offset = 0;
  for (const TensorShape& tensor : content.workload().tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"offset", offset},
                       {"length", tensor.data_bytes()}});
    offset += tensor.data_bytes();
  }
  return {{"data", data_file}, {"tensors", std::move(tensors)}};
}

class PeerSubject final : public Subject {
 public:
  PeerSubject(Workplace& place, SharedContent content, std::shared_ptr<RunningPeer> peer, const FileFormat& stored,
              const PeerRun& run)
      : place_(place), content_(std::move(content)), peer_(std::move(peer)), stored_(stored), run_(run) {
    RunDescription& d = description_;
    const json& hello = peer_->process().hello();
    d.subject = "peer";
    d.detail = hello.at("peer").get<std::string>();
    if (run.operation == FileOperation::kRead) {
      d.detail += run.readers ? fmt::format(" readers={}", *run.readers) : " readers=default";
    }
    d.peer = {{"name", hello.at("peer")}, {"version", hello.at("version")}, {"detail", hello.at("detail")}};
    d.operation = run.operation;
    is_tensors_ = hello.at("formats").at(0) == "tensors" && !run.safetensors;
    if (run.safetensors) d.detail += " safetensors";
    if (!run.framework.empty()) d.detail += " " + run.framework;
    if (run.mapped) d.detail += " mapped";
    if (run.touch) d.detail += " touched";
    if (run.is_first) d.detail += " first of its process";
    if (is_tensors_) d.layout = std::string(layout_name(stored.layout));
    d.workload = content_->workload().name;
    d.workload_label = content_->workload().label();
    d.verification = run.operation == FileOperation::kRead
                         ? (run.verify ? (stored.encrypted ? "sha256" : "both") : "none")
                     : run.operation == FileOperation::kWrite && is_tensors_ ? (stored.encrypted ? "sha256" : "both")
                                                                             : "none";
    d.encrypted = stored.encrypted;
    d.target = run.into_device                ? Target::kDevice
               : peer_->pages == Pages::kHuge ? Target::kHugePages
                                              : Target::kSmallPages;
    d.pages = peer_->pages;
    d.cache = run.operation == FileOperation::kWrite ? Cache::kNone : Cache::kWarm;
    d.bytes = content_->data_bytes();
    d.tensors = content_->table().size();
  }

  void verify() override {
    if (run_.operation == FileOperation::kWrite) {
      file_name_ = place_.new_name(is_tensors_ ? ".tensors" : ".safetensors");
      const std::string list = place_.new_name(".json");
      std::ofstream(list) << tensor_list(*content_, place_.raw_file(content_, Cache::kNone));
      list_ = list;
      static_cast<void>(run());
      if (is_tensors_) require_same_content(file_name_, *content_, stored_.encrypted);
      description_.verified_first = is_tensors_;
      return;
    }
    file_name_ = is_tensors_ ? place_.file(content_, stored_, Cache::kWarm) : place_.safetensors_file(content_);
    // Of the peers on the host the conformance suite checks the tensors; here they must have read all bytes.
    wants_checksums_ = run_.into_device;
    static_cast<void>(run());
    if (std::exchange(wants_checksums_, false)) require_same_checksums();
    description_.verified_first = run_.operation == FileOperation::kOpen || bytes_read_ == content_->data_bytes();
    if (!description_.verified_first) {
      throw Error(ErrorCode::kFileChanged,
                  fmt::format("the peer read {} bytes instead of {}", bytes_read_, content_->data_bytes()));
    }
  }

  Sample run() override {
    Sample sample;
    json question = {{"op", name_of(run_.operation)}, {"file", file_name_}};
    if (stored_.encrypted) question["key_hex"] = bench_key_hex();
    if (run_.operation == FileOperation::kWrite) {
      std::filesystem::remove(file_name_);
      touch_free_memory(description_.bytes);
      // A peer holds the tensors of one content at a time.
      if (peer_->prepared != content_) {
        const json prepared = peer_->process().request({{"op", "prepare"}, {"spec", list_}});
        sample.user_elsewhere_ns += prepared.at("user_ns").get<std::uint64_t>();
        peer_->prepared = content_;
      }
      question["hashes"] = is_tensors_ ? "both" : "none";
      question["version"] = content_->make_new_version();
    } else {
      sample.resident_share = make_cache_state(file_name_, Cache::kWarm, description_.bytes);
      if (run_.operation == FileOperation::kRead) question["verify"] = run_.verify;
      if (run_.readers) question["readers"] = *run_.readers;
      if (run_.into_device) question["device"] = "cuda";
      if (!run_.framework.empty()) question["framework"] = run_.framework;
      if (run_.mapped) question["mapped"] = true;
      if (run_.touch) question["touch"] = true;
      if (wants_checksums_) question["checksums"] = true;
    }
    if (run_.is_first) peer_->restart();
    const RunTimer watch(place_.directory());
    const json answer = peer_->process().request(question);
    sample.elapsed_ns = answer.at("elapsed_ns");
    sample.cpu_ns = answer.at("cpu_ns").get<std::uint64_t>();
    sample.user_elsewhere_ns += answer.at("user_ns").get<std::uint64_t>();
    if (run_.operation == FileOperation::kWrite) sync_written(file_name_, sample);
    watch.stop_device(sample);
    bytes_read_ = answer.value("bytes", std::uint64_t{0});
    if (wants_checksums_) checksums_ = answer.value("crc32", json::object());
    if (answer.contains("peak_memory_bytes")) sample.peak_memory_bytes = answer.at("peak_memory_bytes");
    if (const json share = answer.value("huge_share", json()); !share.is_null()) see_pages(share.get<double>());
    return sample;
  }

 private:
  void require_same_checksums() const {
    const auto& tensors = content_->workload().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (checksums_.value(tensors[i].name, json()) != json(crc32(0, (*content_)[i]))) {
        // An error of the peer alone, which leaves the other lines as they are.
        throw Error(ErrorCode::kResource, fmt::format("the peer read other bytes of '{}'", tensors[i].name));
      }
    }
  }

  Workplace& place_;
  const SharedContent content_;
  const std::shared_ptr<RunningPeer> peer_;
  const FileFormat stored_;
  const PeerRun run_;
  bool is_tensors_ = false;
  std::string file_name_, list_;
  std::uint64_t bytes_read_ = 0;
  bool wants_checksums_ = false;
  json checksums_;  // of each tensor, by its name
};

class MissingPeer final : public Subject {
 public:
  MissingPeer(const SharedContent& content, std::string_view name, std::string why) : why_(std::move(why)) {
    RunDescription& d = description_;
    d.subject = "peer";
    d.detail = name;
    d.peer = {{"name", name}, {"version", "unknown"}, {"detail", ""}};
    d.workload = content->workload().name;
    d.workload_label = content->workload().label();
    d.cache = Cache::kWarm;
    d.bytes = content->data_bytes();
    d.tensors = content->table().size();
  }

  void verify() override { throw Error(ErrorCode::kUnavailable, why_); }
  Sample run() override { throw Error(ErrorCode::kUnavailable, why_); }

 private:
  const std::string why_;
};

// Nothing if it is not installed; why then says what is missing.
std::optional<PeerPlace> find_peer(std::string_view name, const std::filesystem::path& prefix, PeerMemory memory,
                                   std::string& why) {
  const bool is_module = name == kPythonModule;
  const bool is_gpu_loader = std::ranges::find(kGpuLoaders, name) != std::end(kGpuLoaders);
  std::string release = name == "safetensors" ? "safetensors-0.8.0" : "tensorizer-2.12.1";
  const std::filesystem::path driver =
      prefix / fmt::format("share/tzmark/bench/peers/{}_driver.py", is_module ? "tzmark" : name);
  // scripts/peers installs peers into the build directory.
  const char* const elsewhere = std::getenv("TZMARK_PEERS");
  const std::filesystem::path peers = elsewhere != nullptr ? std::filesystem::path(elsewhere) : prefix / "peers";
  // One environment has all loaders over a PyTorch with CUDA, which that of Debian lacks.
  if (is_gpu_loader || (memory == PeerMemory::kGpu && std::filesystem::exists(peers / "gpu/bin/python"))) {
    release = "gpu";
  }
  std::filesystem::path interpreter = peers / release / "bin/python";
  if (is_module) {
    // The interpreter of tensorizer, where there is one, so that both have the same numpy and torch. The driver finds
    // the module.
    const char* const chosen = std::getenv("TZMARK_PYTHON");
    if (chosen != nullptr) {
      interpreter = chosen;
    } else if (!std::filesystem::exists(interpreter)) {
      interpreter = "python3";
    }
    if (std::filesystem::exists(driver)) return PeerPlace{interpreter, driver, memory};
  }
  for (const auto& [path, what] :
       {std::pair{driver, "the driver"},
        std::pair{interpreter, release == "gpu" ? "scripts/peers --gpu installs it" : "scripts/peers installs it"}}) {
    if (std::filesystem::exists(path)) continue;
    const bool is_interpreter = path.lexically_normal().filename() == "python";
    why = fmt::format(
        "{} is missing ({})",
        is_interpreter ? (release == "gpu" ? "the environment of GPU loaders" : release) : path.filename().string(),
        what);
    return std::nullopt;
  }
  return PeerPlace{interpreter, driver, memory};
}

}  // namespace

std::unique_ptr<Subject> fio_run(Workplace& place, SharedContent content, FileOperation operation,
                                 const IoSettings& moving, Pages pages) {
  return std::make_unique<FioRun>(place, std::move(content), operation, moving, pages);
}

std::unique_ptr<Subject> ceiling(std::shared_ptr<Ladder> ladder, Rung rung) {
  const unsigned threads = ladder->threads();
  return std::make_unique<Ceiling>(
      rung_name(rung), threads, Target::kSink,
      [ladder = std::move(ladder), rung](std::chrono::nanoseconds time) { return ladder->measure(rung, time); });
}
std::unique_ptr<Subject> ceiling(GpuRung rung, std::size_t working_set_bytes) {
  auto made = std::make_unique<Ceiling>(rung_name(rung), 1, Target::kDevice, [=](std::chrono::nanoseconds time) {
    return measure_rate(rung, time, working_set_bytes);
  });
  made->description().notes = {
      fmt::format("{} bytes in pieces of {}", working_set_bytes, piece_bytes(rung, working_set_bytes))};
  return made;
}

std::unique_ptr<Subject> peer_run(Workplace& place, SharedContent content, std::shared_ptr<RunningPeer> peer,
                                  const FileFormat& stored, const PeerRun& run) {
  return std::make_unique<PeerSubject>(place, std::move(content), std::move(peer), stored, run);
}

std::unique_ptr<Subject> missing_peer(const SharedContent& content, std::string_view name, std::string why) {
  return std::make_unique<MissingPeer>(content, name, std::move(why));
}

std::shared_ptr<RunningPeer> start_peer(std::string_view name, const std::filesystem::path& prefix, Pages memory,
                                        std::string& why, PeerMemory into) {
  const auto place = find_peer(name, prefix, into, why);
  if (!place) return nullptr;
  try {
    return std::make_shared<RunningPeer>(*place, memory);
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kUnavailable) throw;
    why = error.message();
    return nullptr;
  }
}

}  // namespace tzmark::bench
