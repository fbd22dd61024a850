//! How many arguments tracepoints of the running kernel pass, from its BTF. Their meaning is not in it.

use libbpf_rs::btf::types::FuncProto;
use libbpf_rs::btf::{Btf, BtfType};

/// The arguments of a tracepoint of the kernel itself; none where it has no BTF or no such tracepoint. The kernel
/// declares `typedef void (*btf_trace_NAME)(void *, …)` for each (`include/trace/bpf_probe.h`).
pub(super) fn arguments(tracepoint: &str) -> Option<usize> {
    let kernel = Btf::from_vmlinux().ok()?;
    let pointer = kernel.type_by_name::<BtfType<'_>>(&format!("btf_trace_{tracepoint}"))?.next_type()?;
    let function = FuncProto::try_from(pointer.next_type()?).ok()?;
    function.iter().count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn what_is_no_tracepoint_has_no_arguments() {
        assert_eq!(arguments("of_nobody"), None);
    }
}
