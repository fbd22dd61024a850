//! `/proc/PID/mountinfo` (`Documentation/filesystems/proc.rst`, 3.5). Does not know which mount is wanted.

/// A file system's device, as the kernel numbers it: major and minor.
pub(crate) type DeviceNumber = (u32, u32);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) device: DeviceNumber,
    /// What of the file system is mounted, without a leading `/`.
    pub(crate) root: String,
    /// Where.
    pub(crate) point: String,
    /// Of this mount.
    pub(crate) own_options: String,
    pub(crate) fs: String,
    pub(crate) source: String,
    /// Of the file system.
    pub(crate) options: String,
}

impl Mount {
    /// Where an overlay keeps what is written.
    pub(crate) fn upper_directory(&self) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix("upperdir="))
    }
}

/// Parses the mounts in their order: of several on one point, the last hides the others. Lines that are none are left out.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw,errors=continue`
fn parse_line(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let id = front.next()?.parse().ok()?;
    let (major, minor) = front.nth(1)?.split_once(':')?;
    let (root, point) = (unescape(front.next()?), unescape(front.next()?));
    let mut back = back.split(' ');
    Some(Mount {
        id,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: root.trim_start_matches('/').to_owned(),
        point,
        own_options: front.next()?.to_owned(),
        fs: back.next()?.to_owned(),
        source: unescape(back.next()?),
        options: unescape(back.next().unwrap_or_default()),
    })
}

/// Blanks and backslashes are written as `\040` and so on (`mangle_path`, `fs/seq_file.c`).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_mount_has_a_source_or_an_overlays_upper_directory() {
        let mounts = parse(
            "36 27 0:46 / /data rw - btrfs /dev/sd\\040b rw,space_cache\n\
             37 27 0:47 / /o rw shared:1 - overlay overlay rw,lowerdir=/l,upperdir=/u/x,workdir=/w\n\
             38 27 0:48\n",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].source.as_str(), mounts[0].upper_directory()), ("/dev/sd b", None));
        assert_eq!((mounts[1].device, mounts[1].upper_directory()), ((0, 47), Some("/u/x")));
    }

    #[test]
    fn what_has_no_options_is_no_mount() {
        assert_eq!(parse("21 1 8:1 / / rw"), []);
        assert_eq!(parse("21 1 8:1 / / - ext4 /dev/sda1 rw"), []);
    }
}
