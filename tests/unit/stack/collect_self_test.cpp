// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The collectors on this very process, with sockets that the test opens: no root needed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>

#include "stack/collect.h"
#include "stack/collect/elf_file.h"
#include "stack/collect/libraries.h"
#include "unit/host/temp_tree.h"

namespace whylate::stack {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) { EXPECT_GE(fd, 0); }
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

sockaddr_in bind_loopback(int fd) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return address;
}

std::string text_of(const sockaddr_in& address) {
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Evidence collect_self(bool borrow = false) {
  CollectOptions options;
  options.borrow_descriptors = borrow;
  Result<Evidence> evidence = collect_evidence(::getpid(), HostRoot{}, options);
  EXPECT_TRUE(evidence.ok()) << evidence.error().message;
  return std::move(*evidence);
}

const FdEntry* find_fd(const Evidence& evidence, int fd) {
  for (const FdEntry& entry : evidence.fds) {
    if (entry.fd == fd) return &entry;
  }
  return nullptr;
}

const DiagRow* find_row(const Evidence& evidence, int fd) {
  const FdEntry* const entry = find_fd(evidence, fd);
  if (entry == nullptr) return nullptr;
  for (const DiagRow& row : evidence.diag) {
    if (row.inode == entry->inode) return &row;
  }
  return nullptr;
}

bool kernel_is_at_least(int major, int minor) {
  utsname name = {};
  int have_major = 0, have_minor = 0;
  return ::uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &have_major, &have_minor) == 2 &&
         (have_major > major || (have_major == major && have_minor >= minor));
}

TEST(CollectSelf, SocketsByTheirProtocolAndPlace) {
  Socket listener(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = bind_loopback(listener.fd());
  ASSERT_EQ(::listen(listener.fd(), 1), 0);
  Socket client(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(client.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  Socket accepted(::accept(listener.fd(), nullptr, nullptr));
  Socket datagrams(::socket(AF_INET, SOCK_DGRAM, 0));
  const sockaddr_in udp = bind_loopback(datagrams.fd());
  Socket bound(::socket(AF_INET, SOCK_STREAM, 0));
  bind_loopback(bound.fd());

  Evidence evidence = collect_self();
  ASSERT_NE(find_fd(evidence, listener.fd()), nullptr);
  EXPECT_EQ(find_fd(evidence, listener.fd())->kind, ObjectKind::kSocket);
  EXPECT_EQ(find_fd(evidence, listener.fd())->protocol, "TCP");
  EXPECT_EQ(find_fd(evidence, listener.fd())->tid, ::getpid());
  EXPECT_EQ(find_fd(evidence, datagrams.fd())->protocol, "UDP");

  const DiagRow* const listening = find_row(evidence, listener.fd());
  ASSERT_NE(listening, nullptr);
  EXPECT_EQ(listening->state, 10);
  EXPECT_EQ(listening->local, text_of(address));
  EXPECT_EQ(listening->remote, "");
  const DiagRow* const connected = find_row(evidence, accepted.fd());
  ASSERT_NE(connected, nullptr);
  EXPECT_EQ(connected->state, 1);
  EXPECT_EQ(connected->protocol, IPPROTO_TCP);
  EXPECT_EQ(find_row(evidence, client.fd())->remote, text_of(address));
  const DiagRow* const datagram = find_row(evidence, datagrams.fd());
  ASSERT_NE(datagram, nullptr);
  EXPECT_EQ(datagram->local, text_of(udp));
  EXPECT_EQ(datagram->protocol, IPPROTO_UDP);
  if (kernel_is_at_least(6, 8)) {
    ASSERT_NE(find_row(evidence, bound.fd()), nullptr) << "bound, not listening";
  }

  // The window: bytes of TCP, and a socket that goes.
  char buffer[600] = {};
  ASSERT_EQ(::send(client.fd(), buffer, sizeof(buffer), 0), 600);
  ASSERT_EQ(::recv(accepted.fd(), buffer, sizeof(buffer), MSG_WAITALL), 600);
  const std::uint64_t gone = find_fd(evidence, datagrams.fd())->inode;
  datagrams.close();
  collect_after(evidence, HostRoot{}, CollectOptions{});
  ASSERT_TRUE(find_row(evidence, accepted.fd())->tcp);
  EXPECT_EQ(find_row(evidence, accepted.fd())->tcp->bytes_received.moved(), 600u);
  EXPECT_THAT(evidence.vanished_sockets, ::testing::ElementsAre(gone));
  EXPECT_FALSE(evidence.process.vanished);
  EXPECT_THAT(evidence.orphans, ::testing::Not(Contains(find_row(evidence, client.fd())->inode)));
  EXPECT_GT(evidence.collect_ns, 0u);
}

TEST(CollectSelf, UnixSocketsAndEpoll) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Socket one(pair[0]), other(pair[1]);
  Socket epoll(::epoll_create1(0));
  epoll_event event = {};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, one.fd(), &event), 0);
  const Evidence evidence = collect_self();
  ASSERT_NE(find_fd(evidence, epoll.fd()), nullptr);
  EXPECT_EQ(find_fd(evidence, epoll.fd())->kind, ObjectKind::kEventPoll);
  EXPECT_THAT(find_fd(evidence, epoll.fd())->epoll_fds, ::testing::ElementsAre(one.fd()));
  const DiagRow* const row = find_row(evidence, one.fd());
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->family, DiagFamily::kUnix);
  EXPECT_EQ(row->peer_inode, find_fd(evidence, other.fd())->inode);
}

