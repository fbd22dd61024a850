//! What an ext4's superblock says of its features. Reads these two fields and nothing else.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use model::{Ext4, Known};

/// Where the superblock is, and its fields (`struct ext4_super_block`, fs/ext4/ext4.h).
const SUPERBLOCK: u64 = 1024;
const MAGIC_AT: u64 = SUPERBLOCK + 0x38;
const COMPATIBLE_FEATURES_AT: u64 = SUPERBLOCK + 0x5c;
const MAGIC: [u8; 2] = 0xef53_u16.to_le_bytes();
const HAS_JOURNAL: u32 = 0x4;
const FAST_COMMIT: u32 = 0x400;

/// The features of the file system on a device.
pub(super) fn features(device: &Path) -> Known<Ext4> {
    let why = |error: std::io::Error| format!("{}: {error}", device.display());
    let file = File::open(device).map_err(why)?;
    let (mut magic, mut features) = ([0; 2], [0; 4]);
    file.read_exact_at(&mut magic, MAGIC_AT).map_err(why)?;
    file.read_exact_at(&mut features, COMPATIBLE_FEATURES_AT).map_err(why)?;
    if magic != MAGIC {
        return Err(format!("{}: no ext4 is on it", device.display()).into());
    }
    let features = u32::from_le_bytes(features);
    Ok(Ext4 { journal: features & HAS_JOURNAL != 0, fast_commit: features & FAST_COMMIT != 0 })
}

#[cfg(test)]
mod tests {
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
    fn features_are_bits_of_the_superblock() {
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
