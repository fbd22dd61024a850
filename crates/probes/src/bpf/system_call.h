/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a system call's arguments and result are got at, in two ways; what is done with them is in the tables of
 * file_call.h and the like. User space loads one way or the other.
 *
 * FUNCTION_CALL hooks the call's own function (fentry, fexit): only threads that make that call pay, whoever's
 * they are, and what is not the target's returns after comparing the process id.
 *
 * TRACED_CALL hooks the call's classic tracepoint, for kernels that allow nothing else. Any system-call
 * tracepoint puts all threads of the host on the entry path that traces (SYSCALL_WORK_SYSCALL_TRACEPOINT,
 * kernel/tracepoint.c), which then tests one bit per call (kernel/trace/trace_syscalls.c). The generic
 * sys_enter/sys_exit tracepoints would run a BPF program on top for every system call of every process.
 */

/* In a table: the call's n-th argument. */
#define A(n) (args[n])

#define TRACED_CALL(name, begins)                                                                            \
	SEC("tracepoint/syscalls/sys_enter_" #name)                                                          \
	int name##_enter(struct syscall_enter *ctx)                                                          \
	{                                                                                                    \
		const __u64 *args = ctx->args;                                                               \
                                                                                                             \
		return is_target(current_ids()) ? begins : 0;                                                \
	}

/* In the order of the call's parameters (arch/x86/entry/calling.h, arch/arm64/kernel/syscall.c). */
#if defined(__TARGET_ARCH_arm64)
#define SYSTEM_CALL "__arm64_sys_"
#define ARGUMENTS_OF(from) from->regs[0], from->regs[1], from->regs[2], from->regs[3], from->regs[4]
#else
#define SYSTEM_CALL "__x64_sys_"
#define ARGUMENTS_OF(from) from->di, from->si, from->dx, from->r10, from->r8
#endif

#define FUNCTION_CALL(name, begins)                                                                          \
	SEC("fentry/" SYSTEM_CALL #name)                                                                     \
	int BPF_PROG(name##_called, const struct pt_regs *registers)                                         \
	{                                                                                                    \
		if (!is_target(current_ids()))                                                               \
			return 0;                                                                            \
		const __u64 args[] = { ARGUMENTS_OF(registers) };                                            \
		return begins;                                                                               \
	}                                                                                                    \
	SEC("fexit/" SYSTEM_CALL #name)                                                                      \
	int BPF_PROG(name##_returned, const struct pt_regs *registers, long result)                          \
	{                                                                                                    \
		return is_target(current_ids()) ? end_call(result) : 0;                                      \
	}
