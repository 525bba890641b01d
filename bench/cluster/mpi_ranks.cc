// See cluster/mpi_ranks.h.
#include "cluster/mpi_ranks.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tzmark::bench {
namespace {

// Of what is sent by one rank to another: smaller ones take longer to begin than to send.
constexpr std::size_t kPartBytesMin = 64 << 10;

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

// A part to each, which they then gather: 33 MB, read and sent to 8 hosts over links of 400 Mbit, are there after 2.5
// s, and after 5.7 s with MPI_Bcast of OpenMPI 4.1.
bool MpiRanks::broadcast_parts(std::span<std::byte> memory, unsigned root) {
  const std::size_t part_bytes = memory.size() / size_;
  if (size_ < 3 || part_bytes < kPartBytesMin || part_bytes > std::numeric_limits<int>::max()) return false;
  const int count = static_cast<int>(part_bytes);
  std::byte* const own = memory.data() + rank_ * part_bytes;
  const bool is_root = rank_ == root;
  MPI_Scatter(memory.data(), count, MPI_BYTE, is_root ? MPI_IN_PLACE : static_cast<void*>(own), count, MPI_BYTE,
              static_cast<int>(root), MPI_COMM_WORLD);
  all_gather(memory.first(part_bytes * size_));
  const std::span<std::byte> rest = memory.subspan(part_bytes * size_);
  MPI_Bcast(rest.data(), static_cast<int>(rest.size()), MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
  return true;
}

void MpiRanks::broadcast(std::span<std::byte> memory, unsigned root) {
  if (broadcast_parts(memory, root)) return;
  // A count of MPI is an int.
  constexpr std::size_t kCallBytesMax = std::numeric_limits<int>::max();
  while (!memory.empty()) {
    const std::size_t bytes = std::min(memory.size(), kCallBytesMax);
    MPI_Bcast(memory.data(), static_cast<int>(bytes), MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
    memory = memory.subspan(bytes);
  }
}

// Each passes to the next rank what it got from the one before: the link of a host carries the bytes once in each
// direction, however many ranks it has, and of three ranks or more no two send to each other, which over TCP would take
// turns. MPI_Allgather of OpenMPI 4.1 takes a third longer for 4 hosts, and a fifth for 8.
void MpiRanks::pass_around(std::span<std::byte> memory) {
  const std::size_t part_bytes = memory.size() / size_;
  const int count = static_cast<int>(part_bytes);
  const auto part = [&](unsigned rank) { return memory.data() + rank % size_ * part_bytes; };
  const int next = static_cast<int>((rank_ + 1) % size_);
  const int before = static_cast<int>((rank_ + size_ - 1) % size_);
  for (unsigned step = 0; step + 1 < size_; ++step) {
    MPI_Sendrecv(part(rank_ + size_ - step), count, MPI_BYTE, next, 0, part(rank_ + size_ - step - 1), count, MPI_BYTE,
                 before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

void MpiRanks::all_gather(std::span<std::byte> memory) {
  const std::size_t part_bytes = memory.size() / size_;
  if (part_bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) return Group::all_gather(memory);
  if (part_bytes >= kPartBytesMin) return pass_around(memory);
  const int count = static_cast<int>(part_bytes);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory.data(), count, MPI_BYTE, MPI_COMM_WORLD);
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
