//! Detects `io_uring` rings of a process: reads and writes through them are not system calls, and so not observed. Does not read
//! the rings.

use std::fs;

use model::Pid;

/// Number of rings that a process has open; `None` if its descriptors cannot be read.
pub fn rings(pid: Pid) -> Option<usize> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    // The kernel's name for them (io_uring_create, io_uring/io_uring.c).
    Some(links.filter(|link| link.as_os_str() == "anon_inode:[io_uring]").count())
}

/// A warning if a process has rings.
pub fn warning(pid: Pid) -> Option<String> {
    let count = rings(pid).filter(|count| *count > 0)?;
    let rings = if count == 1 { "1 ring".to_owned() } else { format!("{count} rings") };
    Some(format!("the broker uses io_uring ({rings}): reads and writes through them are not traced"))
}

#[cfg(test)]
mod tests {
    use super::{rings, warning};

    #[test]
    fn process_without_rings_has_no_warning() {
        let own = std::process::id();
        assert_eq!((rings(own), warning(own)), (Some(0), None));
        assert_eq!(rings(u32::MAX), None, "what does not run");
    }
}
