//! Conditions on stacks: within a system call, with its variants, or within a function. Knows no system call numbers.

use model::StackTime;

use crate::selection::Pattern;

/// System calls that are equivalent for a user, by the one that names the family.
const FAMILIES: [(&str, &[&str]); 4] = [
    ("write", &["write", "pwrite64", "writev", "pwritev", "pwritev2"]),
    ("read", &["read", "pread64", "readv", "preadv", "preadv2"]),
    ("fsync", &["fsync", "fdatasync", "msync", "sync_file_range"]),
    ("sendfile", &["sendfile", "sendfile64", "splice"]),
];

/// Prefixes of the kernel's functions at the entry of a system call. See `include/linux/syscalls.h`, the
/// architectures' `syscall_wrapper.h`, `fs/read_write.c` and `fs/sync.c`. The compiler decides which of them are on a
/// stack.
const ENTRIES: [&str; 7] = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_", "ksys_", "do_", "vfs_"];

/// A condition on stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// One of these system calls.
    Call(&'static str, &'static [&'static str]),
    /// A function.
    Function(Pattern),
}

impl From<&str> for Inside {
    fn from(text: &str) -> Self {
        match FAMILIES.iter().find(|(name, _)| *name == text) {
            Some(&(name, calls)) => Self::Call(name, calls),
            None => Self::Function(text.into()),
        }
    }
}

impl Inside {
    /// Whether one of a stack's frames matches.
    pub(super) fn matches(&self, stack: &str) -> bool {
        stack.split(';').any(|frame| match (self, frame.strip_suffix(StackTime::KERNEL)) {
            (Self::Call(_, calls), Some(function)) => ENTRIES
                .iter()
                .filter_map(|entry| function.strip_prefix(entry))
                .any(|call| calls.contains(&call)),
            (Self::Call(..), None) => false,
            (Self::Function(name), kernel) => {
                let function = kernel.or_else(|| frame.strip_suffix(StackTime::COMPILED)).unwrap_or(frame);
                name.is(function)
            }
        })
    }
}

impl std::fmt::Display for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(name, _) => f.write_str(name),
            Self::Function(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Inside;

    fn inside(what: &str, stack: &str) -> bool {
        Inside::from(what).matches(stack)
    }

    #[test]
    fn matches_system_calls_by_kernel_entry_functions() {
        for stack in [
            "main;write;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];ksys_write_[k];vfs_write_[k]",
            "__x64_sys_pwritev2_[k]",
            "do_writev_[k]",
        ] {
            assert!(inside("write", stack) && !inside("read", stack) && !inside("fsync", stack), "{stack}");
        }
        assert!(inside("fsync", "do_fsync_[k];ext4_sync_file_[k]"));
        assert!(inside("fsync", "__arm64_sys_msync_[k]"));
        assert!(!inside("write", "main;write;vfs_write"), "a process may call its functions so");
        assert!(!inside("write", "ext4_da_write_begin_[k];do_write_unlock_[k]"));
        assert!(!inside("write", ""));
    }

    #[test]
    fn matches_functions_by_whole_name_or_prefix() {
        let stack = "t;kafka.log.UnifiedLog.append_[j];vfs_write_[k];ext4_dirty_inode_[k]";
        for (what, holds) in [
            ("ext4_dirty_inode", true),
            ("ext4_dirty", false),
            ("ext4_*", true),
            ("kafka.log.UnifiedLog.append", true),
            ("jbd2_*", false),
            ("vfs_write_[k]", false),
        ] {
            assert_eq!(inside(what, stack), holds, "{what}");
            assert_eq!(Inside::from(what).to_string(), what);
        }
    }
}
