//! Host facts in a recording: entries `runs_on.…` of the manifest's settings, one for each value.
//! An unknown fact has no entry, and a value that cannot be parsed is unknown. Does not collect the facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Ext4, HostFacts, Interface, Known, Limits, Volume};

type Settings = BTreeMap<String, String>;

const PREFIX: &str = "runs_on.";
/// Text for a limit that is not set.
const NONE: &str = "none";
/// Limit of volumes, and of interfaces, of one broker.
const MAX_ITEMS: usize = 64;

/// A value that is stored as text.
trait Entry: Sized {
    fn text(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! entries_by_from_str {
    ($($type:ty),+) => {
        $(impl Entry for $type {
            fn text(&self) -> String {
                self.to_string()
            }
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })+
    };
}

entries_by_from_str!(u32, u64, usize, i64, f64, bool);

impl Entry for Arc<str> {
    fn text(&self) -> String {
        self.to_string()
    }
    fn parse(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

/// A limit.
impl<T: Entry> Entry for Option<T> {
    fn text(&self) -> String {
        self.as_ref().map_or_else(|| NONE.to_owned(), T::text)
    }
    fn parse(text: &str) -> Option<Self> {
        if text == NONE { Some(None) } else { T::parse(text).map(Some) }
    }
}

/// Words, one a line: JVM options may contain blanks.
impl Entry for Vec<Arc<str>> {
    fn text(&self) -> String {
        self.join("\n")
    }
    fn parse(text: &str) -> Option<Self> {
        Some(text.split('\n').filter(|word| !word.is_empty()).map(Into::into).collect())
    }
}

impl Entry for Limits {
    fn text(&self) -> String {
        self.open_files.text()
    }
    fn parse(text: &str) -> Option<Self> {
        Entry::parse(text).map(|open_files| Self { open_files })
    }
}

impl Entry for Ext4 {
    fn text(&self) -> String {
        format!("{},{}", self.journal, self.fast_commit)
    }
    fn parse(text: &str) -> Option<Self> {
        let (journal, fast_commit) = text.split_once(',')?;
        Some(Self { journal: Entry::parse(journal)?, fast_commit: Entry::parse(fast_commit)? })
    }
}

/// Declares the facts that have one entry each.
macro_rules! single_entries {
    ($($name:literal => $field:ident,)+) => {
        fn write_single(facts: &HostFacts, put: &mut dyn FnMut(&str, String)) {
            $(if let Ok(value) = &facts.$field { put($name, value.text()); })+
        }

        fn read_single(entries: &Entries<'_>, facts: &mut HostFacts) {
            $(facts.$field = entries.known($name);)+
        }

        /// Names of the facts that have one entry each, without the prefix `runs_on.`.
        pub const NAMES: &[&str] = &[$($name),+];
    };
}

single_entries! {
    "cpus" => cpus,
    "cpu_quota" => cpu_quota,
    "memory_bytes" => memory_bytes,
    "memory_limit_bytes" => memory_limit_bytes,
    "swap_bytes" => swap_bytes,
    "huge_pages" => huge_pages,
    "open_files_limit" => limits,
    "open_files" => open_files,
    "mapped_areas" => mapped_areas,
    "partitions" => partitions,
    "jvm_options" => jvm_arguments,
}

/// Writes the known facts into the settings.
pub fn note(facts: &HostFacts, settings: &mut Settings) {
    let mut put = |name: &str, value: String| {
        settings.insert(format!("{PREFIX}{name}"), value);
    };
    write_single(facts, &mut put);
    for (name, value) in facts.sysctls.iter().flatten() {
        put(&format!("sysctl.{name}"), value.text());
    }
    for (at, volume) in facts.volumes.iter().flatten().take(MAX_ITEMS).enumerate() {
        let mut put = |name: &str, value| put(&format!("volume.{at}.{name}"), value);
        put("log_dir", volume.log_dir.text());
        put("device", volume.device.text());
        put("fs", volume.fs.text());
        volume.options.iter().for_each(|options| put("options", options.join(",")));
        volume.disks.iter().for_each(|disks| put("disks", disks.text()));
        volume.ext4.iter().for_each(|ext4| put("ext4", ext4.text()));
    }
    for (at, interface) in facts.interfaces.iter().flatten().take(MAX_ITEMS).enumerate() {
        let mut put = |name: &str, value| put(&format!("interface.{at}.{name}"), value);
        put("name", interface.name.text());
        put("mtu_bytes", interface.mtu_bytes.text());
        interface.speed_bits_per_second.iter().for_each(|speed| put("speed_bits_per_second", speed.text()));
    }
    if let Ok(interfaces) = &facts.interfaces {
        put("interfaces", interfaces.len().min(MAX_ITEMS).text());
    }
}

/// Reads the facts from a recording's settings; `why_not` is the reason for unknown ones.
pub fn read(settings: &Settings, why_not: &str) -> HostFacts {
    let entries = Entries { settings, why_not };
    let mut facts = HostFacts::unknown(why_not);
    read_single(&entries, &mut facts);
    let sysctls = settings.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(PREFIX)?.strip_prefix("sysctl.")?.into(), Entry::parse(value)?))
    });
    let sysctls: BTreeMap<Arc<str>, i64> = sysctls.collect();
    let volumes: Vec<Volume> = (0..MAX_ITEMS).map_while(|at| entries.volume(at)).collect();
    let interfaces: Known<usize> = entries.known("interfaces");
    facts.sysctls = if sysctls.is_empty() { facts.sysctls } else { Ok(sysctls) };
    facts.volumes = if volumes.is_empty() { facts.volumes } else { Ok(volumes) };
    facts.interfaces =
        interfaces.map(|count| (0..count.min(MAX_ITEMS)).filter_map(|at| entries.interface(at)).collect());
    facts
}

