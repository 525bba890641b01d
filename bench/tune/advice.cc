// Rules that compare facts of the probe with what suits large sequential transfers; see advice.h.
#include "tune/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tune/exports.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

std::string kibibytes(std::uint64_t bytes) { return fmt::format("{} KiB", bytes / 1024); }

bool is_load(const TaskAnswer& answer) { return answer.task != "save"; }

std::set<std::string> mount_options(const Probe& probe) {
  std::set<std::string> options;
  std::istringstream words(probe.mount ? probe.mount->options : "");
  for (std::string word; std::getline(words, word, ',');) options.insert(word);
  return options;
}

// The value of an option such as "rsize=1048576".
std::optional<std::uint64_t> number_of(const std::set<std::string>& options, const std::string& name) {
  for (const std::string& option : options) {
    if (option.starts_with(name + "=")) return std::strtoull(option.c_str() + name.size() + 1, nullptr, 10);
  }
  return {};
}

// A command that writes a word to a file of the kernel.
std::string writing(std::string_view word, const std::string& file) {
  return fmt::format("echo {} | sudo tee {}", word, shell_quoted(file));
}

// Sequential reads through the page cache have at most the readahead in flight. A network answers later than a disk.
void advise_readahead(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (answer.task != "load-cold" || !probe.readahead_bytes || !probe.bdi) return;
  const std::uint64_t wanted = (probe.is_network ? 16 : 4) * kMebibyte;
  if (*probe.readahead_bytes >= wanted) return;
  const bool is_bypassed = path_traits(answer.recommended.io).bypasses_cache;
  list.push_back(
      {.task = answer.task,
       .what = fmt::format("Raise the readahead to {} MiB", wanted / kMebibyte),
       .why = fmt::format("It is {}: a program that reads a file through the page cache has at most that "
                          "much in flight.{}",
                          kibibytes(*probe.readahead_bytes),
                          is_bypassed ? fmt::format(" The recommended path, {}, does not use it; loaders "
                                                    "that map or read files do.",
                                                    answer.recommended.io)
                                      : ""),
       .command = writing(fmt::format("{}", wanted / 1024), fmt::format("/sys/class/bdi/{}/read_ahead_kb", *probe.bdi)),
       .needs_root = true});
}

// Solid-state disks order requests themselves; a rotating one wants fewer seeks, but no fairness between programs.
void advise_scheduler(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (answer.task == "load-warm" || !probe.disk.is_object() || probe.disks.empty()) return;
  const auto& scheduler = probe.disk["scheduler"];
  const auto& rotational = probe.disk["rotational"];
  if (!scheduler.is_string() || !rotational.is_boolean()) return;
  const bool rotates = rotational.get<bool>();
  const std::string wanted = rotates ? "mq-deadline" : "none";
  const std::string found = scheduler.get<std::string>();
  if (found == wanted || (rotates && found != "bfq")) return;
  if (std::ranges::find(probe.schedulers_offered, wanted) == probe.schedulers_offered.end()) return;
  std::string command;
  for (const std::string& disk : probe.disks) {
    command += fmt::format("{}{}", command.empty() ? "" : "; ",
                           writing(wanted, fmt::format("/sys/block/{}/queue/scheduler", disk)));
  }
  list.push_back({.task = answer.task,
                  .what = fmt::format("Set the scheduler of {} to {}", fmt::join(probe.disks, ", "), wanted),
                  .why = rotates ? "It is bfq, which shares a disk fairly between programs and idles between requests "
                                   "of one; a load or a save is one program with large requests."
                                 : fmt::format("It is {}, which takes time per request to order what a disk without "
                                               "moving parts orders itself.",
                                               found),
                  .command = command,
                  .needs_root = true});
}

// The command that mounts a network file system anew, with the options that somebody chose: the kernel lists them
// among many that it adds. Connections and sizes cannot change while it is mounted.
std::string mounting_anew(const Mount& mount, const std::set<std::string>& options, std::string option) {
  const std::string changed = option.substr(0, option.find('='));
  for (const std::string& other : options) {
    const std::string name = other.substr(0, other.find('='));
    static const std::set<std::string> kChosen = {"hard",   "nconnect", "noac", "noatime", "nodev", "noexec", "nolock",
                                                  "nosuid", "proto",    "ro",   "sec",     "soft",  "vers"};
    if (kChosen.contains(name) && name != changed) option += "," + other;
  }
  return fmt::format("sudo umount {0} && sudo mount -t {1} -o {2} {3} {0}", shell_quoted(mount.point),
                     shell_quoted(mount.file_system), shell_quoted(option), shell_quoted(mount.source));
}

