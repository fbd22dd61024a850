//! Finds an ext4 journal, or a written-back file, on its device. Reads debugfs's description of its inode.
//!
//! Inode 8 is the journal's (`EXT4_JOURNAL_INO`, fs/ext4/ext4.h). Its blocks stay where mkfs put them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::process;

/// A range of bytes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
}

/// The byte ranges of the journal of the ext4 file system on `device`.
///
/// # Errors
/// [`Error::Missing`] without debugfs; [`Error::Unusable`] if it reports no blocks (no journal).
pub(super) fn journal_extents(device: &Path) -> Result<Vec<Extent>> {
    let extents = inode_extents(device, 8)?;
    if extents.is_empty() {
        return Err(Error::Unusable(format!("no journal found on {}", device.display())));
    }
    Ok(extents)
}

/// The byte ranges of the file with this inode. The file is on the ext4 file system of `device`, and counts as far as
/// it has been written back.
pub(super) fn inode_extents(device: &Path, inode: u64) -> Result<Vec<Extent>> {
    let block_bytes = block_size(device)?;
    let output =
        process::output(Command::new("debugfs").args(["-R", &format!("stat <{inode}>")]).arg(device))?;
    Ok(parse_blocks(&output, block_bytes))
}

/// Everything that is not in one of `extents`, up to the end of any device.
pub(super) fn between(extents: &[Extent]) -> Vec<Extent> {
    let mut sorted = extents.to_vec();
    sorted.sort_by_key(|extent| extent.offset);
    let mut free = Vec::new();
    let mut from = 0;
    for Extent { offset, length } in sorted {
        if offset > from {
            free.push(Extent { offset: from, length: offset - from });
        }
        from = from.max(offset.saturating_add(length));
    }
    free.push(Extent { offset: from, length: u64::MAX - from });
    free
}

/// The block size in the superblock: magic 0xEF53 at 0x38, `s_log_block_size` at 0x18, from byte 1024 on
/// (struct `ext4_super_block`, fs/ext4/ext4.h).
fn block_size(device: &Path) -> Result<u64> {
    let mut superblock = [0_u8; 64];
    let file = File::open(device).map_err(Error::io("open", device))?;
    file.read_exact_at(&mut superblock, 1024).map_err(Error::io("read the superblock of", device))?;
    let [.., size0, size1, size2, size3] = superblock.first_chunk::<0x1c>().copied().unwrap_or([0; 0x1c]);
    let shift = u32::from_le_bytes([size0, size1, size2, size3]);
    if superblock.get(0x38..0x3a) != Some(&[0x53, 0xef]) || shift > 6 {
        return Err(Error::Unusable(format!("{} holds no ext4 file system", device.display())));
    }
    Ok(1024 << shift)
}

/// Parses the block lists of `stat`: `(0-16383):32768-49151` and `(5):77`, under EXTENTS: (newer file systems) or
/// BLOCKS: (block-mapped ones). Blocks of the map itself (`(ETB0):…`, `(IND):…`, `(DIND):…`) are not the journal's
/// content.
fn parse_blocks(output: &str, block_bytes: u64) -> Vec<Extent> {
    let after = |header: &str| output.split_once(header).map(|(_, rest)| rest);
    let Some(lists) = after("EXTENTS:").or_else(|| after("BLOCKS:\n")) else { return Vec::new() };
    let lists = lists.split_once("\nTOTAL:").map_or(lists, |(lists, _)| lists);
    let entries = lists.split([',', '\n', ' ']).filter_map(|entry| parse_entry(entry.trim(), block_bytes));
    join(entries)
}

fn parse_entry(entry: &str, block_bytes: u64) -> Option<Extent> {
    let (logical, physical) = entry.strip_prefix('(')?.split_once("):")?;
    if !logical.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (first, last) = physical.split_once('-').unwrap_or((physical, physical));
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let blocks = last.checked_sub(first)?.checked_add(1)?;
    let (offset, length) = (first.checked_mul(block_bytes)?, blocks.checked_mul(block_bytes)?);
    Some(Extent { offset, length })
}

