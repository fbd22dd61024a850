//! Volumes of log dirs: mount, options, device, disks beneath, and ext4 features.
//! Does not read their figures.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Ext4, Known, Volume};

use super::{Kernel, read};
use crate::host::devices;
use crate::mounts::{self, DeviceNumber, Mount};

/// Returns the volume of each log dir, in their order.
pub(super) fn under(kernel: &Kernel, dev: &Path, log_dirs: &[PathBuf]) -> Vec<Volume> {
    let mounts = read(&kernel.proc.join("self/mountinfo")).map(|text| mounts::parse(&text));
    log_dirs.iter().map(|dir| volume(kernel, dev, dir, &mounts)).collect()
}

fn volume(kernel: &Kernel, dev: &Path, dir: &Path, mounts: &Known<Vec<Mount>>) -> Volume {
    let known: &[Mount] = mounts.as_deref().unwrap_or_default();
    let holding = fs::canonicalize(dir).ok().and_then(|dir| holding(known, &dir));
    let number = devices::device_of(dir, known, true);
    let device = number.and_then(|number| name(kernel, number)).unwrap_or_default();
    let fs: Arc<str> = holding.map_or("", |mount| &mount.fs).into();
    let ext4 = match &*fs {
        "ext4" if device.is_empty() => Err("its device has no name".into()),
        // The kernel writes a slash in a device's name as an exclamation mark.
        "ext4" => features(&dev.join(device.replace('!', "/"))).map(Some),
        "" => Err("its file system is not known".into()),
        _ => Ok(None),
    };
    Volume {
        log_dir: dir.display().to_string().into(),
        disks: number
            .map(|number| devices::disks(kernel, number, known))
            .ok_or("its device is not known".into()),
        device: device.into(),
        fs,
        options: match (mounts, holding) {
            (Err(why), _) => Err(why.clone()),
            (Ok(_), None) => Err(format!("{}: it is in no mount", dir.display()).into()),
            (Ok(_), Some(mount)) => Ok(options(mount)),
        },
        ext4,
    }
}

/// The nearest mount above a path; of several at one mount point, the last, which hides the others.
fn holding<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// Options of the mount, then of the file system.
fn options(mount: &Mount) -> Vec<Arc<str>> {
    let all = mount.own_options.split(',').chain(mount.options.split(','));
    all.filter(|option| !option.is_empty()).map(Into::into).collect()
}

/// The kernel's name of a device: `/sys/dev/block/8:1` is a link to its directory.
fn name(kernel: &Kernel, (major, minor): DeviceNumber) -> Option<String> {
    let target = fs::read_link(kernel.sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// Offsets of the superblock and its fields.
/// See `struct ext4_super_block`, fs/ext4/ext4.h.
const SUPERBLOCK: u64 = 1024;
const MAGIC_AT: u64 = SUPERBLOCK + 0x38;
const COMPATIBLE_FEATURES_AT: u64 = SUPERBLOCK + 0x5c;
const MAGIC: [u8; 2] = 0xef53_u16.to_le_bytes();
const HAS_JOURNAL: u32 = 0x4;
const FAST_COMMIT: u32 = 0x400;

/// Reads the features of the ext4 file system on a device.
#[allow(clippy::disallowed_methods, reason = "a device")]
pub(super) fn features(device: &Path) -> Known<Ext4> {
    let why = |error: std::io::Error| format!("{}: {error}", device.display());
    let file = File::open(device).map_err(why)?;
    let (mut magic, mut features) = ([0; 2], [0; 4]);
    file.read_exact_at(&mut magic, MAGIC_AT).map_err(why)?;
    file.read_exact_at(&mut features, COMPATIBLE_FEATURES_AT).map_err(why)?;
    if magic != MAGIC {
        return Err(format!("{}: it has no ext4", device.display()).into());
    }
    let features = u32::from_le_bytes(features);
    Ok(Ext4 { journal: features & HAS_JOURNAL != 0, fast_commit: features & FAST_COMMIT != 0 })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{holding, mounts, options, under};
    use crate::host::tests::fixture::Fixture;

    const MOUNTS: &str = "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                          24 21 8:16 / /data\\0401 rw,noatime master:1 - ext4 /dev/sdb rw,data=writeback\n\
                          25 21 8:32 / /data\\0401 rw - xfs /dev/sdc rw,logbsize=32k\n";

    #[test]
    fn directory_is_on_the_nearest_visible_mount() {
        let mounts = mounts::parse(MOUNTS);
        let of = |path: &str| {
            let mount = holding(&mounts, Path::new(path)).unwrap();
            (mount.fs.as_str(), options(mount).iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(of("/data 1/kafka"), ("xfs", ["rw", "rw", "logbsize=32k"].map(str::to_owned).into()));
        assert_eq!(of("/data"), ("ext4", ["rw", "relatime", "rw"].map(str::to_owned).into()));
        assert_eq!(holding(&[], Path::new("/")), None);
    }

    #[test]
    fn missing_log_dir_has_reasons_for_unknown_facts() {
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
    fn finds_the_mount_of_a_real_directory() {
        let found = under(&crate::host::text::Kernel::default(), Path::new("/dev"), &[std::env::temp_dir()]);
        assert!(!found[0].fs.is_empty() && found[0].options.is_ok(), "{found:?}");
    }
}

#[cfg(test)]
mod ext4_tests {
    use std::path::PathBuf;

    use model::Ext4;

    use super::features;
    use crate::host::tests::fixture::Fixture;

    fn device(fixture: &Fixture, name: &str, magic: u16, bits: u32) -> PathBuf {
        let mut image = vec![0; 2048];
        image[1024 + 0x38..][..2].copy_from_slice(&magic.to_le_bytes());
        image[1024 + 0x5c..][..4].copy_from_slice(&bits.to_le_bytes());
        let path = fixture.path(name);
        std::fs::write(&path, image).unwrap();
        path
    }

    #[test]
    fn reads_ext4_features_from_the_superblock() {
        let fixture = Fixture::new("ext4");
        let of = |name: &str, magic, bits| features(&device(&fixture, name, magic, bits));
        assert_eq!(of("a", 0xef53, 0x43c), Ok(Ext4 { journal: true, fast_commit: true }));
        assert_eq!(of("b", 0xef53, 0x038), Ok(Ext4 { journal: false, fast_commit: false }));
        assert!(of("c", 0, 0x43c).unwrap_err().contains("no ext4"));
        assert!(features(&fixture.path("none")).is_err());
        let short = fixture.path("short");
        std::fs::write(&short, [0; 1100]).unwrap();
        assert!(features(&short).is_err());
    }
}
