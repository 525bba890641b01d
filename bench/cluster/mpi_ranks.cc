// See cluster/mpi_ranks.h.
#include "cluster/mpi_ranks.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tzmark::bench {
namespace {

unsigned rank_in(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return static_cast<unsigned>(rank);
}

unsigned size_of(MPI_Comm communicator) {
  int size = 1;
  MPI_Comm_size(communicator, &size);
  return static_cast<unsigned>(size);
}

}  // namespace

MpiRanks::MpiRanks() : rank_(rank_in(MPI_COMM_WORLD)), size_(size_of(MPI_COMM_WORLD)) {
  MPI_Comm of_host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &of_host);
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  host_ = {std::string(name.data(), static_cast<std::size_t>(length)), rank_in(of_host), size_of(of_host)};
  MPI_Comm_free(&of_host);
}

void MpiRanks::broadcast(std::span<std::byte> memory, unsigned root) {
  // A count of MPI is an int.
  constexpr std::size_t kCallBytesMax = std::numeric_limits<int>::max();
  while (!memory.empty()) {
    const std::size_t bytes = std::min(memory.size(), kCallBytesMax);
    MPI_Bcast(memory.data(), static_cast<int>(bytes), MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
    memory = memory.subspan(bytes);
  }
}

void MpiRanks::barrier() { MPI_Barrier(MPI_COMM_WORLD); }

std::vector<std::string> MpiRanks::gather(const std::string& mine) {
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(rank_ == 0 ? size_ : 0), begins(lengths.size());
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int end = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    begins[i] = end;
    end += lengths[i];
  }
  std::string all(static_cast<std::size_t>(end), '\0');
  MPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

}  // namespace tzmark::bench