void advise_nfs(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (answer.task == "load-warm" || !probe.mount || !probe.mount->file_system.starts_with("nfs")) return;
  const Mount& mount = *probe.mount;
  const std::set<std::string> options = mount_options(probe);
  const std::uint64_t connections = number_of(options, "nconnect").value_or(1);
  if (connections < 8) {
    list.push_back({.task = answer.task,
                    .what = "Mount with nconnect=16",
                    .why = fmt::format("The mount has {} connection{} to its server, each served by one core and one "
                                       "stream of TCP.",
                                       connections, connections == 1 ? "" : "s"),
                    .command = mounting_anew(mount, options, "nconnect=16"),
                    .needs_root = true});
  }
  const std::string size = is_load(answer) ? "rsize" : "wsize";
  const auto bytes = number_of(options, size);
  if (bytes && *bytes < kMebibyte) {
    list.push_back({.task = answer.task,
                    .what = fmt::format("Mount with {}=1048576", size),
                    .why = fmt::format("It is {}: larger transfers are cut into requests of that size. The server may "
                                       "grant less than is asked for.",
                                       *bytes),
                    .command = mounting_anew(mount, options, size + "=1048576"),
                    .needs_root = true});
  }
}

void advise_mount(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  advise_nfs(probe, answer, list);
  if (!probe.mount || probe.is_memory) return;
  const std::set<std::string> options = mount_options(probe);
  const std::string point = shell_quoted(probe.mount->point);
  if (is_load(answer) && !probe.is_network && options.contains("strictatime")) {
    list.push_back({.task = answer.task,
                    .what = "Mount with noatime",
                    .why = "The mount has strictatime: each read of a file also changes the file's metadata.",
                    .command = fmt::format("sudo mount -o remount,noatime {}", point),
                    .needs_root = true});
  }
  if (answer.task != "save") return;
  if (options.contains("sync")) {
    list.push_back({.task = answer.task,
                    .what = "Mount without the option sync",
                    .why = "The mount has it: every write waits for the disk, so no two are in flight from one thread. "
                           "A save syncs its file at the end in any case.",
                    .command = fmt::format("sudo mount -o remount,async {}", point),
                    .needs_root = true});
  }
  if (options.contains("data=journal")) {
    list.push_back({.task = answer.task,
                    .what = "Make the file system journal metadata only (data=ordered, after the next mount)",
                    .why = "The mount has data=journal: every byte is written twice, first to the journal.",
                    .command = fmt::format("sudo tune2fs -o ^journal_data {}", shell_quoted(probe.mount->source)),
                    .needs_root = true});
  }
}

void advise_huge_pages(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (!probe.huge_pages) return;
  const std::string directory = "/sys/kernel/mm/transparent_hugepage/";
  if (*probe.huge_pages == "never") {
    list.push_back({.task = answer.task,
                    .what = "Permit huge pages to programs that ask for them",
                    .why =
                        "Transparent huge pages are off (never), so a load touches new memory, and a direct transfer "
                        "pins it, 4 KiB at a time.",
                    .command = writing("madvise", directory + "enabled"),
                    .needs_root = true});
    return;
  }
  if (probe.huge_pages_defrag == "never") {
    list.push_back({.task = answer.task,
                    .what = "Let the kernel make room for huge pages where a program asks for them",
                    .why = "Their defragmentation is off (never): once free memory is fragmented, programs get small "
                           "pages.",
                    .command = writing("madvise", directory + "defrag"),
                    .needs_root = true});
  }
  // Who loads with another program has to ask for them there.
  if (answer.recommended.pages == Pages::kHuge && *probe.huge_pages == "madvise") {
    Setting small = answer.recommended;
    small.pages = Pages::kSmall;
    list.push_back({.task = answer.task,
                    .what = is_load(answer) ? "Load into memory in huge pages" : "Save from memory in huge pages",
                    .why = "The kernel gives huge pages only to programs that ask for them by madvise(MADV_HUGEPAGE). "
                           "tzmark does; for a program whose memory comes from malloc of glibc, the command asks.",
                    .command = "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
                    // The memory of a save is the caller's: both settings would move the same pages.
                    .trial = is_load(answer) ? std::optional(Trial{small, answer.recommended}) : std::nullopt});
  }
}

