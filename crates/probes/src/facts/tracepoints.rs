//! The tracepoints of the running kernel: ids and fields from tracefs, argument counts from BTF.
//!
//! Does not know which are needed. Reads a mounted tracefs, else a private mount that no other process sees and that
//! ends with the survey: the host's mounts stay unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::btf::types::FuncProto;
use libbpf_rs::btf::{Btf, BtfType};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::registry;

/// One tracepoint of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The id for `perf_event_open`.
    pub id: u64,
    /// Its fields by name.
    pub fields: BTreeMap<String, Field>,
}

/// Where a field lies in a tracepoint's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the record's start.
    pub offset: u16,
    /// Bytes.
    pub size: u16,
}

impl Format {
    /// Parses a format file; `None` if it has no id.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(parse_field).collect();
        Some(Self { id, fields })
    }
}

/// Parses `field:char rwbs[10]; offset:34; size:10; signed:0;`, with tabs between the parts.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut offset = None;
    let mut size = None;
    for part in parts {
        if let Some(value) = part.strip_prefix("offset:") {
            offset = value.parse().ok();
        } else if let Some(value) = part.strip_prefix("size:") {
            size = value.parse().ok();
        }
    }
    let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
    Some((name.to_owned(), Field { offset: offset?, size: size? }))
}

const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// How tracefs was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracefs {
    /// Mounted at this path.
    Mounted(PathBuf),
    /// Not mounted where this process can read it; read through a private mount.
    Private,
    /// Not readable, and why.
    Missing(String),
}

/// Finds tracefs, and the declared tracepoints that exist.
pub(super) fn survey() -> (Tracefs, BTreeMap<String, Format>) {
    if let Some(place) =
        MOUNT_POINTS.into_iter().map(Path::new).find(|place| fs::read_dir(place.join("events")).is_ok())
    {
        return (Tracefs::Mounted(place.to_owned()), read_formats(place));
    }
    match mount_privately() {
        Ok(mount) => {
            let place = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
            (Tracefs::Private, read_formats(&place))
        }
        Err(error) => (
            Tracefs::Missing(format!(
                "not mounted where this user may read it, and a private mount failed: {error}"
            )),
            BTreeMap::new(),
        ),
    }
}

#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
fn read_formats(tracefs: &Path) -> BTreeMap<String, Format> {
    let formats = registry::tracepoint_names().filter_map(|name| {
        let text = fs::read_to_string(tracefs.join("events").join(name).join("format")).ok()?;
        Some((name.to_owned(), Format::parse(&text)?))
    });
    formats.collect()
}

/// Makes a detached mount (Linux 5.2). It is in no directory and ends with the file descriptor.
fn mount_privately() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Number of arguments of a tracepoint of the kernel itself; `None` without BTF or such a tracepoint.
///
/// The kernel declares `typedef void (*btf_trace_NAME)(void *, …)` for each (`include/trace/bpf_probe.h`).
pub(super) fn arguments(tracepoint: &str) -> Option<usize> {
    let kernel = Btf::from_vmlinux().ok()?;
    let pointer = kernel.type_by_name::<BtfType<'_>>(&format!("btf_trace_{tracepoint}"))?.next_type()?;
    let function = FuncProto::try_from(pointer.next_type()?).ok()?;
    function.iter().count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{Field, Format, arguments};

    const ISSUE: &str = "name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;

print fmt: \"%d,%d field:\", REC->dev
";

    #[test]
    fn parses_names_offsets_and_sizes_of_fields() {
        let format = Format::parse(ISSUE).unwrap();
        assert_eq!(format.id, 2104);
        assert_eq!(format.fields["dev"], Field { offset: 8, size: 4 });
        assert_eq!(format.fields["buf"], Field { offset: 24, size: 8 });
        assert_eq!(format.fields["rwbs"], Field { offset: 34, size: 10 });
        assert_eq!(format.fields["cmd"], Field { offset: 60, size: 4 });
        assert_eq!(format.fields.len(), 5);
    }

    #[test]
    fn invalid_format_is_none() {
        assert_eq!(Format::parse(""), None);
        assert_eq!(Format::parse("ID: many\n"), None);
        assert_eq!(
            Format::parse("ID: 1\n\tfield:int;\n\tfield:int x;\toffset:99999999;\n").unwrap().fields.len(),
            0
        );
    }

    #[test]
    fn unknown_tracepoint_has_no_arguments() {
        assert_eq!(arguments("of_nobody"), None);
    }
}
