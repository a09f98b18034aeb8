// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/vendor_offload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr std::size_t kStampBytes = 32;
constexpr std::uint64_t kMostSockets = 1'000'000;

/// Where the values are in a file: offsets in bytes, of a 64-bit build.
struct Layout {
  std::size_t version, stamp, slots, first, stride, head;
  std::size_t in_use, fd, inode, offloaded, rx, os_rx, tx, os_tx;  ///< within a slot
};

// The stamp is the MD5 sum of the header that declares the file (configure.ac, STATS_PROTOCOL_VER).
// The offsets come from compiling that header for each of the releases named.
constexpr Layout kVma = {4, 8, 12064, 12072, 344, 12416, 0, 8, 12, 24, 80, 120, 144, 164};
constexpr std::array kVmaStamps = {
    "18787eed4bf3a47f1a8741b52f0ad0f8",  // 9.1.0 to 9.2.2
    "4bee44c88dee72f6c79887d29025359e",  // 9.3.0 to 9.5.2
    "210aeb9e3f049bab037aa209d5be59cc",  // 9.5.3 to 9.8.0
    "cebac2c54a667a74ebba9fad44cc8803",  // 9.8.1 to 9.8.50
    "d7fc5223ff555b43408cff6b8138507f",  // 9.8.51, 9.8.60
    "420b6272e5828a4639106018d7e4742c",  // 9.8.70
    "a829ed9a7d9d4b9d825cc9ab0e983c25",  // 9.8.71 to 9.8.80
    "c2436dc784a369ffc352aa78545db031",  // 9.8.81, 9.8.82
    "25ca1bbb55c2c5536b0b4bded2689e9a",  // 9.8.83, 9.8.84
};

struct XlioLayout {
  const char* stamp;
  Layout layout;
};
// Each release exists with and without TLS offload, under one stamp: the size of the file decides.
constexpr Layout kXlio340 = {4, 8, 38400, 38408, 472, 38880, 0, 408, 412, 455, 32, 68, 120, 136};
constexpr Layout kXlio340Tls = {4, 8, 38528, 38536, 520, 39056, 0, 456, 460, 503, 32, 68, 120, 136};
constexpr Layout kXlio360 = {7388, 40200, 40192, 40232, 464, 40696, 0,
                             408,  412,   447,   32,    68,  120,   136};
constexpr Layout kXlio360Tls = {7388, 40200, 40192, 40232, 528, 40760, 0,
                                472,  476,   511,   32,    68,  120,   136};
constexpr Layout kXlio361 = {8412, 41224, 41216, 41256, 464, 41720, 0,
                             408,  412,   447,   32,    68,  120,   136};
constexpr Layout kXlio361Tls = {8412, 41224, 41216, 41256, 528, 41784, 0,
                                472,  476,   511,   32,    68,  120,   136};
constexpr std::array kXlio = {
    XlioLayout{"5e6f214f2fdf595474f922141a9f8ecd", kXlio340},  // 3.40.0, 3.40.1
    XlioLayout{"5e6f214f2fdf595474f922141a9f8ecd", kXlio340Tls},
    XlioLayout{"89eb59642e8926c73425e93986039314", kXlio340},  // 3.40.2
    XlioLayout{"89eb59642e8926c73425e93986039314", kXlio340Tls},
    XlioLayout{"d1e76d0ae3562f74d96aaa65d9d01bd4", kXlio340},  // 3.50.0 to 3.50.2
    XlioLayout{"d1e76d0ae3562f74d96aaa65d9d01bd4", kXlio340Tls},
    XlioLayout{"a7915650915cdc1afd46010808e44e2c", kXlio340},  // 3.50.3 to 3.51.1
    XlioLayout{"a7915650915cdc1afd46010808e44e2c", kXlio340Tls},
    XlioLayout{"2c738e198dbc0e68a9aa37d47b095ff4", kXlio360},  // 3.60.0, 3.60.1
    XlioLayout{"2c738e198dbc0e68a9aa37d47b095ff4", kXlio360Tls},
    XlioLayout{"cd76e35002afa6c59ce1217356aa9451", kXlio361},  // 3.60.2 to 3.61.0
    XlioLayout{"cd76e35002afa6c59ce1217356aa9451", kXlio361Tls},
    XlioLayout{"8acf4c5e11413c1da2c7f27b2ec26476", kXlio361},  // 3.61.1 to 3.70.2
    XlioLayout{"8acf4c5e11413c1da2c7f27b2ec26476", kXlio361Tls},
};

template <typename Value>
Value at(std::string_view bytes, std::size_t offset) {
  Value value = {};
  if (offset + sizeof(value) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
  }
  return value;
}

bool fits(std::string_view bytes, const Layout& layout, std::string_view stamp) {
  if (bytes.size() < layout.head || bytes.substr(layout.stamp, kStampBytes) != stamp) return false;
  const std::uint64_t slots = at<std::uint64_t>(bytes, layout.slots);
  // The file holds its head, which has one slot already, and all others.
  return slots <= kMostSockets && bytes.size() == layout.head + slots * layout.stride;
}

