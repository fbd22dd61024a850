/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files behind the current thread's descriptors. */
#ifndef BROKERSCOPE_OPEN_FILE_H
#define BROKERSCOPE_OPEN_FILE_H

#include "kernel.h"

/* NULL if no open file has that number. With a racing close, reads fail or are of another file: harmless. */
static __always_inline struct file *open_file(__u32 fd)
{
	struct task_struct *task = TYPED(struct task_struct, bpf_get_current_task());
	struct files_struct *open = DIRECT(task, files);
	struct fdtable *table = DIRECT(open, fdt);
	struct file **files = DIRECT(table, fd);
	struct file *file = NULL;

	if (fd < DIRECT(table, max_fds))
		file = pointer_at(files + fd);
	return TYPED(struct file, file);
}

#endif
