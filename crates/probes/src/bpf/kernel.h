/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of the kernel that these programs use: numbers (UAPI ones come from the C library's headers), and the few
 * fields of kernel structures that they read, relocated to the running kernel by CO-RE. Uses no vmlinux.h. Knows no
 * program.
 */
#ifndef BROKERSCOPE_KERNEL_H
#define BROKERSCOPE_KERNEL_H

#include <linux/bpf.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

/* include/linux/socket.h, include/linux/net.h, include/uapi/linux/in.h */
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6

/* include/uapi/linux/magic.h */
#define OVERLAYFS_SUPER_MAGIC 0x794c7630

#define TASK_COMM_LEN 16

/* include/linux/sched.h: states and flags of a task */
#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define __TASK_STOPPED 0x4
#define __TASK_TRACED 0x8
#define TASK_WAKEKILL 0x100
#define TASK_NOLOAD 0x400
#define TASK_FROZEN 0x8000
#define PF_IDLE 0x2
#define PF_KTHREAD 0x200000

/* include/linux/kdev_t.h: the kernel's own dev_t, as in super_block.s_dev and in every tracepoint */
#define MINOR_BITS 20
#define MAJOR(dev) ((dev) >> MINOR_BITS)
#define MINOR(dev) ((dev) & ((1u << MINOR_BITS) - 1))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct qstr {
	const unsigned char *name;
};

struct file_system_type {
	const char *name;
};

/* an int before 6.6 */
struct sb_writers {
	unsigned short frozen;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	struct file_system_type *s_type;
	struct sb_writers s_writers;
};

struct inode {
	__u16 i_mode;
	unsigned long i_ino;
	__u32 i_generation;
	long long i_size;
	struct super_block *i_sb;
};

struct xfs_inode {
	struct inode i_vnode;
};

