//! What a broker runs on as a recording keeps it: entries `runs_on.…` among the manifest's settings, one a value. What was not known
//! is not there, and a value that cannot be read again is not known. Collects none of it.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use model::{Ext4, HostFacts, Interface, Known, Limits, Volume};

type Settings = BTreeMap<String, String>;

const PREFIX: &str = "runs_on.";
/// What stands for a limit that there is not.
const NONE: &str = "none";
/// Volumes and interfaces of one broker at most.
const MOST: usize = 64;
/// Between the JVM's options, which may have blanks in them.
const BETWEEN: char = '\n';

/// Notes what is known.
#[cfg(feature = "live")]
pub fn note(surroundings: &HostFacts, settings: &mut Settings) {
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            settings.insert(format!("{PREFIX}{name}"), value);
        }
    };
    let s = surroundings;
    put("cpus", shown(&s.cpus));
    put("cpu_quota", limit(&s.cpu_quota));
    put("memory_bytes", shown(&s.memory_bytes));
    put("memory_limit_bytes", limit(&s.memory_limit_bytes));
    put("swap_bytes", shown(&s.swap_bytes));
    put("huge_pages", shown(&s.huge_pages));
    put("open_files_limit", limit(&s.limits.as_ref().map(|limits| limits.open_files)));
    put("open_files", shown(&s.open_files));
    put("mapped_areas", shown(&s.mapped_areas));
    put("partitions", shown(&s.partitions));
    put("jvm_options", s.jvm_arguments.as_ref().ok().map(|words| words.join(&*BETWEEN.to_string())));
    for (name, value) in s.sysctls.iter().flatten() {
        put(&format!("sysctl.{name}"), Some(value.to_string()));
    }
    for (at, volume) in s.volumes.iter().flatten().take(MOST).enumerate() {
        let mut put = |name: &str, value| put(&format!("volume.{at}.{name}"), value);
        put("log_dir", Some(volume.log_dir.to_string()));
        put("device", Some(volume.device.to_string()));
        put("fs", Some(volume.fs.to_string()));
        put("options", volume.options.as_ref().ok().map(|options| options.join(",")));
        put("disks", shown(&volume.disks));
        let ext4 = volume.ext4.as_ref().ok();
        let features =
            |ext4: &Option<Ext4>| ext4.map(|ext4| format!("{},{}", ext4.journal, ext4.fast_commit));
        put("ext4", ext4.map(|ext4| features(ext4).unwrap_or_else(|| NONE.to_owned())));
    }
    for (at, interface) in s.interfaces.iter().flatten().take(MOST).enumerate() {
        let mut put = |name: &str, value| put(&format!("interface.{at}.{name}"), value);
        put("name", Some(interface.name.to_string()));
        put("mtu_bytes", Some(interface.mtu_bytes.to_string()));
        put("speed_bits_per_second", interface.speed_bits_per_second.map(|speed| speed.to_string()));
    }
    put("interfaces", s.interfaces.as_ref().ok().map(|all| all.len().min(MOST).to_string()));
}

#[cfg(feature = "live")]
fn shown<T: ToString>(known: &Known<T>) -> Option<String> {
    known.as_ref().ok().map(ToString::to_string)
}

#[cfg(feature = "live")]
fn limit<T: ToString, E>(known: &Result<Option<T>, E>) -> Option<String> {
    let limit = known.as_ref().ok()?;
    Some(limit.as_ref().map_or_else(|| NONE.to_owned(), ToString::to_string))
}

/// What a recording's settings say; `why_not` says why the rest is not known.
pub fn read(settings: &Settings, why_not: &str) -> HostFacts {
    let kept = Kept { settings, why_not };
    let sysctls = settings.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(PREFIX)?.strip_prefix("sysctl.")?.into(), value.parse().ok()?))
    });
    let sysctls: BTreeMap<Arc<str>, i64> = sysctls.collect();
    let volumes: Vec<Volume> = (0..MOST).map_while(|at| kept.volume(at)).collect();
    let interfaces: Known<usize> = kept.number("interfaces");
    HostFacts {
        kernel: Err(why_not.into()),
        cpus: kept.number("cpus"),
        cpu_quota: kept.limit("cpu_quota"),
        memory_bytes: kept.number("memory_bytes"),
        memory_limit_bytes: kept.limit("memory_limit_bytes"),
        swap_bytes: kept.number("swap_bytes"),
        sysctls: if sysctls.is_empty() { Err(why_not.into()) } else { Ok(sysctls) },
        huge_pages: kept.text("huge_pages").map(Into::into),
        volumes: if volumes.is_empty() { Err(why_not.into()) } else { Ok(volumes) },
        interfaces: interfaces
            .map(|count| (0..count.min(MOST)).filter_map(|at| kept.interface(at)).collect()),
        limits: kept.limit("open_files_limit").map(|open_files| Limits { open_files }),
        open_files: kept.number("open_files"),
        mapped_areas: kept.number("mapped_areas"),
        jvm_arguments: kept
            .text("jvm_options")
            .map(|words| words.split(BETWEEN).filter(|word| !word.is_empty()).map(Into::into).collect()),
        partitions: kept.number("partitions"),
    }
}

/// A recording's settings on their way back.
struct Kept<'s> {
    settings: &'s Settings,
    why_not: &'s str,
}

impl<'s> Kept<'s> {
    fn text(&self, name: &str) -> Known<&'s str> {
        self.settings.get(&format!("{PREFIX}{name}")).map(String::as_str).ok_or_else(|| self.why_not.into())
    }

    fn number<T: FromStr>(&self, name: &str) -> Known<T> {
        self.text(name)?.parse().map_err(|_| self.why_not.into())
    }

    fn limit<T: FromStr>(&self, name: &str) -> Known<Option<T>> {
        if self.text(name)? == NONE { Ok(None) } else { self.number(name).map(Some) }
    }

    fn volume(&self, at: usize) -> Option<Volume> {
        let of = |name: &str| self.text(&format!("volume.{at}.{name}"));
        let ext4 = of("ext4").and_then(|text| match text.split_once(',') {
            Some((journal, fast_commit)) => {
                Ok(Some(Ext4 { journal: journal == "true", fast_commit: fast_commit == "true" }))
            }
            None if text == NONE => Ok(None),
            None => Err(self.why_not.into()),
        });
        Some(Volume {
            log_dir: of("log_dir").ok()?.into(),
            device: of("device").ok()?.into(),
            fs: of("fs").ok()?.into(),
            options: of("options").map(|options| options.split(',').map(Into::into).collect()),
            disks: self.number(&format!("volume.{at}.disks")),
            ext4,
        })
    }

    fn interface(&self, at: usize) -> Option<Interface> {
        Some(Interface {
            name: self.text(&format!("interface.{at}.name")).ok()?.into(),
            mtu_bytes: self.number(&format!("interface.{at}.mtu_bytes")).ok()?,
            speed_bits_per_second: self.number(&format!("interface.{at}.speed_bits_per_second")).ok(),
        })
    }
}

#[cfg(all(test, feature = "live"))]
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
    fn what_is_known_comes_back_and_the_rest_says_why_not() {
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
    fn a_recording_without_or_with_other_words_knows_nothing_of_it() {
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
