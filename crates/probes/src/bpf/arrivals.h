/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between arrivals.bpf.c and user space. The Rust side gets these types from the generated skeleton.
 *
 * All times are CLOCK_MONOTONIC in nanoseconds. Every padding byte is named.
 */
#ifndef BROKERSCOPE_ARRIVALS_H
#define BROKERSCOPE_ARRIVALS_H

#include "endpoints.h"

/* Listeners of a broker. */
#define MAX_PORTS 16
/* Arrivals kept per connection. */
#define MAX_ARRIVALS 8

#pragma clang diagnostic push
#pragma clang diagnostic error "-Wpadded"

/* Received data: all bytes before a sequence number were there at that time. */
struct arrival {
	__u64 ns;
	__u32 end;
	__u32 reserved;
};

/* A read of a connection, and when what it read had arrived. */
struct read_event {
	/* when the bytes had been read */
	__u64 end_ns;
	struct endpoints ends;
	/* sequence number of the first byte */
	__u32 sequence;
	__u32 bytes;
	/* valid arrivals; only these are sent */
	__u32 count;
	struct arrival arrivals[MAX_ARRIVALS];
};

/* Written by user space while the programs run. */
struct arrivals_control {
	/* the listeners' ports, in host order; the first 0 ends them */
	__u64 ports[MAX_PORTS];
};

#pragma clang diagnostic pop

_Static_assert(sizeof(struct read_event) == 56 + 16 * MAX_ARRIVALS, "no padding");

/* Never read: it puts these types into the object's BTF, from which the skeleton takes them. */
struct arrivals_records {
	struct read_event read;
	struct arrivals_control control;
};

#endif
