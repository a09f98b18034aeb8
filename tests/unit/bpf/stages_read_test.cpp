// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include "stages_model.h"

namespace whylate {
namespace {

class ReadStages : public testing::Test {
 protected:
  void split(wl_u64 queued_ns, wl_u64 recv_ns, wl_u64 read_begin_ns = 0) {
    stages_ = {};
    wl_stages_read(&model_.thread, handed_over_ ? &other_.thread : nullptr, queued_ns, recv_ns,
                   read_begin_ns, stages_.data(), &split_);
    EXPECT_EQ(stages_.sum(), recv_ns - queued_ns);
  }
  wl_wait& wake(wl_u64 start_ns, wl_u64 in_ns) {
    return model_.add_wait(WL_WAIT_WAKE, start_ns, in_ns);
  }
  wl_wait& preempted(wl_u64 start_ns, wl_u64 in_ns) {
    return model_.add_wait(WL_WAIT_PREEMPTED, start_ns, in_ns);
  }

  test::ThreadModel model_;
  test::ThreadModel other_;  ///< woken by the packet, where handed_over_
  bool handed_over_ = false;
  test::Stages stages_;
  wl_read_split split_{};
};

TEST_F(ReadStages, ABusyReaderIsSocketQueue) {
  split(1'000, 5'000);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 4'000u);
  EXPECT_EQ(split_.nr_waits, 0u);
  EXPECT_EQ(split_.idle_state, -1);
  EXPECT_EQ(split_.run_cpu, WL_NO_CPU);
}

TEST_F(ReadStages, WithTheBeginOfTheReadItsOwnTimeIsRecv) {
  split(1'000, 5'000, 4'600);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 3'600u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 400u);
  split(1'000, 5'000, 200);  // the read was entered before the datagram came
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 4'000u);
  split(1'000, 5'000, 6'000);  // an entry after the read is none of it
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 4'000u);
}

TEST_F(ReadStages, WokenByThisPacketOnAnIdleCpu) {
  model_.thread.cpu = 3;
  wl_wait& wait = wake(1'010, 1'300);
  wait.wakeup_ns = 1'200;
  wait.idle_end_ns = 1'300;
  wait.idle_state = 2;
  split(1'000, 1'350);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 10u);
  EXPECT_EQ(stages_[WL_STAGE_IDLE_EXIT], 290u);
  EXPECT_EQ(stages_[WL_STAGE_WAKEUP], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u);
  EXPECT_EQ(split_.idle_state, 2);
  EXPECT_EQ(split_.run_cpu, 3);
  EXPECT_EQ(split_.nr_waits, 0u);
}

TEST_F(ReadStages, AnotherTaskAfterIdleIsRunQueue) {
  wl_wait& wait = wake(1'010, 1'500);
  wait.wakeup_ns = 1'200;
  wait.idle_end_ns = 1'250;
  wait.idle_state = 1;
  split(1'000, 1'550);
  EXPECT_EQ(stages_[WL_STAGE_IDLE_EXIT], 240u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 250u);
  ASSERT_EQ(split_.nr_waits, 1u);
  EXPECT_EQ(split_.waits[0].from, 1'250u);
  EXPECT_EQ(split_.waits[0].to, 1'500u);
}

TEST_F(ReadStages, WokenByThisPacketOnABusyCpu) {
  wl_wait& wait = wake(1'010, 1'500);
  wait.wakeup_ns = 1'030;
  split(1'000, 1'550);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 10u);
  EXPECT_EQ(stages_[WL_STAGE_WAKEUP], 20u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 470u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u);
  ASSERT_EQ(split_.nr_waits, 1u);
  EXPECT_EQ(split_.waits[0].from, 1'030u);
  EXPECT_EQ(split_.waits[0].to, 1'500u);
  EXPECT_EQ(split_.waits[0].stage, static_cast<wl_u32>(WL_STAGE_RUN_QUEUE));
  EXPECT_EQ(split_.waits[0].wait, 0u) << "the slot of the wait";
}

TEST_F(ReadStages, TheWaitOfAThreadThatHandsThePacketOverIsTheRequests) {
  handed_over_ = true;
  wl_wait& first = other_.add_wait(WL_WAIT_WAKE, 1'010, 1'500);
  first.wakeup_ns = 1'030;
  first.parts[0].cpu = 2;
  wl_wait& second = wake(1'600, 1'900);
  second.wakeup_ns = 1'620;
  model_.thread.cpu = 2;
  split(1'000, 1'950);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 110u) << "before the wake, and while that thread ran";
  EXPECT_EQ(stages_[WL_STAGE_WAKEUP], 40u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 470u + 280u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u);
  ASSERT_EQ(split_.nr_waits, 2u);
  EXPECT_EQ(split_.waits[0].wait, static_cast<wl_u32>(WL_WAIT_OF_OTHER)) << "slot 0 of the other";
  EXPECT_EQ(split_.waits[0].from, 1'030u);
  EXPECT_EQ(split_.waits[0].to, 1'500u);
  EXPECT_EQ(split_.waits[1].wait, 0u);
  EXPECT_EQ(split_.run_cpu, 2);
  first.parts[0].cpu = 1;
  split(1'000, 1'950);
  EXPECT_EQ(split_.run_cpu, WL_NO_CPU) << "two CPUs: neither is named";
}

TEST_F(ReadStages, OnlyWhatIsOverAndLiesBeforeTheReadersWakeIsTaken) {
  handed_over_ = true;
  other_.add_wait(WL_WAIT_WAKE, 500, 900);           // an earlier packet
  other_.add_wait(WL_WAIT_WAKE, 950, 1'200);         // it was waiting already
  other_.add_wait(WL_WAIT_PREEMPTED, 1'550, 1'700);  // after it had woken the reader
  other_.add_wait(WL_WAIT_WAKE, 1'800, 0);           // waits now
  wake(1'600, 1'650);
  split(1'000, 1'700);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 200u + 50u);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 400u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u);
}

TEST_F(ReadStages, AHandOverBelongsToTheReadersLastWake) {
  handed_over_ = true;
  other_.add_wait(WL_WAIT_WAKE, 1'400, 1'500);
  wake(1'100, 1'200);
  wake(1'600, 1'700);
  preempted(1'710, 1'720);
  split(1'000, 1'800);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 100u + 100u + 100u + 10u);
  ASSERT_EQ(split_.nr_waits, 4u);
  EXPECT_EQ(split_.waits[1].wait, static_cast<wl_u32>(WL_WAIT_OF_OTHER));
}

// Several packets lay on the socket: the later ones waited through all of it, too.
TEST_F(ReadStages, AWorkerOfIoUringIsHandedEverythingByTheSameThread) {
  handed_over_ = true;
  model_.thread.io_worker = 1;
  other_.add_wait(WL_WAIT_WAKE, 1'010, 1'090);
  other_.add_wait(WL_WAIT_WAKE, 1'400, 1'500);
  wake(1'100, 1'200);
  wake(1'600, 1'700);
  split(1'000, 1'800);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 80u + 100u + 100u + 100u);
  ASSERT_EQ(split_.nr_waits, 4u);
  EXPECT_EQ(split_.waits[0].wait, static_cast<wl_u32>(WL_WAIT_OF_OTHER));
  EXPECT_EQ(split_.waits[1].wait, 0u);
}

TEST_F(ReadStages, WithoutRoomToNameWhoHadTheCpuAHandOverStaysSocketQueue) {
  handed_over_ = true;
  other_.add_wait(WL_WAIT_WAKE, 1'400, 1'500);
  wake(1'100, 1'200);
  preempted(1'210, 1'220);
  wake(1'600, 1'700);
  preempted(1'710, 1'720);
  split(1'000, 1'800);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 100u + 10u + 100u + 10u);
  EXPECT_EQ(split_.nr_waits, 4u);
}

TEST_F(ReadStages, PreemptedWhenThePacketCameWaitsFromThenOn) {
  preempted(400, 1'500);
  split(1'000, 1'700);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 500u);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 200u) << "busy again with what it was preempted in";
  ASSERT_EQ(split_.nr_waits, 1u);
  EXPECT_EQ(split_.waits[0].from, 1'000u);
}

TEST_F(ReadStages, AlreadyWokenBySomethingElseWhenThePacketCame) {
  wl_wait& wait = wake(400, 1'500);
  wait.wakeup_ns = 420;
  split(1'000, 1'600);
  EXPECT_EQ(stages_[WL_STAGE_WAKEUP], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 500u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 100u);
}

TEST_F(ReadStages, APacketDuringTheIdleExitHasTheRestOfIt) {
  wl_wait& wait = wake(900, 1'300);
  wait.wakeup_ns = 1'200;
  wait.idle_end_ns = 1'300;
  wait.idle_state = 1;
  split(1'000, 1'310);
  EXPECT_EQ(stages_[WL_STAGE_IDLE_EXIT], 300u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 10u);
}

TEST_F(ReadStages, BusyWithAnEarlierRequestAfterTheWake) {
  wake(1'010, 1'100);
  model_.thread.activity_ns = 4'000;  // a reply sent after that wake
  split(1'000, 5'000);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 90u);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 10u + 2'900u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 1'000u);
}

TEST_F(ReadStages, AWaitThatWasOverBeforeThePacketCameIsNotItsWait) {
  wake(100, 900);
  split(1'000, 1'500);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 500u);
  EXPECT_EQ(split_.nr_waits, 0u);
}

TEST_F(ReadStages, TheQuotaPartComesFirst) {
  wl_wait& wait = preempted(400, 2'000);
  wait.throttled_ns = 1'100;  // until 1'500
  wait.quota_spell = 1;
  split(1'000, 2'100);
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 500u) << "only what lies after the arrival";
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 500u);
  EXPECT_EQ(split_.throttled_ns, 500u);
  EXPECT_EQ(split_.quota_spell, 1);
  ASSERT_EQ(split_.nr_waits, 1u);
  EXPECT_EQ(split_.waits[0].from, 1'500u);
}

TEST_F(ReadStages, QuotaThatWasOverBeforeThePacketCameIsNotItsQuota) {
  wl_wait& wait = preempted(400, 2'000);
  wait.throttled_ns = 300;
  split(1'000, 2'100);
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 1'000u);
}

TEST_F(ReadStages, AWaitThatIsAllQuotaHasNobodyToBlame) {
  wl_wait& wait = wake(1'000, 2'000);
  wait.throttled_ns = 5'000;
  split(1'000, 2'100);
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 1'000u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 0u);
  EXPECT_EQ(split_.nr_waits, 0u);
}

TEST_F(ReadStages, PreemptedOnItsWayToTheData) {
  wake(1'010, 1'100);
  preempted(1'150, 1'400);
  split(1'000, 1'450);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 10u);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 90u + 250u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u + 50u);
  ASSERT_EQ(split_.nr_waits, 2u);
  EXPECT_EQ(split_.waits[0].wait, 0u);
  EXPECT_EQ(split_.waits[1].wait, 1u);
  EXPECT_EQ(split_.waits[1].from, 1'150u);
}

TEST_F(ReadStages, PreemptedThenAsleepThenWoken) {
  preempted(900, 1'200);
  wake(1'800, 1'900);
  split(1'000, 1'950);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 200u + 100u);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 600u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 50u);
  EXPECT_EQ(split_.nr_waits, 2u);
}

TEST_F(ReadStages, BusyAndPreemptedSeveralTimes) {
  for (wl_u64 n = 0; n < 4; ++n) preempted(1'100 + n * 500, 1'200 + n * 500);
  split(1'000, 4'000);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], 400u);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 2'600u);
  EXPECT_EQ(split_.nr_waits, 4u);
}

TEST_F(ReadStages, MoreWaitsThanAreLookedAtStillAddUp) {
  for (wl_u64 n = 0; n < 20; ++n) preempted(1'100 + n * 100, 1'150 + n * 100);
  split(1'000, 4'000);
  EXPECT_EQ(stages_[WL_STAGE_RUN_QUEUE], WL_READ_WAITS * 50u);
  EXPECT_EQ(split_.nr_waits, static_cast<wl_u32>(WL_READ_WAITS));
}

TEST_F(ReadStages, AWaitThatHasNotEndedOrEndedAfterTheReadIsLeftOut) {
  wake(1'010, 9'000);
  split(1'000, 2'000);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 1'000u);
  wake(1'020, 0);
  split(1'000, 2'000);
  EXPECT_EQ(stages_[WL_STAGE_SOCKET_QUEUE], 1'000u);
  EXPECT_EQ(split_.nr_waits, 0u);
}

TEST_F(ReadStages, ReadAtOnceHasNoStage) {
  wake(1'010, 1'100);
  split(2'000, 2'000);
  EXPECT_EQ(stages_.sum(), 0u);
}

}  // namespace
}  // namespace whylate
