// For tests: a file system that asks before each call what is to become of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tzmark/file_system.h"

namespace tzmark::test {

// One call that is about to happen.
struct Call {
  enum class Kind { kLook, kLock, kRead, kWrite, kSync, kSyncDirectory, kChange };
  Kind kind;
  std::string what;  // for people: "rename a b"
};

// Returns whether the call is done; false leaves it out and says that it went well. May throw instead, and may be
// called from any thread.
using Hook = std::function<bool(const Call&)>;

class HookedFiles final : public FileSystem {
 public:
  HookedFiles(std::shared_ptr<FileSystem> inner, Hook hook) : inner_(std::move(inner)), hook_(std::move(hook)) {}

  std::unique_ptr<File> create_file(const std::string& name, std::string_view io_path) override {
    hook_({Call::Kind::kChange, "create " + name});
    return std::make_unique<HookedFile>(inner_->create_file(name, io_path), hook_, name);
  }
  bool make_directory(const std::string& name) override {
    hook_({Call::Kind::kChange, "make " + name});
    return inner_->make_directory(name);
  }
  void sync_directory(const std::string& name) override {
    if (hook_({Call::Kind::kSyncDirectory, "sync directory " + name})) inner_->sync_directory(name);
  }
  void rename_directory(const std::string& from, const std::string& to) override {
    hook_({Call::Kind::kChange, "rename " + from + " " + to});
    inner_->rename_directory(from, to);
  }
  void replace_file(const std::string& from, const std::string& to) override {
    hook_({Call::Kind::kChange, "replace " + from + " " + to});
    inner_->replace_file(from, to);
  }
  void exchange(const std::string& a, const std::string& b) override {
    hook_({Call::Kind::kChange, "exchange " + a + " " + b});
    inner_->exchange(a, b);
  }
  void remove_directory(const std::string& name) override {
    hook_({Call::Kind::kChange, "remove " + name});
    inner_->remove_directory(name);
  }
  EntryKind kind(const std::string& name) override {
    hook_({Call::Kind::kLook, "look at " + name});
    return inner_->kind(name);
  }
  std::unique_ptr<OpenDirectory> open_directory(const std::string& name) override {
    hook_({Call::Kind::kLook, "open " + name});
    return hooked(inner_->open_directory(name));
  }
  std::unique_ptr<OpenDirectory> lock_shared(const std::string& name) override {
    hook_({Call::Kind::kLock, "lock " + name});
    return hooked(inner_->lock_shared(name));
  }
  std::unique_ptr<OpenDirectory> lock_alone(const std::string& name) override {
    hook_({Call::Kind::kLock, "lock alone " + name});
    return hooked(inner_->lock_alone(name));
  }

 private:
  class HookedFile final : public File {
   public:
    HookedFile(std::unique_ptr<File> inner, Hook hook, std::string name)
        : inner_(std::move(inner)), hook_(std::move(hook)), name_(std::move(name)) {}
    std::string_view io_path() const override { return inner_->io_path(); }
    std::uint64_t size() const override { return inner_->size(); }

   protected:
    std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
      hook_({Call::Kind::kRead, "read " + name_});
      inner_->read_at(offset, out);
      return out.size;
    }
    std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
      hook_({Call::Kind::kWrite, "write " + name_});
      inner_->write_at(offset, in);
      return in.size;
    }
    void sync_all() override {
      if (hook_({Call::Kind::kSync, "sync " + name_})) inner_->sync();
    }

   private:
    std::unique_ptr<File> inner_;
    const Hook hook_;
    const std::string name_;
  };

  class HookedDirectory final : public OpenDirectory {
   public:
    HookedDirectory(std::unique_ptr<OpenDirectory> inner, Hook hook)
        : inner_(std::move(inner)), hook_(std::move(hook)) {}
    const std::string& name() const override { return inner_->name(); }
    std::vector<DirectoryEntry> list() override {
      hook_({Call::Kind::kLook, "list " + name()});
      return inner_->list();
    }
    EntryKind kind(const std::string& entry) override {
      hook_({Call::Kind::kLook, "look at " + path(entry)});
      return inner_->kind(entry);
    }
    std::unique_ptr<OpenDirectory> open_directory(const std::string& entry) override {
      hook_({Call::Kind::kLook, "open " + path(entry)});
      return std::make_unique<HookedDirectory>(inner_->open_directory(entry), hook_);
    }
    std::unique_ptr<File> read_file(const std::string& entry, std::string_view io_path) override {
      hook_({Call::Kind::kLook, "open " + path(entry)});
      return std::make_unique<HookedFile>(inner_->read_file(entry, io_path), hook_, path(entry));
    }
    void forget_cached(const std::string& entry) override {
      hook_({Call::Kind::kLook, "forget " + path(entry)});
      inner_->forget_cached(entry);
    }
    void remove_file(const std::string& entry) override {
      hook_({Call::Kind::kChange, "remove " + path(entry)});
      inner_->remove_file(entry);
    }
    void remove_directory(const std::string& entry) override {
      hook_({Call::Kind::kChange, "remove " + path(entry)});
      inner_->remove_directory(entry);
    }

   private:
    std::string path(const std::string& entry) const { return name() + "/" + entry; }

    const std::unique_ptr<OpenDirectory> inner_;
    const Hook hook_;
  };

  std::unique_ptr<OpenDirectory> hooked(std::unique_ptr<OpenDirectory> directory) {
    if (!directory) return nullptr;
    return std::make_unique<HookedDirectory>(std::move(directory), hook_);
  }

  const std::shared_ptr<FileSystem> inner_;
  const Hook hook_;
};

}  // namespace tzmark::test