const Layout* find_layout(std::string_view bytes, bool xlio) {
  if (xlio) {
    for (const XlioLayout& known : kXlio) {
      if (fits(bytes, known.layout, known.stamp)) return &known.layout;
    }
    return nullptr;
  }
  for (const char* stamp : kVmaStamps) {
    if (fits(bytes, kVma, stamp)) return &kVma;
  }
  return nullptr;
}

bool is_xlio(const std::string& path) { return path.find("xliostat.") != std::string::npos; }

// Reads through the target's own descriptor or mapping where it may, so the very file is meant.
std::optional<std::string> read_target(const Context& context, const std::string& path) {
  const TargetFile file(context, path);
  if (!file.ok()) return std::nullopt;
  const auto text = host::read_file(file.path());
  if (!text) return std::nullopt;
  return *text;
}

std::set<std::string> stats_files(const Evidence& evidence) {
  std::set<std::string> paths;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.kind == ObjectKind::kStatsFile) paths.insert(entry.link);
  }
  for (const MapEntry& entry : evidence.maps) {
    if (entry.kind == ObjectKind::kStatsFile) paths.insert(entry.path);
  }
  return paths;
}

void not_published(const Context& context, const OffloadStats& stats) {
  const char* const tool = stats.xlio ? "xlio_stats" : "vma_stats";
  context.cannot_read(
      stats.path,
      std::string("the library fills it only while ") + tool + " runs: run that meanwhile",
      "which sockets are offloaded, and their counters");
}

}  // namespace

OffloadStats parse_offload_stats(std::string_view bytes, bool xlio, bool* unpublished) {
  OffloadStats stats;
  stats.xlio = xlio;
  const Layout* const layout = find_layout(bytes, xlio);
  if (layout == nullptr) return stats;
  stats.version_known = true;
  for (std::size_t i = 0; i < 3; ++i) {
    stats.version += (i == 0 ? "" : ".") +
                     std::to_string(static_cast<unsigned char>(bytes[layout->version + i]));
  }
  const std::uint64_t slots = at<std::uint64_t>(bytes, layout->slots);
  for (std::uint64_t i = 0; i < slots; ++i) {
    const std::string_view slot =
        bytes.substr(layout->first + static_cast<std::size_t>(i) * layout->stride, layout->stride);
    if (at<std::uint8_t>(slot, layout->in_use) == 0) continue;
    OffloadSocket socket;
    socket.fd = at<std::int32_t>(slot, layout->fd);
    socket.inode = at<std::uint32_t>(slot, layout->inode);
    if (socket.fd == 0 && socket.inode == 0) {
      if (unpublished != nullptr) *unpublished = true;
      continue;
    }
    socket.offloaded = at<std::uint8_t>(slot, layout->offloaded) != 0;
    socket.offloaded_rx_packets.before = at<std::uint32_t>(slot, layout->rx);
    socket.os_rx_packets.before = at<std::uint32_t>(slot, layout->os_rx);
    socket.offloaded_tx_packets.before = at<std::uint32_t>(slot, layout->tx);
    socket.os_tx_packets.before = at<std::uint32_t>(slot, layout->os_tx);
    stats.sockets.push_back(std::move(socket));
  }
  return stats;
}

void collect_offload_stats(const Context& context, Evidence& evidence) {
  for (const std::string& path : stats_files(evidence)) {
    const auto bytes = read_target(context, path);
    if (!bytes) {
      context.cannot_read(path, "the file cannot be read", "which sockets are offloaded");
      continue;
    }
    bool unpublished = false;
    OffloadStats stats = parse_offload_stats(*bytes, is_xlio(path), &unpublished);
    stats.path = path;
    if (!stats.version_known) {
      context.cannot_read(path, "the layout of this release is not known",
                          "which sockets are offloaded");
    } else if (unpublished) {
      not_published(context, stats);
    }
    evidence.offload_stats.push_back(std::move(stats));
  }
}

void collect_offload_stats_after(const Context& context, Evidence& evidence) {
  for (OffloadStats& stats : evidence.offload_stats) {
    if (!stats.version_known || stats.sockets.empty()) continue;
    const auto bytes = read_target(context, stats.path);
    if (!bytes) continue;
    const OffloadStats now = parse_offload_stats(*bytes, stats.xlio, nullptr);
    bool moved = false;
    std::vector<std::pair<Counter*, Counter>> pairs;
    for (OffloadSocket& socket : stats.sockets) {
      const auto same = std::find_if(
          now.sockets.begin(), now.sockets.end(),
          [&](const OffloadSocket& s) { return s.fd == socket.fd && s.inode == socket.inode; });
      if (same == now.sockets.end()) continue;
      pairs.emplace_back(&socket.offloaded_rx_packets, same->offloaded_rx_packets);
      pairs.emplace_back(&socket.offloaded_tx_packets, same->offloaded_tx_packets);
      pairs.emplace_back(&socket.os_rx_packets, same->os_rx_packets);
      pairs.emplace_back(&socket.os_tx_packets, same->os_tx_packets);
    }
    for (const auto& [counter, value] : pairs) moved = moved || counter->before != value.before;
    // A file that stands still may only be one that nobody asks for: then nothing is known.
    if (!moved) {
      not_published(context, stats);
      continue;
    }
    for (const auto& [counter, value] : pairs) counter->after = value.before;
  }
}

}  // namespace whylate::stack::collect