TEST(CollectSelf, AThreadWithATableOfItsOwn) {
  std::promise<int> opened;
  std::promise<void> done;
  std::thread thread([&] {
    ASSERT_EQ(::unshare(CLONE_FILES), 0);
    const Socket own(::socket(AF_INET, SOCK_DGRAM, 0));
    opened.set_value(own.fd());
    done.get_future().wait();
  });
  const int fd = opened.get_future().get();
  const Evidence evidence = collect_self();
  std::size_t of_thread = 0;
  for (const FdEntry& entry : evidence.fds) {
    if (entry.fd != fd || entry.protocol != "UDP") continue;
    EXPECT_NE(entry.tid, ::getpid());
    ++of_thread;
  }
  EXPECT_EQ(of_thread, 1u);
  done.set_value();
  thread.join();
}

TEST(CollectSelf, ASharedTableIsListedOnce) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM, 0));
  std::promise<void> done;
  std::thread thread([&] { done.get_future().wait(); });
  const Evidence evidence = collect_self();
  const auto count = std::count_if(evidence.fds.begin(), evidence.fds.end(),
                                   [&](const FdEntry& e) { return e.fd == socket.fd(); });
  EXPECT_EQ(count, 1);
  EXPECT_EQ(evidence.threads.size(), 2u);
  done.set_value();
  thread.join();
}

TEST(CollectSelf, AnotherHolderOfTheSameSocket) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM, 0));
  bind_loopback(socket.fd());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const Evidence evidence = collect_self();
  const FdEntry* const entry = find_fd(evidence, socket.fd());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_NE(entry, nullptr);
  EXPECT_TRUE(entry->shared_with_others);
  EXPECT_THAT(entry->other_holders, ::testing::ElementsAre(child));
}

TEST(CollectSelf, SocketsThatComeAndGoMeanwhileAreNoGap) {
  std::atomic<bool> stop = false;
  std::thread churn([&] {
    while (!stop) {
      const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
      ::close(fd);
    }
  });
  for (int i = 0; i < 5; ++i) {
    Evidence evidence = collect_self(true);
    collect_after(evidence, HostRoot{}, CollectOptions{});
    for (const std::uint64_t inode : evidence.orphans) {
      const bool own = std::any_of(evidence.fds.begin(), evidence.fds.end(),
                                   [&](const FdEntry& e) { return e.inode == inode; });
      EXPECT_FALSE(own);
    }
    for (const Unreadable& gap : evidence.could_not_read) {
      EXPECT_THAT(gap.source, ::testing::Not(HasSubstr("/fd"))) << gap.reason;
    }
  }
  stop = true;
  churn.join();
}

