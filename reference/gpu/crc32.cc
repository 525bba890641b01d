// CRC32 on the GPU: describes ranges for one of the two kernels, which take segments of them.
#include "gpu/crc32.h"

#include <algorithm>

#include "bytes/digest.h"
#include "gpu/crc32_call.h"
#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/work.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using gpu::Crc32Range;

constexpr unsigned kTablesBlocksPerProcessor = 2;

// For tables, segments are numerous enough to balance the load of the thread blocks, large enough that their overhead
// is small, and small enough that 32 bits can count their words.
std::uint32_t tables_segment_bytes(std::span<const ConstBuffer> ranges, unsigned blocks) {
  constexpr std::size_t kSegmentsPerBlock = 16;
  constexpr std::size_t kBytesMin = std::size_t{128} << 10, kBytesMax = std::size_t{4} << 20;
  std::size_t total_bytes = 0;
  for (const ConstBuffer& range : ranges) total_bytes += range.size;
  const std::size_t share_bytes = total_bytes / (blocks * kSegmentsPerBlock);
  return static_cast<std::uint32_t>(
      std::clamp(share_bytes / gpu::kCrc32RoundBytes * gpu::kCrc32RoundBytes, kBytesMin, kBytesMax));
}

}  // namespace

const std::string& why_no_device_compute(int device) { return gpu::Kernels::of(device).why_unavailable(); }

std::vector<std::uint32_t> gpu::crc32_by(Crc32Method method, int device, std::span<const ConstBuffer> ranges,
                                         std::chrono::nanoseconds* kernel_time) {
  static constexpr Crc32Shifts kShifts = make_crc32_shifts();
  const bool by_matrix = method == Crc32Method::kMatrix;
  const Kernels& kernels = Kernels::of(device);
  const unsigned blocks_max = by_matrix ? kernels.processors() : kernels.processors() * kTablesBlocksPerProcessor;
  const std::uint32_t segment_bytes = by_matrix ? kCrc32MatrixSegmentBytes : tables_segment_bytes(ranges, blocks_max);
  std::vector<std::uint32_t> results(ranges.size());
  std::vector<Crc32Range> described(ranges.size());
  std::uint64_t segments = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::uint64_t address = device_address(ranges[i].data);
    described[i] = {address, ranges[i].size, static_cast<std::uint32_t>(segments), 0};
    segments += crc32_segment_count(address, ranges[i].size, segment_bytes);
  }
  const auto described_bytes = std::as_bytes(std::span(described));
  const auto result_bytes = std::as_writable_bytes(std::span(results));
  const std::size_t results_at = next_place(described_bytes.size());
  const std::size_t counter_at = next_place(results_at + result_bytes.size());
  const std::size_t bytes = counter_at + sizeof(std::uint32_t);
  Work work(device, bytes, bytes, kernel_time);
  if (segments == 0) return results;
  if (segments > UINT32_MAX || ranges.size() > UINT32_MAX) {
    throw Error(ErrorCode::kUsage, "more memory than one call can check");
  }
  work.upload(0, described_bytes);
  work.clear(results_at, bytes - results_at);
  const Crc32Arguments arguments{work.pointer<const Crc32Range>(0),
                                 static_cast<std::uint32_t>(ranges.size()),
                                 static_cast<std::uint32_t>(segments),
                                 segment_bytes,
                                 work.pointer<std::uint32_t>(counter_at),
                                 work.pointer<std::uint32_t>(results_at),
                                 kShifts};
  if (by_matrix) {
    Crc32MatrixArguments of_matrix{arguments, kernels.crc32_matrix_address(), {}};
    make_crc32_row_shifts(of_matrix.row_shift);
    work.launch(kernels.crc32_matrix(), std::min<std::uint64_t>(segments, blocks_max), of_matrix);
  } else {
    static constexpr Crc32Tables kTables = make_crc32_tables();
    work.launch(kernels.crc32_tables(), std::min<std::uint64_t>(segments, blocks_max),
                Crc32TablesArguments{arguments, kTables});
  }
  work.download(results_at, result_bytes.size());
  work.finish();
  std::ranges::copy(work.downloaded(results_at, result_bytes.size()), result_bytes.begin());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (ranges[i].size != 0) results[i] = ~results[i];
  }
  return results;
}

std::vector<std::uint32_t> crc32_on_device(std::span<const ConstBuffer> ranges, std::chrono::nanoseconds* kernel_time) {
  const int device = gpu::device_of_all(ranges);
  const auto method =
      gpu::Kernels::of(device).has_crc32_matrix() ? gpu::Crc32Method::kMatrix : gpu::Crc32Method::kTables;
  return gpu::crc32_by(method, device, ranges, kernel_time);
}

}  // namespace tzmark
