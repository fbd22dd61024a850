/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process's or thread's number in a pid namespace. Does not say which namespace is meant. */
#ifndef BROKERSCOPE_PID_NUMBER_H
#define BROKERSCOPE_PID_NUMBER_H

/* That of the namespace so far below the root one; none where the pid is above it. The numbers are an array. */
static __always_inline struct upid number_at(struct pid *pid, __u32 level)
{
	struct upid id = {};
	__u64 at;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return id;
	at = (__u64)pid + bpf_core_field_offset(struct pid, numbers) +
	     level * bpf_core_type_size(struct upid);
	bpf_probe_read_kernel(&id.nr, sizeof(id.nr), (void *)at + bpf_core_field_offset(struct upid, nr));
	bpf_probe_read_kernel(&id.ns, sizeof(id.ns), (void *)at + bpf_core_field_offset(struct upid, ns));
	return id;
}

#endif
