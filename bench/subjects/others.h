// What ours is held against: fio, other implementations, and the single steps that no codec exceeds.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/ceilings.h"
#include "harness/gpu_ceilings.h"
#include "harness/peer.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// fio with the blocks, depth, threads and directness of a raw run by that path ("direct" or "uring-direct").
std::unique_ptr<Subject> fio_run(Workplace& place, SharedContent content, FileOperation operation,
                                 const IoSettings& moving);

// One step on so many threads for about so long; the sample's bytes are those that it did. bytes is what a second does.
std::unique_ptr<Subject> ceiling(Rung rung, unsigned threads);
std::unique_ptr<Subject> ceiling(GpuRung rung, std::size_t working_set_bytes);

// Where the drivers and their interpreters are: beside this program and in the checkout that it was built from.
struct PeerPlace {
  std::string interpreter, driver;
};
// Nothing where it was not installed; why says what is missing and what installs it.
std::optional<PeerPlace> find_peer(std::string_view name, std::string& why);

struct RunningPeer {
  explicit RunningPeer(const PeerPlace& place) : process({place.interpreter, place.driver}) {}

  Peer process;
  SharedContent prepared;  // whose tensors it holds
};

struct PeerRun {
  FileOperation operation = FileOperation::kRead;
  bool verify = false;
  std::optional<unsigned> readers = std::nullopt;  // none: what the peer chooses by itself
  bool into_device = false;                        // a read that ends in GPU memory
};

// REQUIRES: the peer reads v4 files. A safetensors peer gets a safetensors file of the same tensors.
std::unique_ptr<Subject> peer_run(Workplace& place, SharedContent content, std::shared_ptr<RunningPeer> peer,
                                  const FileFormat& stored, const PeerRun& run);

}  // namespace tzmark::bench
