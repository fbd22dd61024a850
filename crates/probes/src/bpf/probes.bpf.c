// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF object of the probes: one file per observed thing, in any order, all sharing the calls in progress and one
 * ring buffer (state.h). User space loads only the programs that its plan names.
 */
#include "block.bpf.c"
#include "calls.bpf.c"
#include "cpus.bpf.c"
#include "filesystems.bpf.c"
#include "journal.bpf.c"
#include "memory.bpf.c"
#include "processes.bpf.c"
#include "sched.bpf.c"
#include "sockets.bpf.c"
#include "stops.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