TEST(CollectSelf, BorrowedDescriptorsTellBusyPolling) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM, 0));
  const sockaddr_in address = bind_loopback(socket.fd());
  const int us = 0;
  ASSERT_EQ(::setsockopt(socket.fd(), SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)), 0);
  // An error is pending on it; a reader that asked for SO_ERROR would take it away.
  const Socket refused(::socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in nobody = address;
  nobody.sin_port = htons(1);
  ASSERT_EQ(::connect(refused.fd(), reinterpret_cast<sockaddr*>(&nobody), sizeof(nobody)), 0);
  ASSERT_EQ(::send(refused.fd(), "x", 1, 0), 1);
  const Evidence evidence = collect_self(true);
  const auto facts = std::find_if(
      evidence.socket_facts.begin(), evidence.socket_facts.end(), [&](const SocketFacts& f) {
        return f.inode == find_fd(evidence, socket.fd())->inode && f.source == "getsockopt";
      });
  ASSERT_NE(facts, evidence.socket_facts.end());
  EXPECT_EQ(facts->busy_poll_us, 0u);
  EXPECT_EQ(facts->napi_id, 0u) << "loopback has none";
  char byte = 0;
  EXPECT_EQ(::recv(refused.fd(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, ECONNREFUSED) << "the error was still there";
}

TEST(CollectSelf, ALibraryWithALyingNameIsMarkedSo) {
  const test::TempTree tree;
  const std::string path = tree.root() + "/libonload.so";
  std::filesystem::copy_file("/proc/self/exe", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const Evidence evidence = collect_self();
  ::munmap(mapped, 4096);
  ::close(fd);
  const auto library = std::find_if(evidence.libraries.begin(), evidence.libraries.end(),
                                    [&](const Library& l) { return l.path == path; });
  ASSERT_NE(library, evidence.libraries.end());
  EXPECT_EQ(library->kind, LibraryKind::kOnload);
  EXPECT_TRUE(library->name_matches);
  EXPECT_EQ(library->marks_match, false);
}

TEST(CollectSelf, TheProcessItself) {
  const Evidence evidence = collect_self();
  EXPECT_EQ(evidence.process.pid, ::getpid());
  EXPECT_EQ(evidence.process.executable, std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(evidence.process.secure_exec, false);
  EXPECT_EQ(evidence.process.statically_linked, false);
  EXPECT_EQ(evidence.process.uid, ::geteuid());
  EXPECT_FALSE(evidence.process.other_net_namespace);
  EXPECT_FALSE(evidence.process.other_mount_namespace);
  EXPECT_NE(evidence.process.net_namespace, 0u);
  const auto loopback = std::find_if(evidence.interfaces.begin(), evidence.interfaces.end(),
                                     [](const Interface& i) { return i.loopback; });
  ASSERT_NE(loopback, evidence.interfaces.end());
  EXPECT_EQ(loopback->name, "lo");
  EXPECT_EQ(loopback->xdp_mode, XdpMode::kNone);
  EXPECT_TRUE(loopback->counters.rx_packets.before);
  EXPECT_EQ(evidence.snmp.count("Udp.InDatagrams"), 1u);
}

void expect_error(pid_t pid, const char* text) {
  const Result<Evidence> evidence = collect_evidence(pid, HostRoot{}, CollectOptions{});
  ASSERT_FALSE(evidence.ok());
  EXPECT_EQ(evidence.error().code, ExitCode::kUsage);
  EXPECT_THAT(evidence.error().message, HasSubstr(text));
  EXPECT_EQ(evidence.error().message.find('\n'), std::string::npos);
}

TEST(CollectErrors, DeadAndZombie) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  expect_error(child, "zombie");
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  expect_error(child, "no such process");
  expect_error(0, "no such process");
  expect_error(-1, "no such process");
}

TEST(CollectErrors, KernelThreadInATree) {
  const test::TempTree tree;
  test::add_process(tree, 2, "kthreadd", 'S', 0x208040);
  const Result<Evidence> evidence = collect_evidence(2, HostRoot{tree.root()}, CollectOptions{});
  ASSERT_FALSE(evidence.ok());
  EXPECT_EQ(evidence.error().code, ExitCode::kUsage);
  EXPECT_THAT(evidence.error().message, HasSubstr("kernel thread"));
}

TEST(CollectErrors, TheTargetEndsWithinTheWindow) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  Result<Evidence> evidence = collect_evidence(child, HostRoot{}, CollectOptions{});
  ASSERT_TRUE(evidence.ok()) << evidence.error().message;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  collect_after(*evidence, HostRoot{}, CollectOptions{});
  EXPECT_TRUE(evidence->process.vanished);
}

TEST(CollectErrors, ALeaderThatEndedLeavesAProcess) {
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    (void)fd;
    std::thread([&] {
      ::usleep(100'000);
      [[maybe_unused]] const ssize_t n = ::write(go[1], "x", 1);
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread only
  }
  char byte = 0;
  ASSERT_EQ(::read(go[0], &byte, 1), 1);
  ::close(go[0]);
  ::close(go[1]);
  const Result<Evidence> evidence = collect_evidence(child, HostRoot{}, CollectOptions{});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(evidence.ok()) << evidence.error().message;
  EXPECT_TRUE(std::any_of(evidence->fds.begin(), evidence->fds.end(),
                          [](const FdEntry& e) { return e.protocol == "UDP"; }));
}

}  // namespace
}  // namespace whylate::stack
