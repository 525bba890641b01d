// What survives of files, and of directories.
#include "testing/disk/crash_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string_view>

namespace tzmark::test {
namespace {

// An inserted range that the file system has lost, for writes that were made where it had moved the bytes to.
struct LostRange {
  std::uint64_t offset, bytes;
};

void apply_to(Bytes& content, const DiskEvent& event, std::uint64_t offset) {
  const std::uint64_t end = offset + event.bytes;
  switch (event.kind) {
    case DiskEvent::Kind::kWrite:
      if (content.size() < end) content.resize(end);
      std::ranges::copy(event.content, content.begin() + static_cast<std::ptrdiff_t>(offset));
      break;
    case DiskEvent::Kind::kResize:
      content.resize(offset);
      break;
    case DiskEvent::Kind::kExtend:
      if (content.size() < end) content.resize(end);
      break;
    case DiskEvent::Kind::kInsert:
      content.resize(std::max<std::size_t>(content.size(), offset));
      content.insert(content.begin() + static_cast<std::ptrdiff_t>(offset), event.bytes, std::byte{0});
      break;
    case DiskEvent::Kind::kSync:
    case DiskEvent::Kind::kNames:
    case DiskEvent::Kind::kSyncDirectory:
      break;
  }
}

Bytes with_all(Bytes content, const std::vector<const DiskEvent*>& events) {
  for (const DiskEvent* const event : events) apply_to(content, *event, event->offset);
  return content;
}

// Where an event's offset is if ranges before it were lost; nothing if it is inside one.
std::optional<std::uint64_t> without(const std::vector<LostRange>& lost, std::uint64_t offset) {
  for (const LostRange& range : lost) {
    if (offset >= range.offset + range.bytes) {
      offset -= range.bytes;
    } else if (offset > range.offset) {
      return std::nullopt;
    }
  }
  return offset;
}

// Inserts what survives of a range into all contents that the file had before.
void insert_some(const DiskEvent& event, std::vector<Bytes>& versions, std::vector<LostRange>& lost,
                 std::mt19937_64& random, bool& is_partial) {
  constexpr std::uint64_t kBlock = 4096;
  DiskEvent inserted = event;
  switch (random() % 3) {
    case 0:
      lost.push_back({event.offset, event.bytes});
      return;
    case 1: {
      const std::uint64_t blocks = (versions.back().size() - event.offset + kBlock - 1) / kBlock;
      inserted.offset =
          std::min<std::uint64_t>(event.offset + random() % (blocks + 1) * kBlock, versions.back().size());
      is_partial = is_partial || inserted.offset != event.offset;
      break;
    }
    default:
      break;
  }
  for (Bytes& version : versions) apply_to(version, inserted, inserted.offset);
}

// A content whose sectors are of different times.
Bytes mixed(const std::vector<Bytes>& versions, std::mt19937_64& random) {
  const std::uint64_t way = random() % 4;
  if (way == 0) return versions[random() % versions.size()];
  const std::size_t unit = random() % 2 == 0 ? 512 : 4096;
  Bytes content(versions[random() % versions.size()].size());
  for (std::size_t at = 0; at < content.size(); at += unit) {
    // Mostly new, mostly old, or anything.
    std::size_t chosen = random() % versions.size();
    if (way == 1 && random() % 8 != 0) chosen = versions.size() - 1;
    if (way == 2 && random() % 8 != 0) chosen = 0;
    const Bytes& version = versions[chosen];
    const std::size_t end = std::min({at + unit, content.size(), version.size()});
    if (at < end) std::copy(version.begin() + at, version.begin() + end, content.begin() + at);
  }
  return content;
}

Bytes with_some(const Bytes& synced, const std::vector<const DiskEvent*>& events, std::mt19937_64& random,
                bool& is_partial) {
  std::vector<Bytes> versions = {synced};
  std::vector<LostRange> lost;
  for (const DiskEvent* const event : events) {
    if (event->kind == DiskEvent::Kind::kInsert) {
      insert_some(*event, versions, lost, random, is_partial);
    } else if (const auto offset = without(lost, event->offset)) {
      versions.push_back(versions.back());
      apply_to(versions.back(), *event, *offset);
    }
  }
  return mixed(versions, random);
}

Bytes surviving_content(const Bytes& synced, const std::vector<const DiskEvent*>& events, Survival survival,
                        std::mt19937_64& random, bool& is_partial) {
  if (events.empty() || survival == Survival::kNothing) return synced;
  if (survival == Survival::kSome) return with_some(synced, events, random, is_partial);
  Bytes all = with_all(synced, events);
  if (survival == Survival::kAll || survival == Survival::kLater) return all;
  Bytes zeros = synced;
  zeros.resize(all.size());
  return zeros;
}

DirectoryEntries surviving_entries(DirectoryEntries entries, const std::vector<const DiskEvent*>& events,
                                   std::size_t left_out, Survival survival, std::mt19937_64& random) {
  if (survival == Survival::kNothing) return entries;
  // A file system with a log keeps the first so many changes; another may keep any.
  const bool has_log = random() % 2 == 0;
  const std::size_t kept = survival == Survival::kSome && has_log ? random() % (events.size() + 1) : events.size();
  for (std::size_t i = survival == Survival::kLater ? left_out : 0; i < kept; ++i) {
    if (survival == Survival::kSome && !has_log && random() % 2 == 0) continue;
    for (const auto& [name, file] : events[i]->names) {
      entries.erase(name);
      if (file) entries[name] = *file;
    }
  }
  return entries;
}

}  // namespace

std::uint64_t DiskState::hash() const {
  std::uint64_t all = entries.size();
  const auto add = [&](std::string_view text) { all = all * 1099511628211U ^ std::hash<std::string_view>()(text); };
  for (const Entry& entry : entries) {
    add(entry.path);
    all ^= entry.file;
    if (entry.content) add({reinterpret_cast<const char*>(entry.content->data()), entry.content->size()});
  }
  return all;
}

void DiskState::make(const std::string& directory, FilePool& pool) const {
  std::map<FileNumber, std::string> made;
  for (const Entry& entry : entries) {
    const std::string name = directory + "/" + entry.path;
    const auto [first, is_new] = made.try_emplace(entry.file, name);
    if (!entry.content) {
      std::filesystem::create_directory(name);
    } else if (is_new) {
      pool.take(entry.file, *entry.content, name);
    } else {
      std::filesystem::create_hard_link(first->second, name);
    }
  }
}

CrashModel::CrashModel(const DiskTrace& trace) {
  for (const DiskTrace::StartFile& file : trace.files) nodes_.push_back({file.entries, file.content, {}});
}

void CrashModel::apply(const DiskEvent& event) {
  Node& node = nodes_[event.file];
  if (!event.is_sync()) {
    node.pending.push_back(&event);
    return;
  }
  std::mt19937_64 unused;
  if (node.entries) {
    node.entries = surviving_entries(*std::move(node.entries), node.pending, 0, Survival::kAll, unused);
  } else {
    node.content = with_all(std::move(node.content), node.pending);
  }
  node.pending.clear();
  node.left_out = 0;
}

void CrashModel::leave_out(const DiskEvent& sync) { nodes_[sync.file].left_out = nodes_[sync.file].pending.size(); }

bool CrashModel::is_durable() const {
  return std::ranges::all_of(nodes_, [](const Node& node) { return node.pending.empty(); });
}

DiskState CrashModel::state(Survival survival, std::mt19937_64& random) const {
  DiskState state;
  // A file with several names has one content.
  std::vector<std::optional<Bytes>> contents(nodes_.size());
  const Node& root = nodes_.front();
  add(surviving_entries(*root.entries, root.pending, root.left_out, survival, random), "", survival, random, contents,
      state);
  return state;
}

void CrashModel::add(const DirectoryEntries& entries, const std::string& path, Survival survival,
                     std::mt19937_64& random, std::vector<std::optional<Bytes>>& contents, DiskState& state) const {
  for (const auto& [name, file] : entries) {
    const Node& node = nodes_[file];
    if (node.entries) {
      state.entries.push_back({path + name, file, std::nullopt});
      add(surviving_entries(*node.entries, node.pending, node.left_out, survival, random), path + name + "/", survival,
          random, contents, state);
      continue;
    }
    if (!contents[file]) {
      contents[file] = surviving_content(node.content, node.pending, survival, random, state.has_partial_insertion);
    }
    state.entries.push_back({path + name, file, contents[file]});
  }
}

}  // namespace tzmark::test
