// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/packet_fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <vector>

namespace whylate {
namespace {

constexpr wl_u64 kNet = 0xffff888000001000;
constexpr wl_u64 kOtherNet = 0xffff888000002000;

class UdpFifo : public testing::Test {
 protected:
  /// What the receive hook does: a slot, then its fields. The id tells the packets apart.
  void push(wl_u64 id, wl_u16 dport = 9000, wl_u64 net = kNet, wl_u16 sport = 40000,
            bool multicast = false) {
    wl_packet* packet = wl_udp_fifo_push(fifo_.get(), skb_of(id), skb_of(id) + 64);
    packet->net = net;
    packet->dport = dport;
    packet->sport = sport;
    packet->arrival.id = id;
    packet->arrival.flags = static_cast<wl_u8>(WL_ARR_KNOWN | (multicast ? WL_ARR_MULTICAST : 0));
  }
  void push_multicast(wl_u64 id, wl_u16 dport = 9000) { push(id, dport, kNet, 40000, true); }
  static wl_u64 skb_of(wl_u64 id) { return 0xffff888100000000 + id * 256; }

  /// The id of the packet a socket gets, 0 for none.
  wl_u64 deliver(wl_u16 port = 9000, wl_u64 net = kNet, wl_u16 peer = 0) {
    const wl_udp_key key{net, port, peer, fifo_->tail};
    const wl_s64 index = wl_udp_fifo_find(fifo_.get(), &key);
    if (index < 0) return 0;
    wl_packet* packet = wl_udp_fifo_at(fifo_.get(), static_cast<wl_u32>(index));
    const wl_u64 id = packet->arrival.id;
    if (!(packet->arrival.flags & WL_ARR_MULTICAST)) wl_udp_fifo_take(fifo_.get(), packet);
    return id;
  }
  bool drop(wl_u64 id) {
    const wl_u64 skb = skb_of(id);
    return wl_udp_fifo_drop(fifo_.get(), &skb) != 0;
  }

  std::unique_ptr<wl_udp_fifo> fifo_ = std::make_unique<wl_udp_fifo>();
};

TEST_F(UdpFifo, EmptyHasNothing) {
  EXPECT_EQ(deliver(), 0u);
  EXPECT_FALSE(drop(1));
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), 0u);
  EXPECT_EQ(wl_udp_fifo_find(nullptr, nullptr), -1);
  EXPECT_EQ(wl_udp_fifo_take(fifo_.get(), nullptr), 0);
  EXPECT_EQ(wl_udp_fifo_drop(nullptr, nullptr), 0);
}

TEST_F(UdpFifo, ABatchIsDeliveredOldestFirst) {
  for (wl_u64 id = 1; id <= 20; ++id) push(id);
  for (wl_u64 id = 1; id <= 20; ++id) EXPECT_EQ(deliver(), id);
  EXPECT_EQ(deliver(), 0u);
  EXPECT_EQ(fifo_->tail, fifo_->head);
}

TEST_F(UdpFifo, MatchesByPortNamespaceAndPeer) {
  push(1, 9001);
  push(2, 9000, kOtherNet);
  push(3, 9000, kNet, 40001);
  push(4, 9000, kNet, 40002);
  EXPECT_EQ(deliver(9000, kNet, 40002), 4u);
  EXPECT_EQ(deliver(9000, kNet, 40003), 0u);
  EXPECT_EQ(deliver(9000, kNet), 3u);
  EXPECT_EQ(deliver(9000, kNet), 0u);
  EXPECT_EQ(deliver(9000, kOtherNet), 2u);
  EXPECT_EQ(deliver(9001), 1u);
}

TEST_F(UdpFifo, ADroppedPacketDoesNotShiftTheOthers) {
  for (const wl_u64 dropped : {1u, 3u, 5u}) {
    for (wl_u64 id = 1; id <= 5; ++id) push(id);
    EXPECT_TRUE(drop(dropped));
    EXPECT_FALSE(drop(dropped)) << "dropped twice";
    for (wl_u64 id = 1; id <= 5; ++id) {
      if (id == dropped) continue;
      EXPECT_EQ(deliver(), id) << "without " << dropped;
    }
    EXPECT_EQ(deliver(), 0u);
  }
}

