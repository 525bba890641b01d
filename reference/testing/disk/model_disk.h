// For tests: a disk in memory that can lose power, and remembers what would survive that.
//
// What was not synced may survive in part, in whole, or not at all; restarted() gives one of the outcomes. The disk
// also complains, in violations(), of what no order of calls may do: to rename what is not durable, and to let `latest`
// name what is not durable under its name.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tzmark/error.h"
#include "tzmark/file_system.h"

namespace tzmark::test {

class ModelDisk final : public FileSystem {
 public:
  enum class Loss {
    kEverything,  // that was not synced
    kContents,    // names survive, contents do not
    kSome,        // of each directory the first so many changes survive, and of each file some of its bytes
  };

  ModelDisk() : root_(std::make_shared<Node>(true)) {}

  std::unique_ptr<File> create_file(const std::string& name, std::string_view) override {
    const std::lock_guard lock(mutex_);
    auto [directory, last] = parent_of(name);
    if (directory->entries.contains(last)) fail(ErrorCode::kOpenFailed, name, "it exists");
    auto file = std::make_shared<Node>(false);
    change(*directory, [&](Entries& entries) { entries[last] = file; });
    return std::make_unique<ModelFile>(*this, file);
  }

  bool make_directory(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    auto [directory, last] = parent_of(name);
    if (directory->entries.contains(last)) return false;
    change(*directory, [&](Entries& entries) { entries[last] = std::make_shared<Node>(true); });
    return true;
  }
  void sync_directory(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    Node& directory = *existing(name);
    directory.durable_entries = directory.entries;
    directory.history.clear();
  }
  void rename_directory(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    check_durable(from, *existing(from));
    if (find(to)) fail(ErrorCode::kWriteFailed, to, "it exists");
    move(from, to);
  }
  void replace_file(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    check_durable(from, *existing(from));
    if (to.ends_with("/latest")) check_latest(*existing(from), to);
    move(from, to);
  }
  void exchange(const std::string& a, const std::string& b) override {
    const std::lock_guard lock(mutex_);
    check_durable(a, *existing(a));
    check_durable(b, *existing(b));
    const auto a_place = parent_of(a), b_place = parent_of(b);
    change(*a_place.directory, [&](Entries& entries) { std::swap(entries[a_place.last], entries[b_place.last]); });
  }
  void remove_directory(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto place = parent_of(name);
    remove(*place.directory, place.last, name, true);
  }

  EntryKind kind(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const NodePointer node = find(name);
    return !node ? EntryKind::kNone : kind_of(*node);
  }
  std::unique_ptr<OpenDirectory> open_directory(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<ModelDirectory>(*this, name, existing(name), false, false);
  }
  std::unique_ptr<OpenDirectory> lock_shared(const std::string& name) override { return take_lock(name, false); }
  std::unique_ptr<OpenDirectory> lock_alone(const std::string& name) override { return take_lock(name, true); }

  // What is there when the power comes back.
  std::shared_ptr<ModelDisk> restarted(Loss loss, std::uint64_t seed) const {
    auto disk = std::make_shared<ModelDisk>();
    std::mt19937_64 random(seed);
    std::map<const Node*, NodePointer> done;
    disk->root_ = survivor(root_, loss, random, done);
    return disk;
  }
  std::vector<std::string> violations() const { return violations_; }

 private:
  struct Node;
  using NodePointer = std::shared_ptr<Node>;
  using Entries = std::map<std::string, NodePointer>;
  using Content = std::vector<std::byte>;

  struct Node {
    explicit Node(bool directory) : is_directory(directory) {}
    const bool is_directory;
    Content content, durable_content;
    Entries entries, durable_entries;
    std::vector<Entries> history;  // after each change since the last sync
    int locks = 0;
    bool locked_alone = false;
  };
  struct PlaceInDirectory {
    NodePointer directory;
    std::string last;
  };

  class ModelFile final : public File {
   public:
    ModelFile(ModelDisk& disk, NodePointer node) : disk_(disk), node_(std::move(node)) {}
    std::string_view io_path() const override { return "model"; }
    std::uint64_t size() const override {
      const std::lock_guard lock(disk_.mutex_);
      return node_->content.size();
    }

