/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * btrfs: commits of transactions, of all processes. The only tracepoint of a commit fires at its end, so this
 * reports ends; user space finds the beginning in what the thread waited for inside. fentry sees both ends:
 * span_functions.h.
 */

SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_transaction_commit, struct btrfs_fs_info *fs)
{
	struct kernel_span_event event = { .kind = EVENT_KERNEL_SPAN };

	/* Linux 6.12 takes no argument of a module's tracepoint for granted */
	if (!fs || settings.exact_commits)
		return 0;
	event.tid = shown_current();
	event.end_ns = bpf_ktime_get_ns();
	event.device = BPF_CORE_READ(fs, sb, s_dev);
	event.function = SPAN_BTRFS_COMMIT_TRANSACTION;
	event.source = SPAN_END_ONLY;
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	emit(&event, sizeof(event));
	return 0;
}
