//! Whether a process has `io_uring` rings: what it reads and writes through them is no system call, and not seen.
//! Does not look into them.

use std::fs;

use model::Pid;

/// How many rings a process has open; none where its descriptors cannot be read.
pub fn rings(pid: Pid) -> Option<usize> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    // The name that the kernel gives them (io_uring_create, io_uring/io_uring.c).
    Some(links.filter(|link| link.as_os_str() == "anon_inode:[io_uring]").count())
}

/// What to say of a process that has some.
pub fn warning(pid: Pid) -> Option<String> {
    let count = rings(pid).filter(|count| *count > 0)?;
    let rings = if count == 1 { "1 ring".to_owned() } else { format!("{count} rings") };
    Some(format!("the broker uses io_uring ({rings}): reads and writes through them are not traced"))
}

#[cfg(test)]
mod tests {
    use super::{rings, warning};

    #[test]
    fn a_process_without_rings_is_not_warned_of() {
        let own = std::process::id();
        assert_eq!((rings(own), warning(own)), (Some(0), None));
        assert_eq!(rings(u32::MAX), None, "what does not run");
    }
}