/// A recording's settings, to be parsed.
struct Entries<'s> {
    settings: &'s Settings,
    why_not: &'s str,
}

impl Entries<'_> {
    fn get<T: Entry>(&self, name: &str) -> Option<T> {
        T::parse(self.settings.get(&format!("{PREFIX}{name}"))?)
    }

    fn known<T: Entry>(&self, name: &str) -> Known<T> {
        self.get(name).ok_or_else(|| self.why_not.into())
    }

    fn volume(&self, at: usize) -> Option<Volume> {
        let of = |name: &str| format!("volume.{at}.{name}");
        Some(Volume {
            log_dir: self.get(&of("log_dir"))?,
            device: self.get(&of("device"))?,
            fs: self.get(&of("fs"))?,
            options: self
                .known::<Arc<str>>(&of("options"))
                .map(|options| options.split(',').map(Into::into).collect()),
            disks: self.known(&of("disks")),
            ext4: self.known(&of("ext4")),
        })
    }

    fn interface(&self, at: usize) -> Option<Interface> {
        let of = |name: &str| format!("interface.{at}.{name}");
        Some(Interface {
            name: self.get(&of("name"))?,
            mtu_bytes: self.get(&of("mtu_bytes"))?,
            speed_bits_per_second: self.get(&of("speed_bits_per_second")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::{Ext4, HostFacts, Interface, Limits, Volume};

    use super::{note, read};

    const WHY: &str = "not recorded";

    fn volume(log_dir: &str, ext4: Option<Ext4>) -> Volume {
        Volume {
            log_dir: log_dir.into(),
            device: "dm-3".into(),
            fs: if ext4.is_some() { "ext4".into() } else { "xfs".into() },
            options: Ok(["rw", "noatime"].map(Into::into).to_vec()),
            disks: Ok(3),
            ext4: Ok(ext4),
        }
    }

    #[test]
    fn known_facts_round_trip_and_others_have_a_reason() {
        let known = HostFacts {
            cpus: Ok(8),
            cpu_quota: Ok(Some(2.5)),
            memory_bytes: Ok(64 << 30),
            memory_limit_bytes: Ok(None),
            sysctls: Ok(BTreeMap::from([("vm.swappiness".into(), 60)])),
            huge_pages: Ok("always".into()),
            volumes: Ok(vec![
                volume("/a", Some(Ext4 { journal: true, fast_commit: false })),
                volume("/b", None),
            ]),
            interfaces: Ok(vec![Interface {
                name: "eth0".into(),
                mtu_bytes: 1_500,
                speed_bits_per_second: None,
            }]),
            limits: Ok(Limits { open_files: Some(1_024) }),
            jvm_arguments: Ok(["-Xmx1g", "-Xlog:gc:file=/a b"].map(Into::into).to_vec()),
            partitions: Ok(2_000),
            ..HostFacts::unknown(WHY)
        };
        let mut settings = BTreeMap::from([("interface".to_owned(), "any".to_owned())]);
        note(&known, &mut settings);
        assert_eq!(read(&settings, WHY), known);
    }

    #[test]
    fn missing_or_malformed_facts_are_unknown() {
        let nothing = HostFacts::unknown(WHY);
        let mut settings = BTreeMap::new();
        assert_eq!(read(&settings, WHY), nothing);
        note(&nothing, &mut settings);
        assert!(settings.is_empty(), "{settings:?}");
        for name in
            ["cpus", "cpu_quota", "sysctl.vm.swappiness", "volume.0.ext4", "interfaces", "interface.0.name"]
        {
            settings.insert(format!("runs_on.{name}"), "many".to_owned());
        }
        assert_eq!(read(&settings, WHY), nothing);
    }
}
