// CRC32 on the GPU: divides ranges into segments, of which each thread block gets several.
#include "gpu/crc32.h"

#include <algorithm>

#include "bytes/digest.h"
#include "gpu/work.h"
#include "tzmark/device_compute.h"

namespace tzmark {
namespace {

using gpu::Crc32Segment;

constexpr unsigned kBlocksPerProcessor = 2;

// Segments are numerous enough to balance the load of the thread blocks, large enough that their overhead is small, and
// small enough that 32 bits can count their words.
constexpr std::size_t kSegmentsPerBlock = 16;
constexpr std::size_t kSegmentBytesMin = std::size_t{128} << 10, kSegmentBytesMax = std::size_t{4} << 20;

// Ordered by range, then by offset.
std::vector<Crc32Segment> make_segments(std::span<const ConstBuffer> ranges, unsigned blocks) {
  std::size_t total_bytes = 0;
  for (const ConstBuffer& range : ranges) total_bytes += range.size;
  const std::size_t share_bytes = total_bytes / (blocks * kSegmentsPerBlock);
  const std::size_t segment_bytes =
      std::clamp(share_bytes / gpu::kCrc32RoundBytes * gpu::kCrc32RoundBytes, kSegmentBytesMin, kSegmentBytesMax);
  const std::uint32_t whole_shift = gpu::crc32_shift(segment_bytes);
  std::vector<Crc32Segment> segments;
  segments.reserve(total_bytes / segment_bytes + ranges.size());
  // The last range that is not empty, and its first segment.
  std::size_t before = ranges.size(), before_first = 0;
  for (std::size_t range = 0; range < ranges.size(); ++range) {
    const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(ranges[range].data);
    const std::size_t first = segments.size();
    for (std::size_t at = 0; at < ranges[range].size; at += segment_bytes) {
      const std::size_t bytes = std::min(segment_bytes, ranges[range].size - at);
      segments.push_back({begin + at, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(range),
                          gpu::kCrc32One, at == 0 ? gpu::kCrc32Prefix : 0});
    }
    if (segments.size() == first) continue;
    // Ranges of one length are the rule, and their shifts are the same.
    const bool is_alike = before < ranges.size() && ranges[before].size == ranges[range].size;
    for (std::size_t i = first; is_alike && i < segments.size(); ++i) {
      segments[i].shift = segments[before_first + (i - first)].shift;
    }
    before = range;
    before_first = first;
    if (is_alike) continue;
    // Only the last segment may be smaller, so the others have equal distances.
    for (std::size_t i = segments.size(); i-- > first + 1;) {
      segments[i - 1].shift = i + 1 == segments.size() ? gpu::crc32_shift(segments[i].bytes)
                                                       : gpu::crc32_multiply(segments[i].shift, whole_shift);
    }
  }
  return segments;
}

}  // namespace

const std::string& why_no_device_compute(int device) { return gpu::Kernels::of(device).why_unavailable(); }

std::vector<std::uint32_t> crc32_on_device(std::span<const ConstBuffer> ranges) {
  static constexpr gpu::Crc32Constants kConstants = gpu::make_crc32_constants();
  const int device = gpu::device_of_all(ranges);
  const gpu::Kernels& kernels = gpu::Kernels::of(device);
  const unsigned blocks_max = std::max(1U, kernels.processors() * kBlocksPerProcessor);
  const std::vector<Crc32Segment> segments = make_segments(ranges, blocks_max);
  std::vector<std::uint32_t> results(ranges.size());
  const auto segment_bytes = std::as_bytes(std::span(segments));
  const auto result_bytes = std::as_writable_bytes(std::span(results));
  const std::size_t results_at = gpu::next_place(segment_bytes.size());
  gpu::Work work(device, results_at + result_bytes.size());
  if (segments.empty()) return results;
  work.upload(0, segment_bytes);
  work.clear(results_at, result_bytes.size());
  work.launch(kernels.crc32(), static_cast<unsigned>(std::min<std::size_t>(segments.size(), blocks_max)),
              gpu::kCrc32Threads,
              gpu::Crc32Arguments{work.pointer<const Crc32Segment>(0), segments.size(),
                                  work.pointer<std::uint32_t>(results_at), kConstants});
  work.download(results_at, result_bytes.size());
  work.finish();
  std::ranges::copy(work.downloaded(results_at, result_bytes.size()), result_bytes.begin());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (ranges[i].size != 0) results[i] = ~results[i];
  }
  return results;
}

}  // namespace tzmark
