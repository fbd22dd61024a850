//! A recording's directory that another user prepared, or changes meanwhile.
//! Nothing is written elsewhere, and no other user can read it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use recording::{Error, Manifest, Recording, Writer, WriterOptions};

use crate::samples::{numbered, read};

const NOBODY: u32 = 65_534;

fn create(path: &Path) -> Result<Writer, Error> {
    Writer::create(path, &Manifest::default(), WriterOptions::default())
}

#[test]
fn does_not_follow_symlinks_with_the_name_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, target) = (dir.path().join("recording"), dir.path().join("target"));
    fs::write(&target, "mine").unwrap();
    let mut writer = create(&recording).unwrap();
    writer.write(&numbered(1)).unwrap();
    for name in ["manifest.json.tmp", "losses/part-00001.parquet.tmp", "requests/part-00001.parquet.tmp"] {
        symlink(&target, recording.join(name)).unwrap();
    }
    writer.update(&Manifest::default()).unwrap();
    writer.finish(&Manifest::default()).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    assert_eq!(read(&recording), [numbered(1)]);
    assert!(recording.join("manifest.json").symlink_metadata().unwrap().is_file());
}

#[test]
fn does_not_write_to_a_directory_that_replaces_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let [recording, moved, elsewhere] = ["recording", "moved", "elsewhere"].map(|name| dir.path().join(name));
    let mut writer = create(&recording).unwrap();
    fs::rename(&recording, &moved).unwrap();
    fs::create_dir_all(elsewhere.join("losses")).unwrap();
    symlink(&elsewhere, &recording).unwrap();
    writer.write(&numbered(1)).unwrap();
    writer.flush().unwrap();
    writer.update(&Manifest::default()).unwrap();
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    assert!(fs::read_dir(elsewhere.join("losses")).unwrap().next().is_none());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    assert_eq!(read(&moved), [numbered(1)]);
    assert_eq!(Recording::open(&moved).unwrap().manifest().ended_ns, Some(1));
}

#[test]
fn refuses_foreign_directories_and_symlinks() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    // Without root, use a directory that belongs to root.
    let foreign = if chown(&foreign, Some(NOBODY), None).is_ok() { foreign } else { PathBuf::from("/") };
    let whose = fs::metadata(&foreign).unwrap().uid();
    let refused = create(&foreign).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Foreign { owner, .. } if owner == whose), "{refused}");
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    symlink(&own, dir.path().join("link")).unwrap();
    for link in ["link", "link/"] {
        let refused = create(&dir.path().join(link)).map(drop).unwrap_err();
        assert!(matches!(&refused, Error::Io { action: "open", .. }), "{refused}");
    }
    assert!(fs::read_dir(&own).unwrap().next().is_none());
}

/// The permissions of a directory and of everything in it.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = path.metadata().unwrap();
    let mode = (path.to_owned(), metadata.permissions().mode() & 0o7777);
    let inside = metadata.is_dir().then(|| fs::read_dir(path).unwrap());
    let inside = inside.into_iter().flatten().flat_map(|entry| modes(&entry.unwrap().path()));
    std::iter::once(mode).chain(inside).collect()
}

#[test]
fn only_the_owner_reads_a_recording() {
    rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let (new, open) = (dir.path().join("new"), dir.path().join("open"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for recording in [new, open] {
        let mut writer = create(&recording).unwrap();
        writer.write(&numbered(1)).unwrap();
        writer.flush().unwrap();
        let while_it_runs = modes(&recording);
        writer.finish(&Manifest::default()).unwrap();
        for (path, mode) in while_it_runs.into_iter().chain(modes(&recording)) {
            let expected = if path.extension().is_some() { 0o600 } else { 0o700 };
            assert_eq!(mode, expected, "{} has {mode:o}", path.display());
        }
    }
}