TEST_F(UdpFifo, ADeliveredPacketIsNotDroppedByItsLaterFree) {
  push(1);
  push(2);
  EXPECT_EQ(deliver(), 1u);
  EXPECT_FALSE(drop(1));
}

TEST_F(UdpFifo, WhenFullTheOldestIsOverwritten) {
  for (wl_u64 id = 1; id <= 3 * WL_UDP_FIFO_LEN; ++id) push(id);
  EXPECT_EQ(deliver(), 2u * WL_UDP_FIFO_LEN + 1);
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), WL_UDP_FIFO_LEN - 1u);
}

TEST_F(UdpFifo, ClearForgetsAllAndCountsOnlyUnicast) {
  for (wl_u64 id = 1; id <= 4; ++id) push(id);
  push_multicast(5);
  push_multicast(6);
  EXPECT_EQ(deliver(), 1u);
  EXPECT_TRUE(drop(3));
  EXPECT_TRUE(drop(5));
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), 2u);
  EXPECT_EQ(deliver(), 0u);
  EXPECT_FALSE(drop(2));
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), 0u);
  push(7);
  EXPECT_EQ(deliver(), 7u);
}

TEST_F(UdpFifo, MulticastIsNotCountedAsUnicast) {
  for (wl_u64 id = 1; id <= WL_UDP_FIFO_LEN; ++id) push_multicast(id);
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), 0u);
}

// A packet that another CPU signals later is found by its buffer, though it has been given up here.
TEST_F(UdpFifo, ClearedPacketsAreKnownAsSuch) {
  for (wl_u64 id = 0; id < 70; ++id) push(id);
  for (wl_u32 slot = 0; slot < WL_UDP_FIFO_LEN; ++slot) {
    EXPECT_FALSE(wl_udp_fifo_cleared(fifo_.get(), slot)) << slot;
  }
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), static_cast<wl_u32>(WL_UDP_FIFO_LEN));
  push(70);
  for (wl_u32 slot = 0; slot < WL_UDP_FIFO_LEN; ++slot) {
    EXPECT_EQ(wl_udp_fifo_cleared(fifo_.get(), slot), slot != 6) << slot;
  }
  EXPECT_EQ(wl_udp_fifo_at(fifo_.get(), 5)->buffer, skb_of(69) + 64);
}

// A buffer is used again: its old packet is not the one in it for a socket that has had that
// packet.
TEST_F(UdpFifo, ASocketKnowsWhichMulticastPacketsItHasHad) {
  wl_multicast had[WL_MULTICAST_CPUS] = {};
  wl_multicast other[WL_MULTICAST_CPUS] = {};
  for (wl_u64 id = 0; id < 70; ++id) push_multicast(id);
  EXPECT_EQ(wl_multicast_after(had, fifo_.get(), 1), fifo_->tail);
  EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 1, 5)) << "none was taken";
  wl_multicast_take(had, fifo_.get(), 1, 67 & (WL_UDP_FIFO_LEN - 1));
  EXPECT_EQ(wl_multicast_after(had, fifo_.get(), 1), 68u);
  for (wl_u32 id = 6; id < 70; ++id) {
    const wl_u32 slot = id & (WL_UDP_FIFO_LEN - 1);
    EXPECT_EQ(wl_multicast_had(had, fifo_.get(), 1, slot), id <= 67) << id;
    EXPECT_FALSE(wl_multicast_had(other, fifo_.get(), 1, slot)) << id;
    EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 0, slot)) << "of another CPU";
    EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 9, slot)) << "one with the same lowest bits";
  }
  for (wl_u64 id = 70; id < 70 + WL_UDP_FIFO_LEN; ++id) push_multicast(id);
  for (wl_u32 slot = 0; slot < WL_UDP_FIFO_LEN; ++slot) {
    EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 1, slot)) << "all of them came later";
  }
}

