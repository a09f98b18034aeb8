// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A reply that leaves while its request is being parked: in every order of the two sides' steps one
// of them ends the request, and only one.
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace {

void step();

}  // namespace

#define WL_PARK_STEP() step()
#include "logic/park.h"

namespace whylate {
namespace {

enum Side : unsigned { kMover = 0, kDriver = 1 };

constexpr unsigned kSteps = 11;  // more than both sides have

/// Lets two threads go on one step at a time, in a given order.
class Turns {
 public:
  /// Bit i of `order`: whose the i-th turn is.
  explicit Turns(unsigned order) : order_(order) {}

  void wait(Side side) {
    std::unique_lock<std::mutex> lock(mutex_);
    turn_.wait(lock, [&] { return done_[1 - side] || at_ >= kSteps || side == next(); });
  }
  void pass() {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++at_;
    turn_.notify_all();
  }
  void end(Side side) {
    const std::lock_guard<std::mutex> guard(mutex_);
    done_[side] = true;
    turn_.notify_all();
  }

 private:
  unsigned next() const { return order_ >> at_ & 1; }

  unsigned order_;
  unsigned at_ = 0;
  bool done_[2] = {false, false};
  std::mutex mutex_;
  std::condition_variable turn_;
};

thread_local Turns* turns = nullptr;
thread_local Side self = kMover;

/// What the two sides share: the request, its thread's note, and what can be found by the driver's
/// side.
struct World {
  wl_u32 active = WL_OPEN_YES;
  wl_u64 left = 0;
  wl_parked_ref ref{};  ///< UDP
  wl_u32 waiting = 0;
  wl_u32 head = 5;  ///< TCP
  wl_u32 tail = 5;
  int ended = 0;
  int lost = 0;  ///< counted as such: found open, and moved away before it could be ended
};

/// The steps of wl_park() and wl_tcp_park(); `show` makes the copy known and tells whether to end
/// it.
void move_away(World& world, const std::function<bool(wl_u32)>& show) {
  world.left = 0;
  step();
  const wl_u32 state = wl_park_begin(&world.active);
  if (state == WL_OPEN_NO) return;
  step();
  if (show(state)) ++world.ended;
  step();
  world.active = WL_OPEN_NO;
}

/// Those of wl_transmit(): `take` looks among the parked requests.
void leave(World& world, wl_u64 what, const std::function<bool()>& take) {
  if (take()) {
    ++world.ended;
    return;
  }
  if (world.active == WL_OPEN_MOVING) {
    step();
    wl_park_note(&world.left, what);
    step();
    if (take()) ++world.ended;
  } else if (world.active == WL_OPEN_YES) {
    step();
    const bool mine = __sync_bool_compare_and_swap(&world.active, static_cast<wl_u32>(WL_OPEN_YES),
                                                   static_cast<wl_u32>(WL_OPEN_NO));
    ++(mine ? world.ended : world.lost);
  }
}

void run_in_order(unsigned order, const std::function<void()>& mover,
                  const std::function<void()>& driver) {
  Turns both(order);
  const auto run = [&both](Side side, const std::function<void()>& body) {
    turns = &both;
    self = side;
    both.wait(side);
    body();
    both.end(side);
  };
  std::thread other([&] { run(kDriver, driver); });
  run(kMover, mover);
  other.join();
  turns = nullptr;
}

constexpr wl_u64 kSocket = 0xffff800000001000;
constexpr wl_u64 kPacket = 0xffff800000002000;

TEST(Park, ADatagramsReplyEndsItsRequestOnceInEveryOrder) {
  for (unsigned order = 0; order < 1U << kSteps; ++order) {
    World world;
    const auto show = [&](wl_u32 state) {
      world.ref.skb = kPacket;
      return wl_udp_park_show(&world.ref, state, &world.waiting, &world.left) != 0;
    };
    const auto take = [&] {
      if (world.waiting == 0 || world.ref.state != WL_OPEN_YES || world.ref.skb != kPacket ||
          !wl_udp_park_take(&world.ref))
        return false;
      --world.waiting;
      return true;
    };
    run_in_order(
        order, [&] { move_away(world, show); }, [&] { leave(world, kPacket, take); });
    ASSERT_EQ(world.ended + world.lost, 1) << "order " << order;
    ASSERT_EQ(world.waiting, static_cast<wl_u32>(world.lost)) << "order " << order;
    ASSERT_EQ(world.active, static_cast<wl_u32>(WL_OPEN_NO)) << "order " << order;
  }
}

TEST(Park, AConnectionsReplyEndsItsRequestOnceInEveryOrder) {
  for (unsigned order = 0; order < 1U << kSteps; ++order) {
    World world;
    const auto show = [&](wl_u32) {
      return wl_tcp_park_show(&world.head, &world.tail, &world.left, kSocket) != 0;
    };
    const auto take = [&] {
      return world.head != world.tail && wl_tcp_park_take(&world.tail, world.tail);
    };
    run_in_order(
        order, [&] { move_away(world, show); }, [&] { leave(world, kSocket, take); });
    ASSERT_EQ(world.ended + world.lost, 1) << "order " << order;
    ASSERT_EQ(world.head - world.tail, static_cast<wl_u32>(world.lost)) << "order " << order;
    ASSERT_EQ(world.active, static_cast<wl_u32>(WL_OPEN_NO)) << "order " << order;
  }
}

TEST(Park, OneThatAwaitsItsDatagramIsNotTheDriversToEnd) {
  World world;
  world.left = kPacket;
  EXPECT_FALSE(wl_udp_park_show(&world.ref, WL_OPEN_ENDED, &world.waiting, &world.left));
  EXPECT_FALSE(wl_udp_park_take(&world.ref));
  EXPECT_EQ(world.waiting, 0U);
  EXPECT_EQ(world.ref.state, static_cast<wl_u32>(WL_OPEN_ENDED));
}

TEST(Park, AnEarlierNoteOfAnotherConnectionIsNone) {
  World world;
  world.left = kSocket + 64;
  EXPECT_FALSE(wl_tcp_park_show(&world.head, &world.tail, &world.left, kSocket));
  EXPECT_EQ(world.head - world.tail, 1U);
}

TEST(Park, WhatHasEndedIsNotMoved) {
  wl_u32 active = WL_OPEN_NO;
  EXPECT_EQ(wl_park_begin(&active), static_cast<wl_u32>(WL_OPEN_NO));
  active = WL_OPEN_ENDED;
  EXPECT_EQ(wl_park_begin(&active), static_cast<wl_u32>(WL_OPEN_ENDED));
  EXPECT_EQ(active, static_cast<wl_u32>(WL_OPEN_MOVING));
}

}  // namespace
}  // namespace whylate

namespace {

void step() {
  using namespace whylate;
  if (turns == nullptr) return;
  turns->pass();
  turns->wait(self);
}

}  // namespace
