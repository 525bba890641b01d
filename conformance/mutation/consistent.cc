// Edits of a file, and all that follows from them; see consistent.h.
#include "mutation/consistent.h"

#include <algorithm>

#include "model/text.h"

namespace tzmark::conformance::mutation {
namespace {

// The field that holds a byte. Null if none does.
const Site* site_of(const std::vector<Site>& sites, std::uint64_t offset) {
  const auto found = std::ranges::find_if(
      sites, [&](const Site& site) { return site.offset <= offset && offset - site.offset < site.size; });
  return found == sites.end() ? nullptr : &*found;
}

void change(Slice& slice, std::uint64_t offset, const std::vector<std::byte>& bytes) {
  std::vector<std::byte> changed(slice.bytes.begin(), slice.bytes.end());
  std::ranges::copy(bytes, changed.begin() + static_cast<std::ptrdiff_t>(offset));
  slice = slice_of(std::move(changed));
}

// Fixes a field to the bytes that it has in the file, and returns these.
std::string& fix(const std::vector<std::byte>& file, const Site& site, Draft& draft) {
  Deviations& deviations = site.tensor ? draft.tensors[*site.tensor].deviations : draft.deviations;
  Deviation& deviation = deviations[site.name];
  if (deviation.relative || deviation.bytes.empty()) {
    deviation = {std::string(model::text_of(model::Bytes(file).subspan(site.offset, site.size)))};
  }
  return deviation.bytes;
}

}  // namespace

std::optional<std::vector<std::byte>> apply_edits(const Draft& draft, const std::vector<Site>& sites,
                                                  const std::vector<Edit>& edits,
                                                  const std::vector<std::uint64_t>& keep_offsets) {
  const std::vector<std::byte> file = put_together(draft);
  Draft changed = draft;
  for (const std::uint64_t offset : keep_offsets) {
    const Site* const site = site_of(sites, offset);
    if (!site) return std::nullopt;
    if (site->name != "data") fix(file, *site, changed);
  }
  for (const Edit& edit : edits) {
    const Site* const site = site_of(sites, edit.offset);
    if (!site) return std::nullopt;
    const std::uint64_t begin = edit.offset - site->offset;
    if (edit.bytes.size() > site->size - begin) return std::nullopt;
    if (site->name == "data") {
      change(changed.tensors[*site->tensor].data, begin, edit.bytes);
    } else if (site->name == "tail") {
      change(changed.tail, begin, edit.bytes);
    } else if (site->name == "index rest") {
      change(changed.index_rest, begin, edit.bytes);
    } else {
      fix(file, *site, changed).replace(begin, edit.bytes.size(), std::string(model::text_of(edit.bytes)));
    }
  }
  return put_together(changed);
}

}  // namespace tzmark::conformance::mutation