   protected:
    std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
      const std::lock_guard lock(disk_.mutex_);
      if (offset >= node_->content.size()) return 0;
      const auto length = std::min<std::size_t>(out.size, node_->content.size() - offset);
      std::memcpy(out.data, node_->content.data() + offset, length);
      return length;
    }
    std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
      const std::lock_guard lock(disk_.mutex_);
      node_->content.resize(std::max<std::size_t>(node_->content.size(), offset + in.size));
      std::memcpy(node_->content.data() + offset, in.data, in.size);
      return in.size;
    }
    void sync_all() override {
      const std::lock_guard lock(disk_.mutex_);
      node_->durable_content = node_->content;
    }

   private:
    ModelDisk& disk_;
    NodePointer node_;
  };

  // With a lock or without one.
  class ModelDirectory final : public OpenDirectory {
   public:
    // REQUIRES: the disk's mutex is held.
    ModelDirectory(ModelDisk& disk, std::string name, NodePointer node, bool locks, bool alone)
        : disk_(disk), name_(std::move(name)), node_(std::move(node)), locks_(locks), alone_(alone) {
      if (!node_->is_directory) fail(ErrorCode::kOpenFailed, name_, "not a directory");
      if (!locks_) return;
      ++node_->locks;
      node_->locked_alone = alone;
    }
    ~ModelDirectory() override {
      if (!locks_) return;
      const std::lock_guard lock(disk_.mutex_);
      --node_->locks;
      if (alone_) node_->locked_alone = false;
    }

    const std::string& name() const override { return name_; }
    std::vector<DirectoryEntry> list() override {
      const std::lock_guard lock(disk_.mutex_);
      std::vector<DirectoryEntry> found;
      for (const auto& [entry, node] : node_->entries) found.push_back({entry, kind_of(*node)});
      return found;
    }
    EntryKind kind(const std::string& entry) override {
      const std::lock_guard lock(disk_.mutex_);
      const auto found = node_->entries.find(entry);
      return found == node_->entries.end() ? EntryKind::kNone : kind_of(*found->second);
    }
    std::unique_ptr<OpenDirectory> open_directory(const std::string& entry) override {
      const std::lock_guard lock(disk_.mutex_);
      return std::make_unique<ModelDirectory>(disk_, path(entry), inner(entry), false, false);
    }
    std::unique_ptr<File> read_file(const std::string& entry, std::string_view) override {
      const std::lock_guard lock(disk_.mutex_);
      const NodePointer file = inner(entry);
      if (file->is_directory) fail(ErrorCode::kOpenFailed, path(entry), "not a regular file");
      return std::make_unique<ModelFile>(disk_, file);
    }
    void forget_cached(const std::string&) override {}
    void remove_file(const std::string& entry) override { remove(entry, false); }
    void remove_directory(const std::string& entry) override { remove(entry, true); }

   private:
    std::string path(const std::string& entry) const { return name_ + "/" + entry; }
    NodePointer inner(const std::string& entry) const {
      const auto found = node_->entries.find(entry);
      if (found == node_->entries.end()) fail(ErrorCode::kOpenFailed, path(entry), "it does not exist");
      return found->second;
    }
    void remove(const std::string& entry, bool directory) {
      const std::lock_guard lock(disk_.mutex_);
      ModelDisk::remove(*node_, entry, path(entry), directory);
    }

    ModelDisk& disk_;
    const std::string name_;
    NodePointer node_;
    const bool locks_, alone_;
  };

  static EntryKind kind_of(const Node& node) { return node.is_directory ? EntryKind::kDirectory : EntryKind::kFile; }

  [[noreturn]] static void fail(ErrorCode code, const std::string& name, const std::string& why) {
    throw Error(code, name + ": " + why);
  }

  NodePointer find(const std::string& name) const {
    NodePointer node = root_;
    for (std::size_t at = 0; at < name.size() && node;) {
      const std::size_t end = std::min(name.find('/', at), name.size());
      const std::string part = name.substr(at, end - at);
      if (!part.empty()) {
        const auto found = node->entries.find(part);
        node = found == node->entries.end() ? nullptr : found->second;
      }
      at = end + 1;
    }
    return node;
  }
  NodePointer existing(const std::string& name) const {
    NodePointer node = find(name);
    if (!node) fail(ErrorCode::kOpenFailed, name, "it does not exist");
    return node;
  }
  PlaceInDirectory parent_of(const std::string& name) const {
    const std::size_t slash = name.rfind('/');
    return {existing(name.substr(0, slash == std::string::npos ? 0 : slash)),
            name.substr(slash == std::string::npos ? 0 : slash + 1)};
  }
  template <typename Action>
  static void change(Node& directory, Action&& action) {
    action(directory.entries);
    directory.history.push_back(directory.entries);
  }
  void move(const std::string& from, const std::string& to) {
    const auto source = parent_of(from), target = parent_of(to);
    const NodePointer node = source.directory->entries.at(source.last);
    if (source.directory == target.directory) {
      change(*source.directory, [&](Entries& entries) {
        entries[target.last] = node;
        entries.erase(source.last);
      });
      return;
    }
    // Each directory is durable on its own.
    change(*target.directory, [&](Entries& entries) { entries[target.last] = node; });
    change(*source.directory, [&](Entries& entries) { entries.erase(source.last); });
  }
  static void remove(Node& directory, const std::string& entry, const std::string& name, bool is_directory) {
    const auto found = directory.entries.find(entry);
    if (found == directory.entries.end()) fail(ErrorCode::kWriteFailed, name, "it does not exist");
    if (found->second->is_directory != is_directory || !found->second->entries.empty()) {
      fail(ErrorCode::kWriteFailed, name, "not removable");
    }
    change(directory, [&](Entries& entries) { entries.erase(entry); });
  }
  std::unique_ptr<OpenDirectory> take_lock(const std::string& name, bool alone) {
    const std::lock_guard lock(mutex_);
    const NodePointer node = find(name);
    if (!node || node->locked_alone || (alone && node->locks > 0)) return nullptr;
    return std::make_unique<ModelDirectory>(*this, name, node, true, alone);
  }

  void check_durable(const std::string& name, const Node& node) {
    if (!node.is_directory && node.content != node.durable_content) violations_.push_back(name + ": not durable");
    for (const auto& [entry, inner] : node.entries) {
      // A name that was taken away may come back, and then belongs to nothing.
      const auto durable = node.durable_entries.find(entry);
      if (durable == node.durable_entries.end() || durable->second != inner) {
        violations_.push_back(name + "/" + entry + ": its name is not durable");
      }
      check_durable(name + "/" + entry, *inner);
    }
  }
  void check_latest(const Node& file, const std::string& latest) {
    std::string named(reinterpret_cast<const char*>(file.content.data()), file.content.size());
    named.erase(std::min(named.find('\n'), named.size()));
    const auto place = parent_of(latest);
    const auto found = place.directory->durable_entries.find(named);
    const bool is_committed = found != place.directory->durable_entries.end() &&
                              found->second == place.directory->entries[named] &&
                              found->second->durable_entries.contains("commit.json");
    if (!is_committed) violations_.push_back("latest names " + named + ", which is not committed");
  }

  static Content surviving(const Node& file, Loss loss, std::mt19937_64& random) {
    if (loss != Loss::kSome || file.content == file.durable_content) return file.durable_content;
    // The size may be there before the bytes are.
    Content content = file.content;
    const std::size_t kept = random() % (content.size() + 1);
    std::fill(content.begin() + static_cast<std::ptrdiff_t>(kept), content.end(), std::byte{0});
    if (random() % 2 == 0) content.resize(kept);
    return content;
  }
  static NodePointer survivor(const NodePointer& node, Loss loss, std::mt19937_64& random,
                              std::map<const Node*, NodePointer>& done) {
    NodePointer& made = done[node.get()];
    if (made) return made;
    NodePointer copy = made = std::make_shared<Node>(node->is_directory);
    copy->content = copy->durable_content = surviving(*node, loss, random);
    Entries entries = node->durable_entries;
    if (loss == Loss::kContents) entries = node->entries;
    if (loss == Loss::kSome && !node->history.empty()) {
      const std::size_t kept = random() % (node->history.size() + 1);
      if (kept > 0) entries = node->history[kept - 1];
    }
    for (const auto& [name, inner] : entries) copy->entries[name] = survivor(inner, loss, random, done);
    copy->durable_entries = copy->entries;
    return copy;
  }

  mutable std::mutex mutex_;
  NodePointer root_;
  std::vector<std::string> violations_;
};

}  // namespace tzmark::test