TEST_F(UdpFifo, MulticastPacketsOfSeveralCpusAreToldApart) {
  wl_multicast had[WL_MULTICAST_CPUS] = {};
  auto second = std::make_unique<wl_udp_fifo>();
  for (wl_u64 id = 0; id < 10; ++id) {
    push_multicast(id);
    wl_udp_fifo_push(second.get(), skb_of(100 + id), skb_of(100 + id) + 64);
  }
  wl_multicast_take(had, fifo_.get(), 0, 3);
  wl_multicast_take(had, second.get(), 1, 8);
  EXPECT_EQ(wl_multicast_after(had, fifo_.get(), 0), 4u);
  EXPECT_EQ(wl_multicast_after(had, second.get(), 1), 9u);
  EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 0, 4));
  EXPECT_TRUE(wl_multicast_had(had, second.get(), 1, 4));
  wl_multicast_take(had, second.get(), 8, 2);
  EXPECT_EQ(wl_multicast_after(had, fifo_.get(), 0), fifo_->tail)
      << "CPU 8 has taken the place of CPU 0";
}

// The counter of packets goes round.
TEST_F(UdpFifo, WhatASocketHasHadSurvivesTheWrapOfTheIndex) {
  wl_multicast had[WL_MULTICAST_CPUS] = {};
  fifo_->head = fifo_->tail = 0xfffffffe;
  for (wl_u64 id = 0; id < 6; ++id) push_multicast(id);
  wl_multicast_take(had, fifo_.get(), 0, 1);  // index 1, the fourth
  EXPECT_EQ(wl_multicast_after(had, fifo_.get(), 0), 2u);
  for (const wl_u32 slot : {62u, 63u, 0u, 1u}) {
    EXPECT_TRUE(wl_multicast_had(had, fifo_.get(), 0, slot)) << slot;
  }
  for (const wl_u32 slot : {2u, 3u}) {
    EXPECT_FALSE(wl_multicast_had(had, fifo_.get(), 0, slot)) << slot;
  }
}

