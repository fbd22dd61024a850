/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stores and loads in the order of the program, as other CPUs see them. x86 keeps stores in order, and loads. On other
 * processors an atomic operation does it, which is a full barrier.
 */
#ifndef BROKERSCOPE_ORDERED_H
#define BROKERSCOPE_ORDERED_H

#include "kernel.h"

#if defined(__TARGET_ARCH_x86)
#define STORE_IN_ORDER(at, value)                                                                            \
	do {                                                                                                 \
		barrier();                                                                                   \
		*(volatile __typeof__(*(at)) *)(at) = (value);                                               \
		barrier();                                                                                   \
	} while (0)
#define LOAD_IN_ORDER(at)                                                                                    \
	({                                                                                                   \
		barrier();                                                                                   \
		__typeof__(*(at)) loaded = *(volatile __typeof__(*(at)) *)(at);                              \
		barrier();                                                                                   \
		loaded;                                                                                      \
	})
#else
#define STORE_IN_ORDER(at, value) ((void)__sync_lock_test_and_set(at, value))
#define LOAD_IN_ORDER(at) __sync_fetch_and_or(at, 0)
#endif

#endif
