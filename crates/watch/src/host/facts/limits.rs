//! What a process may have. Does not count what it has.

use model::{Known, Limits, Pid};

use super::{Kernel, read};

const OPEN_FILES: &str = "Max open files";

/// `/proc/PID/limits`: a name of 25 characters, the soft limit, the hard one, a unit (fs/proc/base.c).
pub(super) fn of(kernel: &Kernel, pid: Pid) -> Known<Limits> {
    let text = read(&kernel.of_process(pid, "limits"))?;
    let rest = text.lines().find_map(|line| line.strip_prefix(OPEN_FILES));
    let soft = rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    if soft == "unlimited" {
        return Ok(Limits { open_files: None });
    }
    let open_files = soft.parse().map_err(|_| "/proc/PID/limits has no number of open files")?;
    Ok(Limits { open_files: Some(open_files) })
}

#[cfg(test)]
mod tests {
    use model::Limits;

    use super::of;
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn soft_limits_are_read() {
        let fixture = Fixture::new("limits");
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             unlimited            unlimited            processes \n\
                    Max open files            1024                 524288               files     \n";
        fixture.file("proc/7/limits", text);
        fixture.file("proc/8/limits", "Max open files            many\n");
        assert_eq!(of(&fixture.kernel(), 7), Ok(Limits { open_files: Some(1_024) }));
        fixture.file(
            "proc/10/limits",
            "Max open files            unlimited            unlimited            files\n",
        );
        assert_eq!(of(&fixture.kernel(), 10), Ok(Limits { open_files: None }));
        assert!(of(&fixture.kernel(), 8).unwrap_err().contains("open files"));
        assert!(of(&fixture.kernel(), 9).unwrap_err().contains("No such file"));
    }
}
