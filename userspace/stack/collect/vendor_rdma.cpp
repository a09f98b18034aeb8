// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/vendor_rdma.h"

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "host/file.h"

namespace whylate::stack::collect {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";

// enum ib_qp_type of rdma/ib_verbs.h.
std::string queue_type(std::uint8_t type) {
  constexpr std::array<const char*, 11> kNames = {
      "SMI",           "GSI",       "RC",         "UC",      "UD",     "RAW_IPV6",
      "RAW_ETHERTYPE", "UNKNOWN_7", "RAW_PACKET", "XRC_INI", "XRC_TGT"};
  if (type < kNames.size()) return kNames[type];
  return type == 0xff ? "DRIVER" : "type " + std::to_string(type);
}

OwnedResource parse_entry(const nlattr* entry, const std::string& device, const char* kind) {
  OwnedResource owned;
  owned.resource.device = device;
  owned.resource.kind = kind;
  each_nested(entry, [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case RDMA_NLDEV_ATTR_RES_LQPN:
        owned.resource.number = value_at<std::uint32_t>(attribute).value_or(0);
        break;
      case RDMA_NLDEV_ATTR_RES_CM_IDN:
        if (owned.resource.kind == "cm_id") {
          owned.resource.number = value_at<std::uint32_t>(attribute).value_or(0);
        }
        break;
      case RDMA_NLDEV_ATTR_RES_TYPE:
        owned.resource.type = queue_type(value_at<std::uint8_t>(attribute).value_or(0xfe));
        break;
      case RDMA_NLDEV_ATTR_RES_PID:
        owned.pid = static_cast<pid_t>(value_at<std::uint32_t>(attribute).value_or(0));
        break;
      default:
        break;
    }
  });
  return owned;
}

int dump(std::uint16_t command, std::uint32_t device, std::vector<OwnedResource>& found) {
  // The family has no fixed header; an attribute that says which device is one all the same.
  struct {
    nlattr head;
    std::uint32_t index;
  } attribute = {{sizeof(attribute), RDMA_NLDEV_ATTR_DEV_INDEX}, device};
  const auto type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
  NetlinkRequest request(type, NLM_F_DUMP, attribute);
  return netlink_ask(NETLINK_RDMA, request, [&](const nlmsghdr* message) {
    std::vector<OwnedResource> more = parse_rdma_resources(message);
    found.insert(found.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  });
}

// Index of each device as the dump of devices gives it.
std::vector<std::uint32_t> device_indices(int* error) {
  std::vector<std::uint32_t> indices;
  const auto type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
  const std::uint32_t unused = 0;
  NetlinkRequest request(type, NLM_F_DUMP, unused);
  request.message()->nlmsg_len = MNL_NLMSG_HDRLEN;
  *error = netlink_ask(NETLINK_RDMA, request, [&](const nlmsghdr* message) {
    each_attribute(mnl_nlmsg_get_payload(message), mnl_nlmsg_get_payload_len(message),
                   [&](const nlattr* attribute) {
                     if (mnl_attr_get_type(attribute) != RDMA_NLDEV_ATTR_DEV_INDEX) return;
                     if (const auto index = value_at<std::uint32_t>(attribute)) {
                       indices.push_back(*index);
                     }
                   });
  });
  return indices;
}

void read_resources(const Context& context, RdmaEvidence& rdma) {
  int error = 0;
  std::vector<OwnedResource> found;
  for (const std::uint32_t index : device_indices(&error)) {
    for (const std::uint16_t command :
         {std::uint16_t{RDMA_NLDEV_CMD_RES_QP_GET}, std::uint16_t{RDMA_NLDEV_CMD_RES_CM_ID_GET}}) {
      if (const int failed = dump(command, index, found); failed != 0) error = failed;
    }
  }
  if (error != 0) {
    context.cannot_read_errno("RDMA netlink", error, "CAP_NET_ADMIN",
                              "which queue pairs belong to it");
  }
  for (OwnedResource& owned : found) {
    if (owned.pid == context.pid) rdma.resources.push_back(std::move(owned.resource));
  }
}

// "mlx5_0/1/port_rcv_packets" and the like.
void read_counters(const Context& context, Reading reading, RdmaEvidence& rdma) {
  for (const std::string& device : host::list_directory(context.path(kDevices))) {
    const std::string ports = context.path(kDevices) + "/" + device + "/ports";
    for (const std::string& port : host::list_directory(ports)) {
      for (const char* group : {"counters", "hw_counters"}) {
        const std::string directory = ports + "/" + port + "/" + group;
        for (const std::string& name : host::list_directory(directory)) {
          const auto value = host::read_u64(directory + "/" + name);
          if (!value) continue;
          set_counter(rdma.counters[device + "/" + port + "/" + name], reading, value);
        }
      }
    }
  }
}

void read_interfaces(const Context& context, RdmaEvidence& rdma) {
  for (const std::string& device : host::list_directory(context.path(kDevices))) {
    const auto names = host::list_directory(context.path(kDevices) + "/" + device + "/device/net");
    if (!names.empty()) rdma.netdev_of[device] = names[0];
  }
  const std::string verbs = context.path("/sys/class/infiniband_verbs");
  for (const std::string& name : host::list_directory(verbs)) {
    const auto names = host::list_directory(verbs + "/" + name + "/device/net");
    if (!names.empty()) rdma.netdev_of[name] = names[0];
  }
}

}  // namespace

std::vector<OwnedResource> parse_rdma_resources(const nlmsghdr* message) {
  std::vector<OwnedResource> found;
  std::string device;
  each_attribute(mnl_nlmsg_get_payload(message), mnl_nlmsg_get_payload_len(message),
                 [&](const nlattr* attribute) {
                   const std::uint16_t type = mnl_attr_get_type(attribute);
                   if (type == RDMA_NLDEV_ATTR_DEV_NAME) device = text_of(attribute);
                   const char* const kind = type == RDMA_NLDEV_ATTR_RES_QP      ? "qp"
                                            : type == RDMA_NLDEV_ATTR_RES_CM_ID ? "cm_id"
                                                                                : nullptr;
                   if (kind == nullptr) return;
                   each_nested(attribute, [&](const nlattr* entry) {
                     found.push_back(parse_entry(entry, device, kind));
                   });
                 });
  return found;
}

void collect_rdma(const Context& context, Reading reading, Evidence& evidence) {
  if (!host::exists(context.path(kDevices))) return;
  if (reading == Reading::kAfter) {
    if (evidence.rdma) read_counters(context, reading, *evidence.rdma);
    return;
  }
  if (host::list_directory(context.path(kDevices)).empty()) return;
  RdmaEvidence rdma;
  if (context.live()) read_resources(context, rdma);
  read_interfaces(context, rdma);
  read_counters(context, reading, rdma);
  evidence.rdma = std::move(rdma);
}

}  // namespace whylate::stack::collect
