// The formats that the suite knows; see file_format.h.
#include "runner/file_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/tables.h"
#include "model/text.h"
#include "runner/errors.h"
#include "safetensors_model/describe.h"

namespace tzmark::conformance {
namespace {

model::Description describe_tensors(model::Bytes file, const model::Secret& secret,
                                    const std::set<std::string>& without) {
  return model::describe(file, secret, without);
}

// By the written description: what it refuses and the library takes, a reader may do either way.
model::Description describe_safetensors(model::Bytes file, const model::Secret&, const std::set<std::string>& without) {
  return safetensors::describe(file, safetensors::Profile::kSpec, without);
}

model::Outline outline_of_safetensors(model::Bytes file, const std::set<std::string>& without) {
  return safetensors::describe_structure(file, safetensors::Profile::kSpec, without);
}

constexpr std::array kFormats = {
    FileFormat{"tensorizer", ".tensors", "share/tzmark/corpus", "FORMAT.md", "", "", "", "TZR-HDR-001", false,
               describe_tensors, model::describe_structure},
    FileFormat{"safetensors", ".safetensors", "share/tzmark/safetensors", "SAFETENSORS.md", "safetensors",
               "safetensors-sharded", ".safetensors.index.json", "ST-001", true, describe_safetensors,
               outline_of_safetensors},
};
constexpr const FileFormat& kTensorizer = kFormats[0];
constexpr const FileFormat& kSafetensors = kFormats[1];

// suffix: in lower case.
bool ends_in(std::string_view name, std::string_view suffix) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower.ends_with(suffix);
}

}  // namespace

std::string format_names() {
  std::string names;
  for (const FileFormat& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

const FileFormat& format_of_name(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &FileFormat::name);
  if (found == kFormats.end()) throw UsageError(fmt::format("there is no format '{}': {}", name, format_names()));
  return *found;
}

const FileFormat& format_of_layout(std::string_view layout) {
  const auto* const found = std::ranges::find_if(kFormats, [&](const FileFormat& format) {
    return !format.only_layout.empty() && (format.only_layout == layout || format.sharded_layout == layout);
  });
  return found != kFormats.end() ? *found : kFormats.front();
}

bool is_sharded_layout(std::string_view layout) {
  return !layout.empty() && layout == format_of_layout(layout).sharded_layout;
}

std::string_view suffix_of_layout(std::string_view layout) {
  const FileFormat& format = format_of_layout(layout);
  return is_sharded_layout(layout) ? format.index_suffix : format.suffix;
}

bool is_index_name(std::string_view name) { return ends_in(name, kSafetensors.index_suffix); }

const FileFormat& format_of_file(model::Bytes file, std::string_view name) {
  if (is_index_name(name)) return kSafetensors;
  constexpr std::string_view kMagic = "|TZR|";
  constexpr std::size_t kBraceAt = 8;  // of a safetensors header, behind its length
  constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
  const std::string_view text = model::text_of(file.first(std::min(file.size(), kBraceAt + 1)));
  if (text.starts_with(kMagic)) return kTensorizer;
  const bool has_header = text.size() > kBraceAt && text[kBraceAt] == '{';
  if (has_header && model::little_endian(file.first(kBraceAt)) <= kHeaderBytesMax) return kSafetensors;
  return ends_in(name, kSafetensors.suffix) ? kSafetensors : kTensorizer;
}

std::set<std::string> all_layouts() {
  std::set<std::string> all;
  for (const model::Layout& layout : model::layouts()) all.emplace(layout.name);
  for (const FileFormat& format : kFormats) {
    for (const std::string_view layout : {format.only_layout, format.sharded_layout}) {
      if (!layout.empty()) all.emplace(layout);
    }
  }
  return all;
}

}  // namespace tzmark::conformance
