// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF object: one file per thing observed, all sharing the calls under way and one ring buffer.
 * User space loads only the programs that its plan names.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

#include "events.h"
#include "read.h"
#include "state.h"
#include "process_ids.h"
#include "system_call.h"

#include "tcp.h"
#include "socket.h"
#include "file_path.h"
#include "file_op.h"
#include "file_name.h"
#include "file_call.h"
#include "socket_call.h"
#include "kernel_threads.h"
#include "file_map.h"
#include "page_cache.h"
#include "process_tree.h"
#include "mmap_fault.h"
#include "off_cpu.h"
#include "journal.h"
#include "block_queue.h"
#include "block_io.h"
#include "block_sector.h"
#include "dirty_throttle.h"
#include "reclaim.h"
#include "span.h"
#include "fast_commit.h"
#include "xfs.h"
#include "btrfs.h"
#include "span_functions.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
