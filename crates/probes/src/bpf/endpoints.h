/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Both ends of a TCP connection. Knows no program. */
#ifndef BROKERSCOPE_ENDPOINTS_H
#define BROKERSCOPE_ENDPOINTS_H

#include "kernel.h"

/* In network byte order; IPv4 addresses are mapped into IPv6 ones. */
struct endpoints {
	/* the target's end */
	__u32 local[4];
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
};

/* inet_sport: skc_num is 0 once the connection is down (__inet_put_port, net/ipv4/inet_hashtables.c). */
static __always_inline __u16 local_port_of(struct sock *sock)
{
	struct inet_sock *inet = TYPED(struct inet_sock, sock);

	return DIRECT(inet, inet_sport);
}

/* Converts an IPv4 address to an IPv6 one (RFC 4291, 2.5.5.2). */
static __always_inline void map_address(__u32 *to, __be32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = address;
}

static __always_inline void read_addresses(__u32 *local, __u32 *remote, struct sock *sock)
{
	if (bpf_core_field_exists(sock->__sk_common.skc_v6_daddr) &&
	    DIRECT(sock, __sk_common.skc_family) == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			local[i] = DIRECT(sock, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i]);
			remote[i] = DIRECT(sock, __sk_common.skc_v6_daddr.in6_u.u6_addr32[i]);
		}
		return;
	}
	map_address(local, DIRECT(sock, __sk_common.skc_rcv_saddr));
	map_address(remote, DIRECT(sock, __sk_common.skc_daddr));
}

#endif
