// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/netlink.h"

#include <linux/genetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace whylate::stack::collect {
namespace {

// A dump is answered at once; whoever is silent for so long never answers.
constexpr timeval kPatience = {3, 0};
constexpr std::size_t kReceiveBytes = 256 * 1024;

struct Close {
  void operator()(mnl_socket* socket) const { mnl_socket_close(socket); }
};

enum class Step { kMore, kEnd };

// One received buffer. `error` gets what an error message says.
Step visit_messages(const char* buffer, std::size_t bytes, unsigned sequence, bool dump,
                    const std::function<void(const nlmsghdr*)>& visit, int* error) {
  int left = static_cast<int>(bytes);
  const nlmsghdr* message = reinterpret_cast<const nlmsghdr*>(buffer);
  while (mnl_nlmsg_ok(message, left)) {
    if (message->nlmsg_seq == sequence) {
      if (message->nlmsg_type == NLMSG_DONE) {
        // A dump that the kernel has no code for ends at once, with the errno here.
        const std::optional<std::int32_t> status = header_of<std::int32_t>(message);
        if (status && *status < 0) *error = -*status;
        return Step::kEnd;
      }
      if (message->nlmsg_type == NLMSG_ERROR) {
        const std::optional<nlmsgerr> answer = header_of<nlmsgerr>(message);
        *error = answer ? -answer->error : EIO;
        return Step::kEnd;
      }
      visit(message);
      if (!dump && (message->nlmsg_flags & NLM_F_MULTI) == 0) return Step::kEnd;
    }
    message = mnl_nlmsg_next(message, &left);
  }
  return Step::kMore;
}

}  // namespace

void NetlinkRequest::start(std::uint16_t type, std::uint16_t flags, const void* header,
                           std::size_t bytes) {
  nlmsghdr* const head = mnl_nlmsg_put_header(buffer_);
  head->nlmsg_type = type;
  head->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  head->nlmsg_seq = 1;
  std::memcpy(mnl_nlmsg_put_extra_header(head, bytes), header, bytes);
}

int netlink_ask(int bus, NetlinkRequest& request,
                const std::function<void(const nlmsghdr*)>& visit) {
  const std::unique_ptr<mnl_socket, Close> socket(mnl_socket_open2(bus, SOCK_CLOEXEC));
  if (socket == nullptr) return errno;
  if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) != 0) return errno;
  const int fd = mnl_socket_get_fd(socket.get());
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  const nlmsghdr* const message = request.message();
  if (mnl_socket_sendto(socket.get(), message, message->nlmsg_len) < 0) return errno;
  const bool dump = (message->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  std::vector<char> buffer(kReceiveBytes);
  for (;;) {
    const ssize_t bytes = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return bytes < 0 ? errno : EPIPE;
    int error = 0;
    const Step step = visit_messages(buffer.data(), static_cast<std::size_t>(bytes),
                                     message->nlmsg_seq, dump, visit, &error);
    if (step == Step::kEnd) return error;
  }
}

std::string text_of(const nlattr* attribute) {
  const char* const text = static_cast<const char*>(mnl_attr_get_payload(attribute));
  return std::string(text, ::strnlen(text, mnl_attr_get_payload_len(attribute)));
}

std::optional<std::uint16_t> generic_family(const char* name) {
  genlmsghdr header = {};
  header.cmd = CTRL_CMD_GETFAMILY;
  header.version = 1;
  NetlinkRequest request(GENL_ID_CTRL, 0, header);
  request.put_text(CTRL_ATTR_FAMILY_NAME, name);
  std::optional<std::uint16_t> id;
  netlink_ask(NETLINK_GENERIC, request, [&](const nlmsghdr* message) {
    each_attribute_of<genlmsghdr>(message, [&](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID) {
        id = value_at<std::uint16_t>(attribute);
      }
    });
  });
  return id;
}

}  // namespace whylate::stack::collect