/// Joins neighbours, so that a contiguous journal is one range.
fn join(extents: impl Iterator<Item = Extent>) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for next in extents {
        match joined.last_mut() {
            Some(last) if last.offset.checked_add(last.length) == Some(next.offset) => {
                last.length = last.length.saturating_add(next.length);
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// mkfs.xfs's `-l`: small, so that it fills; the smallest that it makes without being forced.
pub(super) const XFS_LOG: &str = "size=64m";

/// The byte range of XFS's log.
///
/// # Errors
/// [`Error::Missing`] without `xfs_db`; [`Error::Unusable`] if its output is unexpected.
pub(super) fn xfs_log(device: &Path) -> Result<Extent> {
    let print = "print logstart logblocks blocksize agblocks agblklog";
    let output = process::output(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", print]).arg(device))?;
    parse(&output).ok_or_else(|| Error::Unusable(format!("no log found on {}: {output}", device.display())))
}

fn parse(output: &str) -> Option<Extent> {
    let field = |name: &str| -> Option<u64> {
        let value = output.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='))?;
        value.trim().parse().ok()
    };
    let (start, block_bytes, group_blocks) = (field("logstart")?, field("blocksize")?, field("agblocks")?);
    let shift = u32::try_from(field("agblklog")?).ok().filter(|shift| (1..64).contains(shift))?;
    let within = start & ((1 << shift) - 1);
    let block = (start >> shift).checked_mul(group_blocks)?.checked_add(within)?;
    let length = field("logblocks")?.checked_mul(block_bytes)?;
    // An external log has no start here.
    (start > 0).then_some(Extent { offset: block.checked_mul(block_bytes)?, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_extents_and_joins_neighbours() {
        let output = "Inode: 8   Type: regular    Mode:  0600   Flags: 0x80000\n\
                    Generation: 0\nSize of extra inode fields: 32\nEXTENTS:\n\
                    (ETB0):77, (0-16383):32768-49151, (16384-32766):49152-65534, (32767):9\n";
        assert_eq!(
            parse_blocks(output, 4096),
            [
                Extent { offset: 32_768 * 4096, length: 32_767 * 4096 },
                Extent { offset: 9 * 4096, length: 4096 }
            ]
        );
    }

    #[test]
    fn skips_indirect_blocks_of_a_block_mapped_journal() {
        let output = "BLOCKS:\n(0-11):66-77, (IND):78, (12-1023):79-1090\nTOTAL: 1025\n";
        assert_eq!(
            parse_blocks(output, 1024),
            [
                Extent { offset: 66 * 1024, length: 12 * 1024 },
                Extent { offset: 79 * 1024, length: 1012 * 1024 }
            ]
        );
    }

    #[test]
    fn between_returns_all_ranges_outside_the_extents() {
        let extent = |offset, length| Extent { offset, length };
        assert_eq!(between(&[]), [extent(0, u64::MAX)]);
        assert_eq!(
            between(&[extent(40, 10), extent(10, 20), extent(50, 5)]),
            [extent(0, 10), extent(30, 10), extent(55, u64::MAX - 55)]
        );
        assert_eq!(between(&[extent(0, 7)]), [extent(7, u64::MAX - 7)]);
    }

    #[test]
    fn malformed_debugfs_output_yields_no_extents() {
        for output in ["", "EXTENTS:\n", "EXTENTS:\n(0-1):9-3, (x):1, (0):", "stat: Inode <8> not found"] {
            assert!(parse_blocks(output, 4096).is_empty(), "{output:?}");
        }
        assert!(parse_blocks("EXTENTS:\n(0-1):0-18446744073709551615\n", 4096).is_empty());
    }

    #[test]
    fn refuses_a_device_without_ext4() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; 4096]).unwrap();
        assert!(block_size(file.path()).unwrap_err().to_string().contains("no ext4"));
    }
}

#[cfg(test)]
mod xfs_log_tests {
    use super::*;

    #[test]
    fn xfs_block_number_is_a_group_and_an_offset() {
        let output =
            "logstart = 131077\nlogblocks = 2560\nblocksize = 4096\nagblocks = 65536\nagblklog = 16\n";
        let expected = Extent { offset: (2 * 65_536 + 5) * 4096, length: 2560 * 4096 };
        assert_eq!(parse(output), Some(expected));
        let odd = output.replace("agblocks = 65536", "agblocks = 50000");
        assert_eq!(parse(&odd).unwrap().offset, (2 * 50_000 + 5) * 4096);
    }

    #[test]
    fn external_log_and_malformed_output_yield_none() {
        assert_eq!(parse(""), None);
        let external = "logstart = 0\nlogblocks = 1\nblocksize = 4096\nagblocks = 9\nagblklog = 4\n";
        assert_eq!(parse(external), None);
        assert_eq!(parse(&external.replace("agblklog = 4", "agblklog = 99")), None);
    }
}
