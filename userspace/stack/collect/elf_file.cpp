// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace whylate::stack::collect {
namespace {

constexpr std::size_t kMostBytes = 64u << 20u;
constexpr std::size_t kMostHeaders = 65535;

class File {
 public:
  explicit File(const std::string& path)
      // Never blocks on a FIFO and has no effect on a device that a path leads to.
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status = {};
    if (fd_ >= 0 && (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))) {
      ::close(fd_);
      fd_ = -1;
    }
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return fd_ >= 0; }

  bool read(void* to, std::size_t bytes, std::uint64_t offset) const {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t n = ::pread(fd_, static_cast<char*>(to) + done, bytes - done,
                                static_cast<off_t>(offset + done));
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

  template <typename Entry>
  std::vector<Entry> table(std::uint64_t offset, std::size_t count) const {
    std::vector<Entry> entries(count);
    if (count == 0 || !read(entries.data(), count * sizeof(Entry), offset)) entries.clear();
    return entries;
  }

 private:
  int fd_;
};

// File offset of an address, by the segments that are loaded.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments,
                                       std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

void read_dynamic(const File& file, const std::vector<Elf64_Phdr>& segments,
                  const Elf64_Phdr& segment, ElfFacts& facts) {
  const std::size_t count = segment.p_filesz / sizeof(Elf64_Dyn);
  if (count > kMostHeaders) return;
  std::uint64_t strings = 0, bytes = 0;
  std::optional<std::uint64_t> soname;
  for (const Elf64_Dyn& entry : file.table<Elf64_Dyn>(segment.p_offset, count)) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
    if (entry.d_tag == DT_SONAME) soname = entry.d_un.d_val;
  }
  const std::optional<std::uint64_t> offset = offset_of(segments, strings);
  if (!offset || bytes == 0 || bytes > kMostBytes) return;
  std::string table(bytes, '\0');
  if (!file.read(table.data(), bytes, *offset)) return;
  if (soname && *soname < bytes) facts.soname = table.c_str() + *soname;
}

void read_notes(const File& file, const Elf64_Phdr& segment, ElfFacts& facts) {
  if (segment.p_filesz > (1u << 20u)) return;
  const std::vector<char> notes = file.table<char>(segment.p_offset, segment.p_filesz);
  std::size_t at = 0;
  while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof(note));
    const std::size_t name = at + sizeof(note);
    const std::size_t text = name + ((std::size_t{note.n_namesz} + 3) & ~std::size_t{3});
    const std::size_t next = text + ((std::size_t{note.n_descsz} + 3) & ~std::size_t{3});
    if (text + note.n_descsz > notes.size()) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      constexpr char kDigits[] = "0123456789abcdef";
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        const auto byte = static_cast<unsigned char>(notes[text + i]);
        facts.build_id += kDigits[byte >> 4u];
        facts.build_id += kDigits[byte & 15u];
      }
      return;
    }
    at = next;
  }
}

void read_symbols(const File& file, const std::vector<Elf64_Shdr>& sections,
                  const Elf64_Shdr& section, ElfFacts& facts) {
  if (section.sh_link >= sections.size() || section.sh_size > kMostBytes) return;
  const Elf64_Shdr& strings = sections[section.sh_link];
  if (strings.sh_size == 0 || strings.sh_size > kMostBytes) return;
  std::string names(strings.sh_size, '\0');
  if (!file.read(names.data(), names.size(), strings.sh_offset)) return;
  facts.exported.emplace();
  for (const Elf64_Sym& symbol :
       file.table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
    if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < names.size()) {
      facts.exported->insert(names.c_str() + symbol.st_name);
    }
  }
}

void read_sections(const File& file, const Elf64_Ehdr& header, ElfFacts& facts) {
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) return;
  const std::vector<Elf64_Shdr> sections = file.table<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  if (sections.empty()) return;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_DYNSYM) read_symbols(file, sections, section, facts);
  }
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  if (names.sh_size > kMostBytes) return;
  const std::vector<char> table = file.table<char>(names.sh_offset, names.sh_size);
  constexpr std::string_view kTrace = "__rte_trace_point";
  facts.has_rte_trace =
      std::string_view(table.data(), table.size()).find(kTrace) != std::string_view::npos;
}

}  // namespace

std::optional<ElfFacts> read_elf(const std::string& path) {
  const File file(path);
  if (!file.ok()) return std::nullopt;
  Elf64_Ehdr header = {};
  if (!file.read(&header, sizeof(header), 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  ElfFacts facts;
  const std::vector<Elf64_Phdr> segments = file.table<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) facts.has_interpreter = true;
    if (segment.p_type == PT_NOTE && facts.build_id.empty()) read_notes(file, segment, facts);
    if (segment.p_type == PT_DYNAMIC) {
      facts.has_dynamic = true;
      read_dynamic(file, segments, segment, facts);
    }
  }
  read_sections(file, header, facts);
  return facts;
}

}  // namespace whylate::stack::collect
