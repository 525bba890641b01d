// Ranks of MPI that write one file again and again, for a test that kills one of them: usage FILE a|b|both|dies. a and
// b are files of equal size and other bytes, written once; both takes turns until the program ends; with dies, rank 0
// is killed while it writes. A single rank writes its file without the others' code, to compare with.
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/mpi_ranks.h"
#include "tzmark/error.h"
#include "tzmark/group.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kTensors = 60;

TensorTable table() {
  TensorTable tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::uint64_t shape[] = {1 + i * i * 97};
    tensors.add({"tensor", i}, Kind::kStateDict, dtype_from_name("float32"), shape);
  }
  return tensors;
}

std::vector<std::vector<std::byte>> data_of(const TensorTable& tensors, char letter) {
  std::mt19937_64 random(static_cast<unsigned char>(letter));
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::byte& b : data.emplace_back(tensors[i].data_length)) b = static_cast<std::byte>(random());
  }
  return data;
}

// Data that ends its process.
class Deadly final : public TensorSource {
 public:
  std::unique_ptr<TensorStream> open(std::size_t) const override {
    std::raise(SIGKILL);
    std::abort();
  }
};

void write(const std::string& file_name, char letter, Ranks& ranks) {
  const TensorTable tensors = table();
  const auto data = data_of(tensors, letter);
  std::vector<ConstBuffer> views;
  for (const auto& bytes : data) views.emplace_back(bytes.data(), bytes.size());
  const MemorySource in_memory(std::move(views));
  const Deadly deadly;
  const bool dies = letter == 'd' && ranks.rank() == 0;
  const TensorSource& source = dies ? static_cast<const TensorSource&>(deadly) : in_memory;
  WriteOptions options;
  options.layout = Layout::kV5Segments;
  options.threads = 1;
  if (ranks.size() == 1) {
    write_file(file_name, tensors, source, options);
  } else {
    write_together(file_name, tensors, share_of(tensors, ranks.rank(), ranks.size()), source, ranks, options);
  }
}

int run(const std::string& file_name, std::string_view letters, Ranks& ranks) try {
  if (letters != "both") {
    write(file_name, letters.front(), ranks);
    return 0;
  }
  for (unsigned i = 0;; ++i) write(file_name, i % 2 == 0 ? 'a' : 'b', ranks);
} catch (const Error& error) {
  std::fprintf(stderr, "rank %u: %s\n", ranks.rank(), error.what());
  return 1;
}

}  // namespace
}  // namespace tzmark::bench

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  tzmark::remove_temporary_files_at_signals();
  int thread_level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &thread_level);
  tzmark::bench::MpiRanks ranks;
  const int status = tzmark::bench::run(argv[1], argv[2], ranks);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
