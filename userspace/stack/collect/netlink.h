// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <libmnl/libmnl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

namespace whylate::stack::collect {

/// A netlink request with a fixed header behind nlmsghdr, and room for a few attributes.
class NetlinkRequest {
 public:
  template <typename Header>
  NetlinkRequest(std::uint16_t type, std::uint16_t flags, const Header& header) {
    static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) <= kHeaderBytes);
    start(type, flags, &header, sizeof(header));
  }

  void put_u8(std::uint16_t type, std::uint8_t value) { mnl_attr_put_u8(message(), type, value); }
  void put_u32(std::uint16_t type, std::uint32_t value) {
    mnl_attr_put_u32(message(), type, value);
  }
  void put_text(std::uint16_t type, const char* text) { mnl_attr_put_strz(message(), type, text); }
  void put_flag(std::uint16_t type) { mnl_attr_put(message(), type, 0, nullptr); }

  nlmsghdr* message() { return reinterpret_cast<nlmsghdr*>(buffer_); }

 private:
  static constexpr std::size_t kHeaderBytes = 128;
  void start(std::uint16_t type, std::uint16_t flags, const void* header, std::size_t bytes);

  alignas(nlmsghdr) char buffer_[512] = {};
};

/// Sends one request in the calling thread's network namespace and visits every message of the
/// answer. Returns 0 or the errno of what failed; messages visited before stay valid.
int netlink_ask(int bus, NetlinkRequest& request,
                const std::function<void(const nlmsghdr*)>& visit);

/// Visits the attributes in `bytes` bytes at `data`; a damaged one ends the visit.
template <typename Visit>
void each_attribute(const void* data, std::size_t bytes, const Visit& visit) {
  const char* const end = static_cast<const char*>(data) + bytes;
  const nlattr* attribute = static_cast<const nlattr*>(data);
  while (mnl_attr_ok(attribute, static_cast<int>(end - reinterpret_cast<const char*>(attribute)))) {
    visit(attribute);
    attribute = mnl_attr_next(attribute);
  }
}

/// The attributes behind the fixed header `Header` of a message.
template <typename Header, typename Visit>
void each_attribute_of(const nlmsghdr* message, const Visit& visit) {
  const std::size_t payload = mnl_nlmsg_get_payload_len(message);
  const std::size_t head = MNL_ALIGN(sizeof(Header));
  if (payload <= head) return;
  each_attribute(static_cast<const char*>(mnl_nlmsg_get_payload(message)) + head, payload - head,
                 visit);
}

template <typename Visit>
void each_nested(const nlattr* attribute, const Visit& visit) {
  each_attribute(mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute), visit);
}

/// The fixed header of a message, or nothing when it is too short.
template <typename Header>
std::optional<Header> header_of(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, mnl_nlmsg_get_payload(message), sizeof(header));
  return header;
}

/// A value at `offset` of an attribute, or nothing when the attribute ends before: structures of
/// the kernel grow with its versions.
template <typename Value>
std::optional<Value> value_at(const nlattr* attribute, std::size_t offset = 0) {
  if (mnl_attr_get_payload_len(attribute) < offset + sizeof(Value)) return std::nullopt;
  Value value;
  std::memcpy(&value, static_cast<const char*>(mnl_attr_get_payload(attribute)) + offset,
              sizeof(value));
  return value;
}

/// A text attribute, whether or not it has its final NUL.
std::string text_of(const nlattr* attribute);

/// Id of a generic netlink family, or nothing when it is not registered.
std::optional<std::uint16_t> generic_family(const char* name);

}  // namespace whylate::stack::collect
