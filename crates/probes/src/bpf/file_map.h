/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Syncs of mapped files. The file is found by the address, with a helper that Linux has since 5.17: a program
 * of its own, so that older kernels do without this one alone.
 */

struct mapping {
	struct op *op;
	__u64 address;
	bool found;
};

static long use_mapping(struct task_struct *task, struct vm_area_struct *area, struct mapping *mapping)
{
	struct file *file = BPF_CORE_READ(area, vm_file);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct op *op = mapping->op;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	op->offset = (BPF_CORE_READ(area, vm_pgoff) << settings.page_shift) + mapping->address -
		     BPF_CORE_READ(area, vm_start);
	op->dentry = BPF_CORE_READ(file, f_path.dentry);
	identify(&op->file, inode);
	mapping->found = true;
	return 0;
}

static __always_inline int begin_msync(__u64 address)
{
	struct mapping mapping = { .address = address };

	mapping.op = own_op(current_ids());
	if (!mapping.op)
		return 0;
	reset_op(mapping.op, OP_MSYNC);
	mapping.op->fd = -1;
	mapping.op->phase = PHASE_NONE;
	/* fails where another thread changes the mappings right now */
	if (bpf_find_vma(bpf_get_current_task_btf(), mapping.address, use_mapping, &mapping, 0))
		count_lost(LOST_MAPPING);
	if (!mapping.found)
		return 0;
	mapping.op->phase = PHASE_INSIDE;
	mapping.op->start_ns = bpf_ktime_get_ns();
	return 0;
}

TRACED_CALL(msync, begin_msync(A(0)))
FUNCTION_CALL(msync, begin_msync(A(0)))
