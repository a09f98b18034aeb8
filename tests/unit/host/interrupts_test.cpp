// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/interrupts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/host/temp_tree.h"

namespace whylate::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Interrupts, X86) {
  const InterruptNames names = parse_interrupts(
      "           CPU0       CPU1       \n"
      "  0:         36          0   IO-APIC   2-edge      timer\n"
      " 16:          0         12   IO-APIC  16-fasteoi   ehci_hcd:usb1, snd hda intel\n"
      " 31:          0        182 PCI-MSIX-0000:00:01.0   3-edge      virtio0-stats\n"
      " 45:          0          0  PCI-MSI 524288-edge    \n"
      "NMI:          0          0   Non-maskable interrupts\n"
      "LOC:      45756      47704   Local timer interrupts\n"
      "ERR:          0\n");
  EXPECT_THAT(names, ElementsAre(Pair(0, ElementsAre("timer")),
                                 Pair(16, ElementsAre("ehci_hcd:usb1", "snd hda intel")),
                                 Pair(31, ElementsAre("virtio0-stats")), Pair(45, IsEmpty())));
  EXPECT_EQ(interrupt_name(names, 16), "ehci_hcd:usb1, snd hda intel");
  EXPECT_EQ(interrupt_name(names, 45), "");
  EXPECT_EQ(interrupt_name(names, 99), "");
}

TEST(Interrupts, Arm64) {
  const InterruptNames names = parse_interrupts(
      "           CPU0       CPU1       CPU2       CPU3\n"
      "  2:          0          0          0          0     GICv3  27 Level     arch_timer\n"
      " 40:          5          0          0          0   ITS-MSI 16384 Edge      nvme0q0\n"
      " 41:          5          0          0          0     GICv3  36 Level-fasteoi eth0\n"
      "IPI0:       123        456        789          1       Rescheduling interrupts\n"
      "Err:          0\n");
  EXPECT_THAT(names, ElementsAre(Pair(2, ElementsAre("arch_timer")),
                                 Pair(40, ElementsAre("nvme0q0")), Pair(41, ElementsAre("eth0"))));
}

// Columns are the CPUs that are online, under their own numbers.
TEST(Interrupts, OneColumnAndOfflineHoles) {
  EXPECT_THAT(parse_interrupts("           CPU0\n 24:   7   IO-APIC   4-edge   ttyS0\n"),
              ElementsAre(Pair(24, ElementsAre("ttyS0"))));
  EXPECT_THAT(parse_interrupts("   CPU0   CPU3   CPU4\n 7:  1 2 3  XT-PIC  lpt\n"),
              ElementsAre(Pair(7, ElementsAre("lpt"))));
}

TEST(Interrupts, DamagedTextGivesNothingWrong) {
  EXPECT_THAT(parse_interrupts(""), IsEmpty());
  EXPECT_THAT(parse_interrupts("   CPU0   CPU1\n"), IsEmpty());
  EXPECT_THAT(parse_interrupts("   CPU0   CPU1\n 5:   1\n 99999999999: 1 2 x 1-edge y\n:\n6"),
              IsEmpty());
  EXPECT_FALSE(read_interrupts("/nonexistent").ok());
}

}  // namespace
}  // namespace whylate::host
