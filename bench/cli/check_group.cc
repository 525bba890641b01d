// Helpers of the check groups; see check_group.h.
#include "cli/check_group.h"

#include "tzmark/error.h"

namespace tzmark::bench {

Workload large_tensors(const CheckOptions& options) { return even_workload(32, options.scale_bytes / 32); }

Cache cache_for(std::string_view io) { return is_direct(io) ? Cache::kDirect : Cache::kWarm; }

std::vector<std::string> host_paths() {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    if (path.name != "gpudirect") names.emplace_back(path.name);
  }
  return names;
}

Peers start_peers(std::string_view name, std::string& why) {
  const auto place = find_peer(name, why);
  if (!place) return {};
  try {
    return {std::make_shared<RunningPeer>(*place, Pages::kHuge), std::make_shared<RunningPeer>(*place, Pages::kSmall)};
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kUnavailable) throw;
    why = error.message();
    return {};
  }
}

std::vector<std::size_t> peer_reads(CheckGroup& group, const SharedContent& content, const Peers& peers,
                                    const FileFormat& stored, PeerRun reading) {
  std::vector<std::size_t> reads;
  for (const std::optional<unsigned> readers :
       {std::optional<unsigned>(), std::optional(1U), std::optional(2U), std::optional(4U)}) {
    if (reading.operation == FileOperation::kOpen && readers) continue;
    reading.readers = readers;
    for (const auto& peer : peers) reads.push_back(group.add(peer_run(group.place(), content, peer, stored, reading)));
  }
  return reads;
}

}  // namespace tzmark::bench
