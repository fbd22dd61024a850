/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads of kernel structures by plain loads where the kernel has the means (Linux 6.2: bpf_rdonly_cast), which take a
 * fraction of a helper's call for each field. Elsewhere by helpers; the verifier drops what does not apply.
 * Either way a bad address reads as zero.
 */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

/* What is at an address of the kernel: for DIRECT. */
#define TYPED(type, address)                                                                                 \
	((type *)(bpf_ksym_exists(bpf_rdonly_cast) ? bpf_rdonly_cast(address, bpf_core_type_id_kernel(type)) \
						   : (void *)(address)))

/* One field of what TYPED gave, or of what such a field points to. */
#define DIRECT(from, field) (bpf_ksym_exists(bpf_rdonly_cast) ? (from)->field : BPF_CORE_READ(from, field))

/* The pointer that is at such an address: what a list's head begins with is one. */
static __always_inline void *pointer_at(const void *address)
{
	struct list_head *pointer = TYPED(struct list_head, address);

	return DIRECT(pointer, next);
}
