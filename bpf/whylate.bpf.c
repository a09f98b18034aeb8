// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The one translation unit of the kernel side. Data flows from top to bottom of the probe list. */
#include <vmlinux.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "record.h"
#include "histogram.h"
#include "logic/arrival.h"
#include "logic/cpu.h"
#include "logic/blame.h"
#include "logic/thread.h"
#include "logic/packet_fifo.h"
#include "logic/udp_queue.h"
#include "logic/tcp_queue.h"
#include "logic/tcp_hold.h"
#include "logic/park.h"
#include "stages.h"

#include "config.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "target.bpf.h"
#include "blame.bpf.h"
#include "aggregate.bpf.h"
#include "emit.bpf.h"

#include "probes/idle.bpf.h"
#include "probes/irq.bpf.h"
#include "probes/softirq.bpf.h"
#include "probes/receive.bpf.h"
#include "probes/batch.bpf.h"
#include "probes/ready.bpf.h"
#include "probes/request.bpf.h"
#include "probes/read.bpf.h"
#include "probes/read_old.bpf.h"
#include "probes/sched.bpf.h"
#include "probes/syscall.bpf.h"
#include "probes/reply.bpf.h"
#include "probes/parked.bpf.h"
#include "probes/reply_batch.bpf.h"
#include "probes/transmit.bpf.h"
#include "probes/send.bpf.h"
#include "probes/adopt.bpf.h"
#include "probes/calibrate.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