// The kernel begins to write back when this much is dirty; a save below it leaves all of the work to fsync.
void advise_dirty_limits(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  const PathTraits traits = path_traits(answer.recommended.io);
  if (answer.task != "save" || probe.is_memory || traits.bypasses_cache) return;
  // Here writeback starts during the save.
  const bool is_large = answer.recommended.block_bytes >= kWritebackBytesMin;
  if (traits.drops_pages || (is_large && traits.starts_writeback)) return;
  const auto background = probe.dirty.background_limit_bytes(probe.memory_bytes);
  constexpr std::uint64_t kWanted = 64 * kMebibyte;
  if (!background || *background <= kWanted || answer.bytes <= kWanted) return;
  const std::uint64_t left = std::min(*background, answer.bytes);
  list.push_back({.task = answer.task,
                  .what = "Begin to write back earlier",
                  .why = fmt::format("The kernel starts when {} MiB are dirty: {} MiB of this save wait for fsync "
                                     "while the disk idles.",
                                     *background / kMebibyte, left / kMebibyte),
                  .command = fmt::format("sudo sysctl vm.dirty_background_bytes={}", kWanted),
                  .needs_root = true});
}

// Returns the path that differs from this one only in its use of the page cache; empty if none is usable.
std::string through_page_cache(const TaskAnswer& answer) {
  const PathTraits direct = path_traits(answer.recommended.io);
  for (const std::string& name : answer.paths) {
    const PathTraits traits = path_traits(name);
    if (traits.bypasses_cache || traits.drops_pages || traits.maps_file || traits.uses_stdio) continue;
    if (traits.is_asynchronous == direct.is_asynchronous) return name;
  }
  return {};
}

// Where the recommended path bypasses the page cache, other programs must be told to.
void advise_direct(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  const PathTraits traits = path_traits(answer.recommended.io);
  if (!probe.takes_direct || answer.task == "load-warm" || !traits.bypasses_cache || traits.moves_device_memory) return;
  Setting without = answer.recommended;
  without.io = through_page_cache(answer);
  if (without.io.empty()) return;
  list.push_back({.task = answer.task,
                  .what = is_load(answer) ? "Use a loader that reads with O_DIRECT" : "Save with O_DIRECT",
                  .why = is_load(answer) ? "The page cache copies every byte once more, and evicts others for files "
                                           "that are read once."
                                         : "The page cache copies every byte once more, and fsync waits for all of it.",
                  .trial = Trial{without, answer.recommended}});
}

void advise_io_uring(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (probe.io_uring_disabled.value_or(0) == 0 || answer.task == "load-warm") return;
  if (std::ranges::any_of(answer.paths, [](const std::string& io) { return path_traits(io).is_asynchronous; })) return;
  list.push_back({.task = answer.task,
                  .what = "Permit io_uring",
                  .why = fmt::format("kernel.io_uring_disabled is {}, so one thread has one transfer in flight. It was "
                                     "perhaps set on purpose: io_uring has had security holes.",
                                     *probe.io_uring_disabled),
                  .command = "sudo sysctl kernel.io_uring_disabled=0",
                  .needs_root = true});
}

void advise_numa(const Probe& probe, const TaskAnswer& answer, std::vector<Advice>& list) {
  if (probe.numa_nodes.value_or(1) < 2 || !probe.numa_node || answer.task == "load-warm") return;
  list.push_back({.task = answer.task,
                  .what = fmt::format("Run on NUMA node {}, where the disk is attached", *probe.numa_node),
                  .why = fmt::format("The machine has {} nodes; transfers to the memory of another one cross the link "
                                     "between them. Prepend the command to that of your program.",
                                     *probe.numa_nodes),
                  .command = fmt::format("numactl --cpunodebind={0} --preferred={0}", *probe.numa_node)});
}

}  // namespace

std::vector<Advice> advise(const Probe& probe, std::span<const TaskAnswer> answers) {
  std::vector<Advice> list;
  for (const TaskAnswer& answer : answers) {
    for (const auto rule : {advise_io_uring, advise_mount, advise_direct, advise_readahead, advise_huge_pages,
                            advise_dirty_limits, advise_scheduler, advise_numa}) {
      rule(probe, answer, list);
    }
  }
  return list;
}

}  // namespace tzmark::bench
