// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/tcp_hold.h"

#include <gtest/gtest.h>

namespace {

/// 500 bytes to send on an idle connection that nothing holds back.
wl_tcp_send_state idle() {
  wl_tcp_send_state state = {};
  state.snd_una = state.snd_nxt = state.snd_sml = 1000;
  state.write_seq = 1500;
  state.snd_wnd = 65535;
  state.snd_cwnd = 10;
  state.mss = 1448;
  return state;
}

/// The same with one small segment of 100 bytes on its way.
wl_tcp_send_state unacknowledged() {
  wl_tcp_send_state state = idle();
  state.snd_nxt = state.snd_sml = 1100;
  state.write_seq = 1200;
  state.packets_out = 1;
  return state;
}

TEST(TcpHold, NothingUnsentIsNothingHeld) {
  wl_tcp_send_state state = idle();
  state.snd_nxt = state.write_seq;
  state.snd_wnd = 0;  // whatever else there is
  state.throttled = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_NONE);
}

TEST(TcpHold, WithoutAReasonItIsTcpAndNothingElse) {
  const wl_tcp_send_state state = idle();
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
}

TEST(TcpHold, NagleOnlyForASmallSegmentBehindASmallOne) {
  wl_tcp_send_state state = unacknowledged();
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_NAGLE);
  state.nonagle = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP) << "TCP_NODELAY";
  state.nonagle = 0;
  state.snd_sml = 900;  // the small one is acknowledged, a full one is out (Minshall)
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
  state = unacknowledged();
  state.write_seq = state.snd_nxt + state.mss;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP) << "a full segment";
  state.write_seq--;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_NAGLE);
}

TEST(TcpHold, CorkAndMore) {
  wl_tcp_send_state state = idle();
  state.nonagle = 2;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_CORK);
  state.nonagle = 1;
  state.more = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_CORK);
  state.write_seq = state.snd_nxt + state.mss;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP) << "a full segment is not corked";
}

TEST(TcpHold, CongestionWindowCountsWhatIsInFlight) {
  wl_tcp_send_state state = idle();
  state.packets_out = 10;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_CWND);
  state.sacked_out = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
  state.retrans_out = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_CWND);
  state.lost_out = 200;  // more than is out: no wrap
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
}

TEST(TcpHold, ReceiveWindow) {
  wl_tcp_send_state state = idle();
  state.snd_wnd = 500;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP) << "it just fits";
  state.snd_wnd = 499;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_RWND);
  state.snd_wnd = 0;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_ZERO_WINDOW);
  state.snd_wnd = 1448;
  state.write_seq = state.snd_nxt + 100000;  // only the first segment counts
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
}

TEST(TcpHold, TheKernelsOrder) {
  wl_tcp_send_state state = unacknowledged();
  state.throttled = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_NAGLE);
  state.snd_wnd = 0;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_ZERO_WINDOW);
  state.packets_out = 10;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_CWND);
  state.paced = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_PACING);
  state = idle();
  state.throttled = 1;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TSQ);
}

TEST(TcpHold, SequenceNumbersWrap) {
  wl_tcp_send_state state = idle();
  state.snd_una = state.snd_nxt = state.snd_sml = 0xffffff00u;
  state.write_seq = 0x100;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_TCP);
  state.snd_wnd = 0x1ff;
  EXPECT_EQ(wl_tcp_hold(&state), WL_HOLD_RWND);
}

}  // namespace
