/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State shared by the handlers of always_on.bpf.c: settings, counters, and the arrays of records that overwrite the
 * oldest. Knows no hook.
 */
#ifndef BROKERSCOPE_ALWAYS_ON_STATE_H
#define BROKERSCOPE_ALWAYS_ON_STATE_H

#include "always_on.h"
#include "ordered.h"
#include "process_ids.h"

const volatile struct always_on_settings settings = {};
const volatile struct always_on_records record_types = {};

/* Indexed by enum always_on_count. */
__u64 counts[COUNTS];

struct always_on_control control;

static __always_inline void count(enum always_on_count slot)
{
	__sync_fetch_and_add(&counts[slot], 1);
}

/* An array that user space maps and sizes before loading. */
#define SHARED_ARRAY(name, value_type)                                                                       \
	struct {                                                                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                            \
		__uint(map_flags, BPF_F_MMAPABLE);                                                           \
		__uint(max_entries, 1);                                                                      \
		__type(key, __u32);                                                                          \
		__type(value, value_type);                                                                   \
	} name SEC(".maps")

/* 64 bytes each. */
struct record {
	__u64 words[8];
};

SHARED_ARRAY(records, struct record);
SHARED_ARRAY(record_parts, struct part);
SHARED_ARRAY(waits, struct wait_record);
SHARED_ARRAY(wait_parts, struct part);

/* The helper bpf_get_current_task_btf, declared const, as it is within a program: called once for all uses. */
static struct task_struct *(*const current_task)(void)__attribute__((const)) = (void *)158;

static __always_inline bool is_target(void)
{
	return (__u32)current_task()->tgid == settings.tgid;
}

/*
 * Readers on other CPUs rely on stamps: a record's stamp is 0 before any of its words changes, and is set after all
 * have.
 */
static __always_inline void set_stamp(__u64 *at, __u64 stamp)
{
	STORE_IN_ORDER(at, stamp);
}

/* Takes the next record's number. Handlers on one CPU may nest, so the counter is atomic. */
static __always_inline __u64 take_number(struct part *part, __u32 bits, __u64 now)
{
	__u64 number = __sync_fetch_and_add(&part->head, 1);
	__u32 block_bits = bits - MARK_BITS;
	struct mark *mark;

	if (number & ((1ULL << block_bits) - 1))
		return number;
	mark = &part->marks[(number >> block_bits) & (MARKS - 1)];
	set_stamp(&mark->stamp, 0);
	mark->ns = now;
	set_stamp(&mark->stamp, number + 1);
	return number;
}

/* Slot of the record with that number. */
static __always_inline __u32 slot_of(__u32 cpu, __u32 bits, __u64 number)
{
	return (cpu << bits) | (number & ((1ULL << bits) - 1));
}

/* Returns the slot of a new record, invalid until finish(); `slot` and `number` identify it. */
static __always_inline void *begin_record(__u64 now, __u32 *slot, __u64 *number)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct part *part = bpf_map_lookup_elem(&record_parts, &cpu);
	struct record *record;

	if (!part)
		return NULL;
	*number = take_number(part, settings.record_bits, now);
	*slot = slot_of(cpu, settings.record_bits, *number);
	record = bpf_map_lookup_elem(&records, slot);
	if (record)
		set_stamp(&record->words[0], 0);
	return record;
}

static __always_inline struct wait_record *begin_wait(__u64 now, __u64 *number)
{
	__u32 slot, cpu = bpf_get_smp_processor_id();
	struct part *part = bpf_map_lookup_elem(&wait_parts, &cpu);
	struct wait_record *wait;

	if (!part)
		return NULL;
	*number = take_number(part, settings.wait_bits, now);
	slot = slot_of(cpu, settings.wait_bits, *number);
	wait = bpf_map_lookup_elem(&waits, &slot);
	if (wait)
		set_stamp(&wait->stamp, 0);
	return wait;
}

/*
 * State of a thread, in the slot of its id's last bits, so that finding it takes no search. A thread occupies its slot
 * only while it waits, or between the pieces of a write.
 */
#define THREAD_SLOTS 4096

struct thread {
	/* when it left the CPU to wait; 0 while it does not wait */
	__u64 off_ns;
	__u32 off_tid;
	/* enum wait_place */
	__u16 off_place;

	/* its last append, which a piece of the same write continues */
	__u16 append_call;
	__u32 append_tid;
	__u32 append_slot;
	__u64 append_stamp;
	__u64 append_inode;
	__u64 append_end;
	__u64 append_ns;
};

BPF_MAP(threads, ARRAY, __u32, struct thread, THREAD_SLOTS);

static __always_inline struct thread *thread_slot(__u32 tid)
{
	__u32 slot = tid & (THREAD_SLOTS - 1);

	return bpf_map_lookup_elem(&threads, &slot);
}

/*
 * Number of the thread's current writing call, in 16 bits without 0: the kernel counts those that have returned.
 * Returns 0 if it does not count them.
 */
static __always_inline __u16 write_call_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct task_struct, ioac.syscw))
		return 0;
	return task->ioac.syscw % 0xffff + 1;
}

#endif
