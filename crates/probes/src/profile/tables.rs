//! Reads the tables that the profile's programs fill. The layouts are `bpf/profile.h`'s.

use std::sync::Arc;

use libbpf_rs::{Map, MapCore, MapFlags, Object};
use model::{CpuState, Nanos, StackTime};

use super::frames::{Frames, Half};
use super::{ProfileLosses, ProfileOptions};
use crate::error::Error;
use crate::session;

const STACK_NONE: u64 = 0;
const STACK_LOST: u64 = 1;

/// `enum profile_lost`.
mod lost {
    pub(super) const STACK: u32 = 0;
    pub(super) const SPENT: u32 = 1;
    pub(super) const NS: u32 = 2;
    pub(super) const THREAD: u32 = 3;
    pub(super) const RING: u32 = 4;
}

/// Where the time went, absences that last added.
pub(super) fn read(
    object: &Object,
    options: &ProfileOptions,
    frames: &mut Frames,
) -> Result<Vec<StackTime>, Error> {
    let stacks = session::map(object, "stacks")?;
    let mut found = Vec::new();
    let mut add = |spent: Spent| {
        let (user, kernel) = (stack(&stacks, spent.user_stack), stack(&stacks, spent.kernel_stack));
        found.push(StackTime {
            state: spent.state,
            thread: spent.thread,
            tid: Some(spent.tid).filter(|&tid| tid != 0),
            stack: frames.text(user.half(), kernel.half()),
            time: Nanos(i64::try_from(spent.ns).unwrap_or(i64::MAX)),
            count: spent.count,
        });
    };
    let spents = session::map(object, "spents")?;
    for key in spents.keys() {
        let value = spents.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
        Spent::read(&key, &value).into_iter().for_each(&mut add);
    }
    let now = monotonic_ns();
    let absences = session::map(object, "absences")?;
    for key in absences.keys() {
        let value = absences.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
        Spent::lasting(&key, &value, now, options).into_iter().for_each(&mut add);
    }
    Ok(found)
}

/// What was lost; `skipped` are runs that the kernel left out.
pub(super) fn losses(object: &Object, skipped: u64) -> ProfileLosses {
    let lost = |slot: u32| {
        let map = session::map(object, "lost").ok();
        let counts = map.and_then(|map| map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        counts.unwrap_or_default().iter().filter_map(|count| number(count, 0)).sum::<u64>()
    };
    ProfileLosses {
        stacks: lost(lost::STACK),
        uncounted: lost(lost::SPENT),
        uncounted_time: Nanos(i64::try_from(lost(lost::NS)).unwrap_or(i64::MAX)),
        intervals: lost(lost::THREAD) + skipped,
        samples: lost(lost::RING),
    }
}

/// One entry of the table, or one that is still to come.
struct Spent {
    user_stack: u64,
    kernel_stack: u64,
    tid: u32,
    state: CpuState,
    thread: Arc<str>,
    ns: u64,
    count: u64,
}

impl Spent {
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self {
            user_stack: number(key, 0)?,
            kernel_stack: number(key, 8)?,
            tid: small_number(key, 16)?,
            state: if small_number(key, 20)? == 0 { CpuState::On } else { CpuState::Off },
            thread: name(key.get(24..)?),
            ns: number(value, 0)?,
            count: number(value, 8)?,
        })
    }

    fn lasting(tid: &[u8], absence: &[u8], now: u64, options: &ProfileOptions) -> Option<Self> {
        let since = number(absence, 0).filter(|&since| since != 0)?;
        let ns = now.checked_sub(since)?;
        let tid = small_number(tid, 0)?;
        (u128::from(ns) >= options.off_cpu_from?.as_nanos()).then_some(())?;
        Some(Self {
            user_stack: number(absence, 8)?,
            kernel_stack: number(absence, 16)?,
            tid: if options.by_thread { tid } else { 0 },
            state: CpuState::Off,
            thread: name(absence.get(24..)?),
            ns,
            count: 1,
        })
    }
}

