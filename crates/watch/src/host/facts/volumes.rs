//! What log dirs are on: the mount, its options, the device, the disks beneath, an ext4's features. Does not read their figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Known, Volume};

use super::{Kernel, ext4, read};
use crate::host::devices::{self, Number};

/// One a log dir, in their order.
pub(super) fn under(kernel: &Kernel, dev: &Path, log_dirs: &[PathBuf]) -> Vec<Volume> {
    let mounts = read(&kernel.proc.join("self/mountinfo"));
    log_dirs.iter().map(|dir| volume(kernel, dev, dir, &mounts)).collect()
}

fn volume(kernel: &Kernel, dev: &Path, dir: &Path, mounts: &Known<String>) -> Volume {
    let found = mounts.clone().and_then(|mounts| {
        let mount = fs::canonicalize(dir).ok().and_then(|dir| Mount::holding(&mounts, &dir));
        mount.ok_or_else(|| format!("{}: no mount holds it", dir.display()).into())
    });
    let number = devices::holding(dir, mounts.as_deref().unwrap_or_default());
    let device = number.and_then(|number| name(kernel, number)).unwrap_or_default();
    let fs: Arc<str> = found.as_ref().map_or("", |mount| &mount.fs).into();
    let ext4 = match &*fs {
        "ext4" if device.is_empty() => Err("its device has no name".into()),
        // The kernel writes a slash in a device's name as an exclamation mark.
        "ext4" => ext4::features(&dev.join(device.replace('!', "/"))).map(Some),
        "" => Err("its file system is not known".into()),
        _ => Ok(None),
    };
    Volume {
        log_dir: dir.display().to_string().into(),
        disks: number
            .map(|number| devices::disks(kernel, number, mounts.as_deref().unwrap_or_default()))
            .ok_or("its device is not known".into()),
        device: device.into(),
        fs,
        options: found.map(|mount| mount.options),
        ext4,
    }
}

/// The kernel's name of a device: `/sys/dev/block/8:1` is a link to its directory.
fn name(kernel: &Kernel, (major, minor): Number) -> Option<String> {
    let target = fs::read_link(kernel.sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// The part of a line of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`) that says how a directory is mounted.
#[derive(Debug, PartialEq)]
struct Mount {
    fs: String,
    options: Vec<Arc<str>>,
}

impl Mount {
    /// The nearest mount above a path; of several on one point the last, which hides the others.
    fn holding(mounts: &str, path: &Path) -> Option<Self> {
        let above = mounts.lines().filter_map(|line| {
            let point = devices::unescaped(line.split(' ').nth(4)?);
            path.starts_with(&point).then(|| (point.components().count(), line))
        });
        let (_, line) = above.max_by_key(|(depth, _)| *depth)?;
        Self::parse(line)
    }

    /// `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw,data=writeback`
    fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let own = front.split(' ').nth(5)?;
        let mut back = back.split(' ');
        let (fs, of_fs) = (back.next()?, back.nth(1).unwrap_or_default());
        let options = own.split(',').chain(of_fs.split(',')).filter(|option| !option.is_empty());
        Some(Self { fs: fs.to_owned(), options: options.map(Into::into).collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Mount, under};
    use crate::host::tests::fixture::Fixture;

    const MOUNTS: &str = "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                          24 21 8:16 / /data\\0401 rw,noatime master:1 - ext4 /dev/sdb rw,data=writeback\n\
                          25 21 8:32 / /data\\0401 rw - xfs /dev/sdc rw,logbsize=32k\n";

    #[test]
    fn a_directory_is_on_the_nearest_mount_that_is_not_hidden() {
        let of = |path: &str| Mount::holding(MOUNTS, Path::new(path)).unwrap();
        let data = of("/data 1/kafka");
        assert_eq!((&*data.fs, data.options.last().unwrap().as_ref()), ("xfs", "logbsize=32k"));
        assert_eq!(
            of("/data").options.iter().map(|option| &**option).collect::<Vec<_>>(),
            ["rw", "relatime", "rw"]
        );
        assert_eq!(Mount::holding("", Path::new("/")), None);
        assert_eq!(Mount::parse("21 1 8:1 / / rw"), None);
    }

    #[test]
    fn a_log_dir_says_what_of_it_is_not_known() {
        let fixture = Fixture::new("volumes");
        let none = under(&fixture.kernel(), &fixture.path("dev"), &[PathBuf::from("/no/such/dir")]);
        assert_eq!((&*none[0].log_dir, &*none[0].fs, &*none[0].device), ("/no/such/dir", "", ""));
        assert!(none[0].options.is_err() && none[0].ext4.is_err() && none[0].disks.is_err());
        fixture.file("data/x", "");
        fixture.file("proc/self/mountinfo", "21 1 8:1 / / rw,noatime - tmpfs none rw\n");
        let found = under(&fixture.kernel(), &fixture.path("dev"), &[fixture.path("data")]);
        assert_eq!((&*found[0].fs, found[0].ext4.clone()), ("tmpfs", Ok(None)));
        assert_eq!(found[0].options.as_ref().unwrap()[1].as_ref(), "noatime");
    }

    #[test]
    fn a_directory_of_this_machine_is_on_something() {
        let found = under(&crate::host::text::Kernel::default(), Path::new("/dev"), &[std::env::temp_dir()]);
        assert!(!found[0].fs.is_empty() && found[0].options.is_ok(), "{found:?}");
    }
}
