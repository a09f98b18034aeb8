// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <charconv>
#include <cstring>

namespace whylate::echo {
namespace {

Error bad(std::string_view text, std::string_view why) {
  return Error{ExitCode::kUsage, fmt::format("'{}' is not an address: {}", text, why)};
}

}  // namespace

std::uint16_t Endpoint::port() const {
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void Endpoint::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

bool Endpoint::is_multicast() const {
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_MULTICAST(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return IN_MULTICAST(ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr));
}

Result<Endpoint> parse_endpoint(std::string_view text, int default_port) {
  std::string_view host = text;
  std::string_view port_text;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return bad(text, "the ']' is missing");
    host = text.substr(1, close - 1);
    const auto rest = text.substr(close + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') return bad(text, "after ']' comes ':PORT'");
      port_text = rest.substr(1);
      has_port = true;
    }
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    if (text.find(':', colon + 1) == std::string_view::npos) {
      host = text.substr(0, colon);
      port_text = text.substr(colon + 1);
      has_port = true;
    } else if (default_port < 0) {
      return bad(text, "an IPv6 address with a port is written [ADDR]:PORT");
    }
  }

  int port = default_port;
  if (has_port) {
    const auto [end, error] =
        std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    if (error != std::errc{} || end != port_text.data() + port_text.size() || port < 0 ||
        port > 65535) {
      return bad(text, "the port is a number from 0 to 65535");
    }
  }
  if (port < 0) return bad(text, "the port is missing");

  Endpoint endpoint;
  const std::string name(host);
  const auto percent = name.find('%');
  const std::string bare = name.substr(0, percent);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.storage);
  if (percent == std::string::npos && inet_pton(AF_INET, bare.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    endpoint.length = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, bare.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    endpoint.length = sizeof(sockaddr_in6);
    if (percent != std::string::npos) {
      v6->sin6_scope_id = if_nametoindex(name.c_str() + percent + 1);
      if (v6->sin6_scope_id == 0) return bad(text, "no such interface after '%'");
    }
  } else {
    return bad(text, "neither IPv4 nor IPv6 (names are not resolved)");
  }
  endpoint.set_port(static_cast<std::uint16_t>(port));
  return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (endpoint.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&endpoint.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, endpoint.port());
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&endpoint.storage);
  inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  return fmt::format("{}:{}", text, endpoint.port());
}

Result<Interface> find_interface(const std::string& text) {
  Interface found;
  if (inet_pton(AF_INET, text.c_str(), &found.address) == 1) return found;
  found.index = if_nametoindex(text.c_str());
  if (found.index == 0) {
    return Error{ExitCode::kUsage, fmt::format("no interface '{}'", text)};
  }
  return found;
}

}  // namespace whylate::echo
