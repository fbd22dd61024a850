/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between process_list.bpf.c and user space. The Rust side gets these types from the generated skeleton;
 * `process_ids.rs` asserts the same size.
 */
#ifndef BROKERSCOPE_PROCESS_LIST_H
#define BROKERSCOPE_PROCESS_LIST_H

/* Set once before loading. */
struct process_list_settings {
	/* how many pid namespaces lie between the reader's and the one whose numbers its /proc shows, which is above */
	__u32 below;
};

/* A process, by both its numbers. */
struct process_ids {
	/* the namespace, by where the kernel keeps it */
	__u64 pid_namespace;
	/* how far it is below the root one; there both numbers are one */
	__u32 level;
	__u32 root;
	__u32 shown;
	__u32 reserved;
};

/* Never read: it makes the type part of the object's BTF. */
struct process_list_records {
	struct process_ids process_ids;
};

_Static_assert(sizeof(struct process_ids) == 24, "process_ids");

#endif
