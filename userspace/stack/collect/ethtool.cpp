// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace whylate::stack::collect {
namespace {

constexpr std::uint32_t kMostStatistics = 100'000;

// A command with a tail whose length only the driver knows; words keep its 64-bit values aligned.
template <typename Command>
struct Sized {
  explicit Sized(std::size_t tail_bytes) : words((sizeof(Command) + tail_bytes + 7) / 8, 0) {}
  Command* get() { return reinterpret_cast<Command*>(words.data()); }
  const char* tail() const { return reinterpret_cast<const char*>(words.data()) + sizeof(Command); }
  std::vector<std::uint64_t> words;
};

}  // namespace

EthtoolReader::EthtoolReader() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  // A namespace or a kernel without IPv4 still has netlink sockets.
  if (fd_ < 0) fd_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
}

EthtoolReader::~EthtoolReader() {
  if (fd_ >= 0) ::close(fd_);
}

bool EthtoolReader::ask(const std::string& interface, void* command) const {
  ifreq request = {};
  if (interface.size() >= sizeof(request.ifr_name)) return false;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = static_cast<char*>(command);
  return ::ioctl(fd_, SIOCETHTOOL, &request) == 0;
}

std::string EthtoolReader::driver(const std::string& interface) const {
  ethtool_drvinfo info = {};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!ask(interface, &info)) return {};
  return std::string(info.driver, ::strnlen(info.driver, sizeof(info.driver)));
}

std::map<std::string, std::uint64_t> EthtoolReader::statistics(const std::string& interface) const {
  std::map<std::string, std::uint64_t> values;
  Sized<ethtool_sset_info> sets(sizeof(std::uint32_t));
  sets.get()->cmd = ETHTOOL_GSSET_INFO;
  sets.get()->sset_mask = 1ull << ETH_SS_STATS;
  if (!ask(interface, sets.get()) || sets.get()->sset_mask == 0) return values;
  std::uint32_t count = 0;
  std::memcpy(&count, sets.tail(), sizeof(count));
  if (count == 0 || count > kMostStatistics) return values;

  Sized<ethtool_gstrings> names(std::size_t{count} * ETH_GSTRING_LEN);
  names.get()->cmd = ETHTOOL_GSTRINGS;
  names.get()->string_set = ETH_SS_STATS;
  names.get()->len = count;
  Sized<ethtool_stats> numbers(std::size_t{count} * sizeof(std::uint64_t));
  numbers.get()->cmd = ETHTOOL_GSTATS;
  numbers.get()->n_stats = count;
  if (!ask(interface, names.get()) || !ask(interface, numbers.get())) return values;
  // The number of queues may have changed in between; then names and values would not fit.
  if (names.get()->len != count || numbers.get()->n_stats != count) return values;
  for (std::uint32_t i = 0; i < count; ++i) {
    const char* const name = names.tail() + std::size_t{i} * ETH_GSTRING_LEN;
    std::uint64_t value = 0;
    std::memcpy(&value, numbers.tail() + std::size_t{i} * sizeof(value), sizeof(value));
    values[std::string(name, ::strnlen(name, ETH_GSTRING_LEN))] = value;
  }
  return values;
}

}  // namespace whylate::stack::collect