struct dentry {
	struct dentry *d_parent;
	/* in an anonymous union since 6.16; CO-RE searches those */
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	void *private_data;
	struct inode *f_inode;
	unsigned int f_flags;
	long long f_pos;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct fs_struct {
	struct path pwd;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct pid_namespace;
struct seq_file;

/* include/linux/bpf.h: the contexts of iterators */
struct bpf_iter_meta {
	struct seq_file *seq;
};

/* the task is missing in the last call */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* the id of a process or thread in one pid namespace */
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	/* levels below the root namespace */
	unsigned int level;
	/* from the root namespace to the innermost */
	struct upid numbers[];
};

/* empty without CONFIG_SCHED_INFO */
struct sched_info {
	/* how often it got a CPU, and how long it waited for one in all */
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

struct rq {
	__u64 clock;
};

/* its rq exists only with CONFIG_FAIR_GROUP_SCHED */
struct cfs_rq {
	struct rq *rq;
};

/* Indexed by enum cpu_usage_stat, below. */
struct kernel_cpustat {
	__u64 cpustat[8];
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* with CONFIG_TASK_XACCT */
struct task_io_accounting {
	/* the thread's reading and writing calls, counted as each returns (inc_syscw, include/linux/sched/xacct.h) */
	__u64 syscr;
	__u64 syscw;
};

struct signal_struct {
	int nr_threads;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	unsigned in_iowait : 1;
	/* with CONFIG_CGROUPS */
	unsigned frozen : 1;
	/* how often it gave the CPU up, and how often it was preempted */
	unsigned long nvcsw;
	unsigned long nivcsw;
	int pid;
	int tgid;
	struct task_struct *parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct pid *thread_pid;
	struct fs_struct *fs;
	struct files_struct *files;
	struct sched_info sched_info;
	struct sched_entity se;
	struct task_io_accounting ioac;
	char comm[TASK_COMM_LEN];
};

/* The system calls' numbers and arguments: arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h */
struct pt_regs {
#if defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__s32 syscallno;
#else
	unsigned long r10, r9, r8, dx, si, di, orig_ax, ip;
#endif
};

/*
 * The call's number and its first arguments in it. The number is -1 for interrupts and faults
 * (arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S).
 */
#if defined(__TARGET_ARCH_arm64)
#define CALL_NUMBER syscallno
#define FIRST_ARGUMENT regs[0]
#define SECOND_ARGUMENT regs[1]
#define THIRD_ARGUMENT regs[2]
#else
#define CALL_NUMBER orig_ax
#define FIRST_ARGUMENT di
#define SECOND_ARGUMENT si
#define THIRD_ARGUMENT dx
#endif

/* arch/arm64/include/uapi/asm/ptrace.h: bpf_tracing.h reads an arm64's program counter from it */
struct user_pt_regs {
	__u64 pc;
};

struct task_struct___before_5_14 {
	long state;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
};

struct iov_iter {
	unsigned long count;
};

struct block_device {
	__u32 bd_dev;
};

/* jbd2's journal_t */
struct journal_s {
	struct block_device *j_fs_dev;
};

struct xfs_mount {
	struct super_block *m_super;
};

struct btrfs_fs_info {
	struct super_block *sb;
};

struct btrfs_trans_handle {
	struct btrfs_fs_info *fs_info;
};

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

/* ports and addresses are in anonymous unions; the IPv6 ones exist only with CONFIG_IPV6 */
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

/* A struct tcp_sock begins with its struct inet_sock, and that with its struct sock. */
struct inet_sock {
	__be16 inet_sport;
};

struct tcp_options_received {
	__u16 wscale_ok : 1;
};

struct tcp_sock {
	__u64 bytes_received;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 write_seq;
	__u32 snd_wnd;
	/* smoothed round-trip time, in eighths of a microsecond */
	__u32 srtt_us;
	__u32 chrono_stat[3];
	struct tcp_options_received rx_opt;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	/* since 5.15 */
	struct gendisk *disk;
};

struct page {
	unsigned long compound_head;
	struct address_space *mapping;
};

struct page___since_7_1 {
	unsigned long compound_info;
};

struct folio {
	struct address_space *mapping;
};

struct address_space {
	struct inode *host;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_idx;
};

struct bio {
	struct bvec_iter bi_iter;
	void *bi_private;
	struct bio_vec *bi_io_vec;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
};

/* before 5.17 */
struct request___with_disk {
	struct gendisk *rq_disk;
};

#pragma clang attribute pop

/* include/linux/kernel_stat.h: categories of a CPU's time, in nanoseconds; unchanged since 2.6 */
enum cpu_usage_stat {
	CPUTIME_USER = 0,
	CPUTIME_NICE,
	CPUTIME_SYSTEM,
	CPUTIME_SOFTIRQ,
	CPUTIME_IRQ,
	CPUTIME_IDLE,
	CPUTIME_IOWAIT,
	CPUTIME_STEAL,
	CPU_TIMES,
};

/* include/linux/blk_types.h: the operations' numbers are stable, the flags' bits move and are relocated */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1

enum req_flag_bits {
	__REQ_SYNC,
	__REQ_META,
	__REQ_FUA,
	__REQ_PREFLUSH,
	__REQ_RAHEAD,
};

/* User space's struct iovec; its layout is ABI. */
struct iovec {
	const void *iov_base;
	unsigned long iov_len;
};

/* include/trace/syscall.h as BPF programs see it: the first word is the kernel's. */
struct syscall_enter {
	__u64 reserved;
	__u64 nr;
	__u64 args[6];
};

struct syscall_exit {
	__u64 reserved;
	__u64 nr;
	__s64 ret;
};

/* Makes bpf_tracing.h use the kernel's names for registers, as above. */
#define __VMLINUX_H__

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

/* Declares a map with that many entries, of BPF_MAP_TYPE_##kind. */
#define BPF_MAP(name, kind, key_type, value_type, entries)                                                   \
	struct {                                                                                             \
		__uint(type, BPF_MAP_TYPE_##kind);                                                           \
		__uint(max_entries, entries);                                                                \
		__type(key, key_type);                                                                       \
		__type(value, value_type);                                                                   \
	} name SEC(".maps")

/* A task's state: what it sleeps for, 0 if it is runnable. The field was renamed in 5.14. */
static __always_inline __u32 state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(old->state))
		return old->state;
	return task->__state;
}

/*
 * Whether cgroup version 2's freezer has a task: do_freezer_trap, kernel/signal.c. A thread that waits for a child of
 * vfork is marked so too, but sleeps killably (wait_for_vfork_done, kernel/fork.c).
 */
static __always_inline bool is_in_freezer_trap(struct task_struct *task, __u32 state)
{
	return state & TASK_INTERRUPTIBLE && bpf_core_field_exists(task->frozen) &&
	       BPF_CORE_READ_BITFIELD(task, frozen);
}

/*
 * Reads kernel structures by plain loads if the kernel can (Linux 6.2: bpf_rdonly_cast), which cost a fraction of a
 * helper call per field; otherwise by helpers. The verifier drops the branch that does not apply. Either way a bad
 * address reads as zero.
 */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

/* Types a kernel address, for DIRECT. */
#define TYPED(type, address)                                                                                 \
	((type *)(bpf_ksym_exists(bpf_rdonly_cast)                                                           \
			  ? bpf_rdonly_cast((void *)(address), bpf_core_type_id_kernel(type))                \
			  : (void *)(address)))

/* Reads one field through a pointer from TYPED, or through a pointer read that way. */
#define DIRECT(from, field) (bpf_ksym_exists(bpf_rdonly_cast) ? (from)->field : BPF_CORE_READ(from, field))

/* Reads the pointer at such an address, for example a list's head. */
static __always_inline void *pointer_at(const void *address)
{
	struct list_head *pointer = TYPED(struct list_head, address);

	return DIRECT(pointer, next);
}

#endif
