//! Where an XFS file system's internal log lies on its device, from its superblock.
//!
//! A block's number has its allocation group in the high bits and the block within it in the low
//! `sb_agblklog` bits (`XFS_FSB_TO_DADDR`, `fs/xfs/libxfs/xfs_format.h`); the log is contiguous.

use std::path::Path;
use std::process::Command;

use super::journal::Extent;
use crate::error::Error;
use crate::tool;

/// mkfs.xfs's `-l`: small, so that it fills; the least that it makes without being forced.
pub(super) const SIZE: &str = "size=64m";

/// The bytes of the log.
///
/// # Errors
/// [`Error::Missing`] without `xfs_db`; [`Error::Unusable`] where it says something else.
pub(super) fn extent(device: &Path) -> Result<Extent, Error> {
    let print = "print logstart logblocks blocksize agblocks agblklog";
    let said = tool::output(Command::new("xfs_db").args(["-r", "-c", "sb 0", "-c", print]).arg(device))?;
    parse(&said).ok_or_else(|| Error::Unusable(format!("no log found on {}: {said}", device.display())))
}

fn parse(said: &str) -> Option<Extent> {
    let field = |name: &str| -> Option<u64> {
        let value = said.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='))?;
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
    fn a_block_s_number_is_its_group_and_its_place_in_it() {
        let said = "logstart = 131077\nlogblocks = 2560\nblocksize = 4096\nagblocks = 65536\nagblklog = 16\n";
        let expected = Extent { offset: (2 * 65_536 + 5) * 4096, length: 2560 * 4096 };
        assert_eq!(parse(said), Some(expected));
        let odd = said.replace("agblocks = 65536", "agblocks = 50000");
        assert_eq!(parse(&odd).unwrap().offset, (2 * 50_000 + 5) * 4096);
    }

    #[test]
    fn an_external_log_and_nonsense_are_none() {
        assert_eq!(parse(""), None);
        let external = "logstart = 0\nlogblocks = 1\nblocksize = 4096\nagblocks = 9\nagblklog = 4\n";
        assert_eq!(parse(external), None);
        assert_eq!(parse(&external.replace("agblklog = 4", "agblklog = 99")), None);
    }
}
