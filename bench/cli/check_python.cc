// Items 8 and 9: the Python module against tensorizer, the codec and safetensors.
#include <fmt/format.h>

#include <algorithm>

#include "cli/check_group.h"
#include "program/installation.h"

namespace tzmark::bench {
namespace {

constexpr char kNote[] = "warm cache, same bytes, best of each side";

RatioCheck check_of(std::string item, std::string name, double required) {
  return {.item = std::move(item), .name = std::move(name), .required = required, .note = kNote};
}

RatioCheck not_measured(RatioCheck check, std::string why) {
  check.note = std::move(why);
  return check;
}

SharedContent content_of(CheckGroup& group, std::string_view workload) {
  return group.content(make_workload(workload, group.options().scale_bytes));
}

}  // namespace

void python_module(CheckGroup& group, std::string_view workload) {
  // Of one tensor, both sides do little but copy.
  const double required = workload == "one-huge" ? 1.4 : 3;
  const RatioCheck plain = check_of("8", fmt::format("Python, {}, against tensorizer", workload), required);
  const RatioCheck verified = check_of("8", fmt::format("Python, {} verified, against the codec", workload), 0.95);
  std::string why;
  const auto module = start_peer(kPythonModule, installation_prefix(), Pages::kHuge, why);
  if (!module) {
    group.conclude(not_measured(plain, why));
    return group.conclude(not_measured(verified, why));
  }
  const SharedContent content = content_of(group, workload);
  const auto read = [&](bool verify) {
    return group.add(peer_run(group.place(), content, module, {}, {.verify = verify, .framework = "numpy"}));
  };
  group.best_ratio(verified, {read(true)},
                   {group.add(codec_read(group.place(), content, {}, {}, {.verification = Verification::kAll}))});
  const Peers tensorizer = start_peers("tensorizer", why);
  if (tensorizer.empty()) return group.conclude(not_measured(plain, why));
  group.best_ratio(plain, {read(false)}, peer_reads(group, content, tensorizer, {}, {}));
}

void python_module_safetensors(CheckGroup& group, std::string_view workload) {
  std::string why;
  const auto module = start_peer(kPythonModule, installation_prefix(), Pages::kHuge, why);
  const Peers safetensors = module ? start_peers("safetensors", why) : Peers();
  const auto content = content_of(group, workload);
  const auto& tensors = content->workload().tensors;
  for (const std::string framework : {"numpy", "torch"}) {
    const bool is_mapped = framework == "torch";
    if (!is_mapped && std::ranges::find(tensors, "bfloat16", &TensorShape::dtype) != tensors.end()) continue;
    RatioCheck check =
        check_of("9", fmt::format("Python, {} safetensors, {}", workload, is_mapped ? "torch mapped" : framework), 1);
    check.note += ", every byte touched";
    if (safetensors.empty()) {
      group.conclude(not_measured(check, why));
      continue;
    }
    const PeerRun run{.safetensors = true, .framework = framework, .mapped = is_mapped, .touch = true};
    std::vector<std::size_t> theirs;
    for (const auto& peer : safetensors) theirs.push_back(group.add(peer_run(group.place(), content, peer, {}, run)));
    group.best_ratio(check, {group.add(peer_run(group.place(), content, module, {}, run))}, theirs);
  }
}

}  // namespace tzmark::bench