TEST_F(UdpFifo, PlacesHoldCpuAndSlot) {
  for (const wl_u32 cpu : {0u, 1u, 255u, 4095u}) {
    for (const wl_u32 slot : {0u, 63u}) {
      const wl_u32 place = wl_place_make(cpu, slot);
      EXPECT_NE(place, 0u);
      EXPECT_EQ(wl_place_cpu(place), cpu);
      EXPECT_EQ(wl_place_slot(place), slot);
    }
  }
  std::vector<bool> used(WL_PLACES);
  int different = 0;
  for (wl_u64 n = 0; n < 1'000; ++n) {
    const wl_u32 place = wl_place_of(0xffff888012340000 + n * 1'024);
    ASSERT_LT(place, static_cast<wl_u32>(WL_PLACES));
    different += !used[place];
    used[place] = true;
  }
  EXPECT_GT(different, 800) << "buffers of one kind must not share a few places";
}

// What the sockets of a group know of who had the packet before them.
TEST_F(UdpFifo, FanOutCountsSocketsInAndOutsideTheTarget) {
  const wl_udp_key key{kNet, 9000, 0, 0};
  wl_fanout out{};
  push_multicast(1);
  wl_udp_fifo_foreign(fifo_.get(), &key, 1'000);
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 0), 1'700, &out);
  EXPECT_EQ(out.rank, 2);
  EXPECT_EQ(out.ns, 700u);
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 0), 2'000, &out);
  EXPECT_EQ(out.rank, 3);
  EXPECT_EQ(out.ns, 1'000u);
  // The next packet, after the first was delivered: the count begins anew.
  push_multicast(2);
  wl_udp_fifo_foreign(fifo_.get(), &key, 5'000);
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 1), 5'100, &out);
  EXPECT_EQ(out.rank, 2);
}

TEST_F(UdpFifo, FanOutOfABatchIsUnknownWhereOthersListenToo) {
  const wl_udp_key key{kNet, 9000, 0, 0};
  wl_fanout out{};
  push_multicast(1);
  push_multicast(2);
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 0), 1'000, &out);
  EXPECT_EQ(out.rank, 1) << "the target's own sockets are known";
  wl_udp_fifo_foreign(fifo_.get(), &key, 1'100);  // of which of the two?
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 0), 1'200, &out);
  EXPECT_EQ(out.rank, 0);
  wl_udp_fifo_fan_out(wl_udp_fifo_at(fifo_.get(), 1), 1'300, &out);
  EXPECT_EQ(out.rank, 0);
}

TEST_F(UdpFifo, EverySocketGetsEachMulticastPacketOnceAndInOrder) {
  struct Member {
    wl_u32 after;
    std::vector<wl_u64> got;
  };
  std::vector<Member> members(3, Member{fifo_->tail, {}});
  const auto copy_to = [&](Member& member) {
    const wl_udp_key key{kNet, 9000, 0, member.after};
    const wl_s64 index = wl_udp_fifo_find(fifo_.get(), &key);
    ASSERT_GE(index, 0);
    member.got.push_back(wl_udp_fifo_at(fifo_.get(), static_cast<wl_u32>(index))->arrival.id);
    member.after = static_cast<wl_u32>(index) + 1;
  };
  // A batch passes the hook before the first packet is handed to the group's sockets.
  push_multicast(1);
  push(50, 9001);
  push_multicast(2);
  push_multicast(3);
  EXPECT_EQ(deliver(9001), 50u);
  for (int packet = 0; packet < 3; ++packet) {
    for (Member& member : members) copy_to(member);
  }
  for (const Member& member : members) {
    EXPECT_EQ(member.got, (std::vector<wl_u64>{1, 2, 3}));
    const wl_udp_key key{kNet, 9000, 0, member.after};
    EXPECT_EQ(wl_udp_fifo_find(fifo_.get(), &key), -1);
  }
  EXPECT_EQ(wl_udp_fifo_clear(fifo_.get()), 0u);
}

TEST_F(UdpFifo, IndexesMayWrapAroundTheirType) {
  fifo_->head = fifo_->tail = 0xfffffff0;
  for (wl_u64 id = 1; id <= 40; ++id) push(id);
  EXPECT_LT(fifo_->head, 40u);
  EXPECT_TRUE(drop(20));
  for (wl_u64 id = 1; id <= 40; ++id) {
    if (id == 20) continue;
    EXPECT_EQ(deliver(), id);
  }
  for (wl_u64 id = 1; id <= 40; ++id) push_multicast(id);
  EXPECT_EQ(deliver(), 1u);
}

TEST_F(UdpFifo, RandomOperationsAgreeWithAList) {
  struct Entry {
    wl_u64 id;
    wl_u16 port;
    bool live;
  };
  std::deque<Entry> model;     // the last WL_UDP_FIFO_LEN pushed since the last clear
  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp)
  wl_u64 next_id = 0;
  for (int step = 0; step < 100'000; ++step) {
    const wl_u16 port = static_cast<wl_u16>(9000 + random() % 3);
    const auto kind = random() % 100;
    if (kind < 50) {
      push(++next_id, port);
      model.push_back({next_id, port, true});
      if (model.size() > WL_UDP_FIFO_LEN) model.pop_front();
    } else if (kind < 85) {
      wl_u64 expected = 0;
      for (Entry& entry : model) {
        if (!entry.live || entry.port != port) continue;
        expected = entry.id;
        entry.live = false;
        break;
      }
      ASSERT_EQ(deliver(port), expected);
    } else if (kind < 98 && !model.empty()) {
      Entry& entry = model[random() % model.size()];
      ASSERT_EQ(drop(entry.id), entry.live);
      entry.live = false;
    } else if (kind == 99 && random() % 10 == 0) {
      model.clear();
      wl_udp_fifo_clear(fifo_.get());
    }
  }
}

