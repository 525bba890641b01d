// Runs the command as a process of its own, in a directory of its own. For tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace tzmark::test {

namespace fs = std::filesystem;

struct Result {
  int status = 0;  // exit status, or -signal
  std::string out, err;
  long peak_kib = 0;
};

inline std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    std::string name = (fs::temp_directory_path() / "tzmark-cli-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~CliTest() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ / name; }

  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // A file that its owner alone can read: the commands warn of any other with a secret.
  std::string write_secret(const std::string& name, const std::string& text) const {
    const std::string file = write(name, text);
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    return file;
  }

  // prepare: runs in the child once its standard streams are there.
  Result run(
      std::vector<std::string> arguments, const std::string& input = "/dev/null",
      const std::function<void()>& prepare = [] {}) const {
    arguments.insert(arguments.begin(), program_);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = path(".out"), err = path(".err");
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(input.c_str(), O_RDONLY), 0);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      prepare();
      ::execv(program_.c_str(), argv.data());
      ::_exit(127);
    }
    int status = 0;
    struct rusage usage {};
    ::wait4(child, &status, 0, &usage);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp(out), slurp(err), usage.ru_maxrss};
  }

  std::string program_ = std::string(std::getenv("TZMARK_BUILD_DIR")) + "/bin/tzmark";
  fs::path directory_;
};

}  // namespace tzmark::test
