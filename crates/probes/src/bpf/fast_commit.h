/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ext4's fast commits: an fsync that writes a few blocks beside the journal instead of a whole transaction.
 * They run in the thread that asked, of whichever process. A call that finds no fast commit possible falls back
 * to a jbd2 commit and waits for it before it returns (ext4_fc_commit, fs/ext4/fast_commit.c).
 */

SEC("tracepoint/ext4/ext4_fc_commit_start")
int fc_commit_start(void *ctx)
{
	__u32 device = 0;

	READ_FIELD(device, ctx, settings.at.fc_commit_start.dev);
	return span_enter(SPAN_EXT4_FC_COMMIT, device);
}

SEC("tracepoint/ext4/ext4_fc_commit_stop")
int fc_commit_stop(void *ctx)
{
	return span_exit(SPAN_EXT4_FC_COMMIT, SPAN_BY_TRACEPOINTS);
}
