/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records the target's writes to regular files, one record each, from what the file systems report about the pages they
 * filled. btrfs reports nothing of the kind.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_APPENDS_H
#define BROKERSCOPE_ALWAYS_ON_APPENDS_H

#include "always_on_state.h"

/*
 * A later piece does not continue an append: user space relies on a record's number being at most this much older than
 * its end.
 */
#define MAX_PIECES_NS 10000000

/* Whether this is the next piece of the thread's last append. Without the call count, a piece must begin at a page. */
static __always_inline bool continues(struct thread *thread, __u32 tid, __u64 inode, __u64 position,
				      __u16 call, __u64 now)
{
	if (thread->append_tid != tid || thread->append_end != position || thread->append_inode != inode)
		return false;
	if (thread->append_call != call || now - thread->append_ns >= MAX_PIECES_NS)
		return false;
	return call || !(position & 4095);
}

/* Returns false if another record has its slot by now. */
static __always_inline bool extend_append(struct thread *thread, __u64 length, __u64 now)
{
	struct append_record *append = bpf_map_lookup_elem(&records, &thread->append_slot);

	if (!append || append->stamp != thread->append_stamp)
		return false;
	set_stamp(&append->stamp, 0);
	append->last_ns = now;
	append->length += length;
	set_stamp(&append->stamp, thread->append_stamp);
	thread->append_end += length;
	return true;
}

static __always_inline void add_append(struct inode *inode, __u64 position, __u64 length, bool at_entry)
{
	struct task_struct *task = current_task();
	__u32 slot = 0, tid = task->pid;
	struct thread *thread = thread_slot(tid);
	__u64 number = 0, now = bpf_ktime_get_ns(), call = write_call_of(task), ino = DIRECT(inode, i_ino);
	struct super_block *super = DIRECT(inode, i_sb);
	struct append_record *append;

	if (!thread)
		return;
	if (!at_entry && continues(thread, tid, ino, position, call, now) &&
	    extend_append(thread, length, now))
		return;
	append = begin_record(now, &slot, &number);
	if (!append)
		return;
	append->kind = RECORD_APPEND;
	append->at_entry = at_entry;
	append->write_call = call;
	append->tid = visible_tid_of(task);
	append->first_ns = now;
	append->last_ns = now;
	append->inode = ino;
	append->device = DIRECT(super, s_dev);
	append->generation = DIRECT(inode, i_generation);
	append->position = position;
	append->length = length;
	set_stamp(&append->stamp, number + 1);
	thread->append_tid = tid;
	thread->append_slot = slot;
	thread->append_stamp = number + 1;
	thread->append_call = call;
	thread->append_inode = ino;
	thread->append_end = position + length;
	thread->append_ns = now;
}

static __always_inline int end_piece(struct inode *found, __u64 position, __u32 copied)
{
	struct inode *inode = TYPED(struct inode, found);

	if (is_target() && found && copied && (DIRECT(inode, i_mode) & S_IFMT) == S_IFREG)
		add_append(inode, position, copied, false);
	return 0;
}

/* Delayed allocation, the default. */
SEC("tp_btf/ext4_da_write_end")
int BPF_PROG(always_on_ext4_da, struct inode *inode, long long position, unsigned int length,
	     unsigned int copied)
{
	return end_piece(inode, position, copied);
}

/* Without delayed allocation: nodelalloc, or little free space. */
SEC("tp_btf/ext4_write_end")
int BPF_PROG(always_on_ext4, struct inode *inode, long long position, unsigned int length,
	     unsigned int copied)
{
	return end_piece(inode, position, copied);
}

/*
 * Fires before the first page is filled: fewer bytes may be written in the end. O_APPEND has already set the position.
 */
SEC("tp_btf/xfs_file_buffered_write")
int BPF_PROG(always_on_xfs, struct kiocb *call, struct iov_iter *bytes)
{
	struct inode *inode;
	struct kiocb *io;

	if (!is_target() || !call || !bytes)
		return 0;
	io = TYPED(struct kiocb, call);
	inode = TYPED(struct inode, BPF_CORE_READ(io, ki_filp, f_inode));
	if ((DIRECT(inode, i_mode) & S_IFMT) == S_IFREG)
		add_append(inode, DIRECT(io, ki_pos), BPF_CORE_READ(bytes, count), true);
	return 0;
}

#endif