class TcpFifo : public testing::Test {
 protected:
  void push(wl_u64 id, wl_u32 seq, wl_u32 len = 100, wl_u16 sport = 40000, wl_u16 dport = 6379,
            wl_u64 net = kNet) {
    wl_packet* packet = wl_tcp_fifo_push(fifo_.get());
    packet->net = net;
    packet->seq = seq;
    packet->end_seq = seq + len;
    packet->sport = sport;
    packet->dport = dport;
    packet->arrival.id = id;
  }
  wl_s64 index_of(wl_u32 seq, wl_u16 peer = 40000, wl_u16 port = 6379, wl_u64 net = kNet) const {
    wl_tcp_key key{};
    key.net = net;
    key.seq = seq;
    key.local_port = port;
    key.peer_port = peer;
    return wl_tcp_fifo_find(fifo_.get(), &key);
  }
  wl_u64 find(wl_u32 seq, wl_u16 peer = 40000, wl_u16 port = 6379, wl_u64 net = kNet) {
    const wl_s64 index = index_of(seq, peer, port, net);
    return index < 0 ? 0 : wl_tcp_fifo_at(fifo_.get(), static_cast<wl_u32>(index))->arrival.id;
  }

  std::unique_ptr<wl_tcp_fifo> fifo_ = std::make_unique<wl_tcp_fifo>();
};

TEST_F(TcpFifo, FindsASegmentByItsSequenceAndConnection) {
  EXPECT_EQ(find(0), 0u) << "an empty entry is no packet";
  push(1, 1000);
  push(2, 1100);
  push(3, 1000, 100, 40001);
  push(4, 1000, 100, 40000, 6379, kOtherNet);
  EXPECT_EQ(find(1000), 1u);
  EXPECT_EQ(find(1100), 2u);
  EXPECT_EQ(find(1000, 40001), 3u);
  EXPECT_EQ(find(1000, 40000, 6379, kOtherNet), 4u);
  EXPECT_EQ(find(1050), 0u);
  EXPECT_EQ(find(1200), 0u);
  EXPECT_EQ(find(1000, 40000, 6380), 0u);
  EXPECT_EQ(find(1000), 1u) << "an entry is not used up";
  EXPECT_EQ(wl_tcp_fifo_find(nullptr, nullptr), -1);
}

// Merged in the backlog: the parts are found one after the other, each with its own arrival.
TEST_F(TcpFifo, ThePartsOfAMergedSegmentFollowEachOther) {
  push(1, 0xffffff80, 0x40);
  push(7, 500);
  push(2, 0xffffffc0, 0x80);
  push(3, 0x40, 0x20);
  std::vector<wl_u64> ids;
  wl_u32 seq = 0xffffff80;
  while (seq != 0x60) {
    const wl_s64 index = index_of(seq);
    ASSERT_GE(index, 0) << std::hex << seq;
    const wl_packet& packet = *wl_tcp_fifo_at(fifo_.get(), static_cast<wl_u32>(index));
    ids.push_back(packet.arrival.id);
    seq = packet.end_seq;
  }
  EXPECT_EQ(ids, (std::vector<wl_u64>{1, 2, 3}));
}

TEST_F(TcpFifo, AnAcknowledgementWithoutPayloadIsNotTheSegment) {
  push(1, 1000);
  push(2, 1000, 0);
  EXPECT_EQ(find(1000), 1u);
}

TEST_F(TcpFifo, ARetransmissionIsFoundBeforeTheFirstCopy) {
  push(1, 1000);
  push(2, 1000);
  EXPECT_EQ(find(1000), 2u);
}

TEST_F(TcpFifo, OnlyTheNewestEntriesAreLookedAt) {
  for (wl_u32 n = 0; n < 3 * WL_TCP_FIFO_LEN; ++n) push(n + 1, 1000 + n * 100);
  const wl_u32 newest = 3 * WL_TCP_FIFO_LEN - 1;
  EXPECT_EQ(find(1000 + newest * 100), newest + 1);
  const wl_u32 oldest_seen = newest - (WL_TCP_FIFO_WALK - 1);
  EXPECT_EQ(find(1000 + oldest_seen * 100), oldest_seen + 1);
  EXPECT_EQ(find(900 + oldest_seen * 100), 0u);
}

}  // namespace
}  // namespace whylate
