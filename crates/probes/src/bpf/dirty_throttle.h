/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pauses that the kernel imposes on the target's threads because too many pages are dirty. */

SEC("tracepoint/writeback/balance_dirty_pages")
int balance_dirty_pages(void *ctx)
{
	struct dirty_throttle_event event = { .kind = EVENT_DIRTY_THROTTLE };
	__u64 id = current_ids();
	__s64 pause_ms = 0;

	if (!is_target(id))
		return 0;
	/* zero or less: looked at and let go (mm/page-writeback.c) */
	READ_FIELD(pause_ms, ctx, settings.at.dirty.pause);
	if (pause_ms <= 0)
		return 0;
	event.tid = shown_current();
	event.start_ns = bpf_ktime_get_ns();
	event.pause_ms = pause_ms;
	READ_FIELD(event.dirty_pages, ctx, settings.at.dirty.dirty);
	READ_FIELD(event.limit_pages, ctx, settings.at.dirty.limit);
	READ_FIELD(event.setpoint_pages, ctx, settings.at.dirty.setpoint);
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	emit(&event, sizeof(event));
	return 0;
}
