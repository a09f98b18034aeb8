// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Kernel style, unlike the C++ beside it. */
/* clang-format off */
/*
 * The responder's XDP program: what is meant for its address and port goes to the AF_XDP socket of the queue, everything else,
 * and what finds no socket there, to the kernel.
 */
#include "vmlinux.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ECHO_ETH_P_IP 0x0800
#define ECHO_ETH_P_ARP 0x0806
#define ECHO_ETH_P_IPV6 0x86dd
#define ECHO_IPPROTO_UDP 17
#define ECHO_FRAGMENT 0x3fff /* offset, and "more fragments" */
#define ECHO_QUEUES 64

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, ECHO_QUEUES);
	__type(key, u32);
	__type(value, u32);
} echo_sockets SEC(".maps");

const volatile bool cfg_ipv6 = false;
const volatile bool cfg_any_address = false;
const volatile bool cfg_arp = false;
const volatile __u32 cfg_address[4] = {}; /* network order; IPv4: the first alone */
const volatile __u16 cfg_port = 0;      /* network order */

struct echo_arp {
	struct arphdr header;
	u8 sender_mac[6];
	u8 sender_ip[4];
	u8 target_mac[6];
	u8 target_ip[4];
} __attribute__((packed));

static __always_inline bool echo_same4(u32 address)
{
	return cfg_any_address || address == cfg_address[0];
}

static __always_inline bool echo_same6(const struct in6_addr *address)
{
	if (cfg_any_address)
		return true;
	for (int i = 0; i < 4; i++)
		if (address->in6_u.u6_addr32[i] != cfg_address[i])
			return false;
	return true;
}

SEC("xdp")
int echo_redirect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (cfg_arp && eth->h_proto == bpf_htons(ECHO_ETH_P_ARP)) {
		struct echo_arp *arp = (void *)(eth + 1);
		u32 asked;

		if ((void *)(arp + 1) > end)
			return XDP_PASS;
		__builtin_memcpy(&asked, arp->target_ip, sizeof(asked));
		if (asked != cfg_address[0])
			return XDP_PASS;
		goto redirect;
	}
	if (!cfg_ipv6 && eth->h_proto == bpf_htons(ECHO_ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);
		u32 words;

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		words = ip->ihl;
		if (ip->protocol != ECHO_IPPROTO_UDP || ip->frag_off & bpf_htons(ECHO_FRAGMENT) || words < 5 ||
		    !echo_same4(ip->daddr))
			return XDP_PASS;
		udp = (void *)ip + words * 4;
	} else if (cfg_ipv6 && eth->h_proto == bpf_htons(ECHO_ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		if (ip->nexthdr != ECHO_IPPROTO_UDP || !echo_same6(&ip->daddr))
			return XDP_PASS;
		udp = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	if ((void *)(udp + 1) > end || udp->dest != cfg_port)
		return XDP_PASS;
redirect:
	return bpf_redirect_map(&echo_sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
