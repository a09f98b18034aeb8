// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/libraries.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace whylate::stack::collect {
namespace {

/// A library: how its file is called, and names it must export to be it.
struct Known {
  LibraryKind kind;
  std::vector<std::string_view> files;    ///< "libonload" fits libonload.so, libonload.so.1.2
  std::vector<std::string_view> exports;  ///< all of them
  std::vector<std::string_view> lacks;    ///< none of them
};

// Exports: Onload's exports.map and its extension stub, exasock's extensions/, libvma's and
// libxlio's main.cpp, DPDK's version maps, libxdp, rdma-core, VPP's vppcom.h, F-Stack's ff_api.
// The stubs of Onload and exasock export the same extension calls, but no socket calls.
const std::vector<Known>& known_libraries() {
  static const std::vector<Known> kKnown = {
      {LibraryKind::kOnload, {"libonload", "libcitransport0"}, {"onload_version", "recvmsg"}, {}},
      {LibraryKind::kOnloadExt, {"libonload_ext"}, {"onload_is_present"}, {"recvmsg"}},
      {LibraryKind::kTcpDirect, {"libonload_zf"}, {"zf_init", "zf_stack_alloc"}, {}},
      {LibraryKind::kEfVi, {"libciul"}, {"ef_driver_open"}, {"onload_version"}},
      {LibraryKind::kExasock,
       {"libexasock_preload", "libexasock_preload_debug"},
       {"exasock_loaded", "recvmsg"},
       {}},
      {LibraryKind::kExasockExt, {"libexasock_ext"}, {"exasock_loaded"}, {"recvmsg"}},
      {LibraryKind::kVma,
       {"libvma"},
       {"recvmsg", "epoll_pwait", "__res_iclose"},
       {"xlio_exit", "gnu_get_libc_version"}},
      {LibraryKind::kXlio, {"libxlio"}, {"recvmsg", "xlio_exit"}, {}},
      {LibraryKind::kVerbs, {"libibverbs", "libmlx5", "libmlx4"}, {"ibv_get_device_list"}, {}},
      {LibraryKind::kVerbs, {"librdmacm"}, {"rdma_create_event_channel"}, {}},
      {LibraryKind::kDpdk, {"librte_eal"}, {"rte_eal_init"}, {}},
      {LibraryKind::kXdp, {"libxdp"}, {"xsk_socket__create"}, {}},
      {LibraryKind::kVppSession, {"libvcl_ldpreload", "libvppcom"}, {"vppcom_app_create"}, {}},
      {LibraryKind::kVpp, {"libvlib", "libvnet"}, {"vlib_unix_main"}, {}},
      {LibraryKind::kFStack, {"libfstack", "libff_syscall"}, {"ff_socket"}, {}},
      {LibraryKind::kIoUring, {"liburing"}, {"io_uring_queue_init"}, {}},
  };
  return kKnown;
}

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "libonload.so", "libonload.so.201.1", "librte_eal-23.so"
bool is_called(std::string_view name, std::string_view library) {
  if (name.substr(0, library.size()) != library) return false;
  const std::string_view rest = name.substr(library.size());
  return rest.substr(0, 3) == ".so" || rest.substr(0, 1) == "-" || rest.substr(0, 2) == ".a";
}

bool is_called_one_of(std::string_view name, const std::vector<std::string_view>& files) {
  return std::any_of(files.begin(), files.end(),
                     [&](std::string_view file) { return is_called(name, file); });
}

bool exports(const std::set<std::string>& exported, const Known& known) {
  const auto has = [&](std::string_view name) { return exported.count(std::string(name)) != 0; };
  return std::all_of(known.exports.begin(), known.exports.end(), has) &&
         std::none_of(known.lacks.begin(), known.lacks.end(), has);
}

std::optional<ElfFacts> read_mapped(const Context& context, const MappedCode& file) {
  char range[64];
  std::snprintf(range, sizeof(range), "/map_files/%llx-%llx",
                static_cast<unsigned long long>(file.start),
                static_cast<unsigned long long>(file.end));
  if (auto facts = read_elf(context.proc() + range)) return facts;
  // Only the very file that is mapped counts: its path may lead elsewhere by now.
  const TargetFile target(context, file.path);
  struct stat status = {};
  if (!target.ok() || ::stat(target.path().c_str(), &status) != 0 ||
      (context.live() && status.st_ino != file.inode)) {
    return std::nullopt;
  }
  return read_elf(target.path());
}

}  // namespace

std::vector<Library> judge_library(const std::string& path, const ElfFacts* elf) {
  std::vector<Library> found;
  for (const Known& known : known_libraries()) {
    Library library;
    library.kind = known.kind;
    library.path = path;
    library.name_matches = is_called_one_of(file_name(path), known.files);
    const bool soname = elf != nullptr && is_called_one_of(elf->soname, known.files);
    if (elf != nullptr) {
      library.soname = elf->soname;
      library.build_id = elf->build_id;
      if (elf->exported) library.marks_match = exports(*elf->exported, known);
    }
    if (library.name_matches || soname || library.marks_match.value_or(false)) {
      found.push_back(std::move(library));
    }
  }
  // Every library of DPDK has such points; in a program they mean that DPDK is linked into it.
  if (elf != nullptr && elf->has_rte_trace && elf->soname.empty() &&
      std::none_of(found.begin(), found.end(),
                   [](const Library& l) { return l.kind == LibraryKind::kDpdk; })) {
    Library library;
    library.kind = LibraryKind::kDpdk;
    library.path = path;
    library.soname = elf->soname;
    library.build_id = elf->build_id;
    library.marks_match = true;
    found.push_back(std::move(library));
  }
  return found;
}

void collect_libraries(const Context& context, const std::vector<MappedCode>& code,
                       Evidence& evidence) {
  for (const MappedCode& file : code) {
    const std::optional<ElfFacts> elf = read_mapped(context, file);
    for (Library& library : judge_library(file.path, elf ? &*elf : nullptr)) {
      if (!library.marks_match) {
        context.cannot_read(file.path, "the mapped file could not be opened",
                            "whether it is what its name says");
      }
      evidence.libraries.push_back(std::move(library));
    }
  }
}

}  // namespace whylate::stack::collect