/// A stack as it was kept.
pub(super) enum Kept {
    None,
    Lost,
    Frames(Vec<u64>),
}

impl Kept {
    pub(super) fn half(&self) -> Half<'_> {
        match self {
            Self::None => Half::None,
            Self::Lost => Half::Lost,
            Self::Frames(frames) => Half::Frames(frames),
        }
    }
}

/// The stack of that number.
pub(super) fn stack(stacks: &Map<'_>, id: u64) -> Kept {
    match id {
        STACK_NONE => Kept::None,
        STACK_LOST => Kept::Lost,
        _ => match stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY) {
            Ok(Some(bytes)) => frames_of(&bytes),
            _ => Kept::Lost,
        },
    }
}

fn frames_of(bytes: &[u8]) -> Kept {
    let count = number(bytes, 0).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let frames = (1..=count).map_while(|i| number(bytes, i.checked_mul(8)?));
    Kept::Frames(frames.collect())
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

pub(super) fn small_number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A thread's name up to its NUL.
pub(super) fn name(bytes: &[u8]) -> Arc<str> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into()
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local value that the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CpuState, Kept, Spent, frames_of};
    use crate::profile::ProfileOptions;

    fn key(state: u32) -> Vec<u8> {
        let mut key = [7_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat();
        key.extend([0_u32.to_ne_bytes(), state.to_ne_bytes()].concat());
        key.extend(b"handler\0\xff\xff\xff\xff\xff\xff\xff\xff");
        key
    }

    #[test]
    fn an_entry_is_read_as_the_kernel_wrote_it() {
        let value = [10_u64.to_ne_bytes(), 3_u64.to_ne_bytes()].concat();
        let spent = Spent::read(&key(1), &value).unwrap();
        assert_eq!((spent.user_stack, spent.kernel_stack, spent.state), (7, 9, CpuState::Off));
        assert_eq!((&*spent.thread, spent.ns, spent.count), ("handler", 10, 3));
        assert!(Spent::read(&key(0)[..30], &value).is_some() && Spent::read(&key(0)[..20], &value).is_none());
        assert!(Spent::read(&key(0), &value[..12]).is_none());
    }

    #[test]
    fn an_absence_counts_until_now_if_it_is_long_enough() {
        let options = ProfileOptions {
            pid: 1,
            on_cpu_hz: None,
            off_cpu_from: Some(Duration::from_nanos(50)),
            calls: Vec::new(),
            by_thread: true,
            measure: false,
        };
        let absence = |since: u64| {
            let mut bytes = [since.to_ne_bytes(), [0; 8], [0; 8]].concat();
            bytes.extend(*b"handler\0\0\0\0\0\0\0\0\0");
            bytes
        };
        let lasting = |since| Spent::lasting(&5_u32.to_ne_bytes(), &absence(since), 1000, &options);
        assert_eq!(lasting(900).map(|spent| (spent.ns, spent.tid)), Some((100, 5)));
        assert!(lasting(960).is_none(), "too short");
        assert!(lasting(0).is_none() && lasting(2000).is_none(), "not absent");
    }

    #[test]
    fn a_stack_says_how_many_frames_it_has() {
        let bytes = [2_u64.to_ne_bytes(), 0x10_u64.to_ne_bytes(), 0x20_u64.to_ne_bytes(), [0; 8]].concat();
        assert!(matches!(frames_of(&bytes), Kept::Frames(frames) if frames == [0x10, 0x20]));
        let lying = [u64::MAX.to_ne_bytes(), 0x10_u64.to_ne_bytes()].concat();
        assert!(matches!(frames_of(&lying), Kept::Frames(frames) if frames == [0x10]));
        assert!(matches!(frames_of(&[]), Kept::Frames(frames) if frames.is_empty()));
    }
}
