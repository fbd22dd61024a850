//! Reads the tables that the profile's programs fill. The layouts are those of `bpf/profile.h`.

use std::sync::Arc;

use libbpf_rs::{Map, MapCore, MapFlags, Object};
use model::{CpuState, Nanos, StackTime};
use rustix::time::{ClockId, clock_gettime};

use super::object::MAX_FRAMES;
use super::{ProfileLosses, ProfileOptions};
use crate::bpf::profile::types::{self, profile_lost};
use crate::bpf::{self, MapName, map_name, text_of, whole};
use crate::error::Error;
use crate::kallsyms::Symbols;
use crate::user::UserCode;

const STACK_NONE: u64 = 0;
const STACK_LOST: u64 = 1;

/// Where the time went, including off-CPU intervals that have not ended.
pub(super) fn read(
    object: &Object,
    options: &ProfileOptions,
    frames: &mut Frames,
) -> Result<Vec<StackTime>, Error> {
    let now = monotonic_ns();
    let mut entries = read_map(object, map_name!(profile.stack_times), Entry::read)?;
    entries.extend(read_map(object, map_name!(profile.off_cpu_threads), |tid, off_cpu| {
        Entry::ongoing(tid, off_cpu, now, options)
    })?);
    let stacks = bpf::map(object, map_name!(profile.stacks))?;
    let time = |entry: Entry| StackTime {
        state: entry.state,
        thread: entry.thread,
        tid: Some(entry.tid).filter(|&tid| tid != 0),
        stack: frames.text(&stack(&stacks, entry.user_stack), &stack(&stacks, entry.kernel_stack)),
        time: Nanos(i64::try_from(entry.ns).unwrap_or(i64::MAX)),
        count: entry.count,
    };
    Ok(entries.into_iter().map(time).collect())
}

fn read_map(
    object: &Object,
    name: MapName,
    read: impl Fn(&[u8], &[u8]) -> Option<Entry>,
) -> Result<Vec<Entry>, Error> {
    let map = bpf::map(object, name)?;
    let entries = map.keys().filter_map(|key| read(&key, &map.lookup(&key, MapFlags::ANY).ok()??));
    Ok(entries.collect())
}

/// What was lost; `skipped` is the number of runs that the kernel skipped.
pub(super) fn losses(object: &Object, skipped: u64) -> ProfileLosses {
    let lost = |slot: profile_lost| bpf::sum_over_cpus(object, map_name!(profile.lost), slot.0);
    ProfileLosses {
        stacks: lost(profile_lost::PROFILE_LOST_STACK),
        uncounted: lost(profile_lost::PROFILE_LOST_TIME),
        uncounted_time: Nanos(i64::try_from(lost(profile_lost::PROFILE_LOST_NS)).unwrap_or(i64::MAX)),
        intervals: lost(profile_lost::PROFILE_LOST_THREAD) + skipped,
        samples: lost(profile_lost::PROFILE_LOST_RING),
    }
}

/// An entry of the table, or an ongoing interval that is not in it yet.
struct Entry {
    user_stack: u64,
    kernel_stack: u64,
    tid: u32,
    state: CpuState,
    thread: Arc<str>,
    ns: u64,
    count: u64,
}

impl Entry {
    fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let (key, value): (types::stack_key, types::stack_time) = (whole(key)?, whole(value)?);
        Some(Self {
            user_stack: key.user_stack,
            kernel_stack: key.kernel_stack,
            tid: key.tid,
            state: if key.state == 0 { CpuState::On } else { CpuState::Off },
            thread: name(&key.comm),
            ns: value.ns,
            count: value.count,
        })
    }

    fn ongoing(tid: &[u8], off_cpu: &[u8], now: u64, options: &ProfileOptions) -> Option<Self> {
        let off_cpu: types::off_cpu = whole(off_cpu)?;
        let ns = now.checked_sub(off_cpu.since_ns).filter(|_| off_cpu.since_ns != 0)?;
        let tid = u32::from_ne_bytes(tid.try_into().ok()?);
        (u128::from(ns) >= options.off_cpu_from?.as_nanos()).then_some(())?;
        Some(Self {
            user_stack: off_cpu.user_stack,
            kernel_stack: off_cpu.kernel_stack,
            tid: if options.by_thread { tid } else { 0 },
            state: CpuState::Off,
            thread: name(&off_cpu.comm),
            ns,
            count: 1,
        })
    }
}

/// The stack with that number.
pub(super) fn stack(stacks: &Map<'_>, id: u64) -> Half {
    match id {
        STACK_NONE => Half::None,
        STACK_LOST => Half::Lost,
        _ => match stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY) {
            Ok(Some(bytes)) => frames_of(&bytes),
            _ => Half::Lost,
        },
    }
}

/// Parses a count of frames, then the frames.
fn frames_of(bytes: &[u8]) -> Half {
    let mut words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
    let Some(count) = words.next() else { return Half::Lost };
    Half::Frames(words.take(count as usize).collect())
}

/// A thread's name.
pub(super) fn name(comm: &[i8]) -> Arc<str> {
    String::from_utf8_lossy(text_of(comm)).into()
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The scheduler's function: frames further inside are the tracepoint and the BPF program.
const SCHEDULER: &str = "__schedule";
/// Replaces frames that were too many to be kept, or for which there was no room.
const TRUNCATED: &str = "[truncated]";
const LOST: &str = "[stack lost]";

/// One of the two stacks of a thread: return addresses, innermost first.
#[derive(Clone, Debug)]
pub(super) enum Half {
    /// The thread had no such stack.
    None,
    Lost,
    Frames(Vec<u64>),
}

/// Resolves addresses to names.
pub(super) struct Frames {
    kernel: Symbols,
    pub(super) user: UserCode,
}

impl Frames {
    pub(super) fn of(pid: u32) -> Result<Self, Error> {
        let kernel = Symbols::of_this_kernel().map_err(Error::Read)?;
        Ok(Self { kernel, user: UserCode::of(pid) })
    }

    pub(super) fn text(&mut self, user: &Half, kernel: &Half) -> Arc<str> {
        let mut names: Vec<Arc<str>> = note(user).into_iter().map(Into::into).collect();
        if let Half::Frames(frames) = user {
            names.extend(self.user.names(frames));
        }
        names.extend(note(kernel).map(|note| format!("{note}{}", StackTime::KERNEL).into()));
        if let Half::Frames(frames) = kernel {
            names.extend(self.kernel_names(frames));
        }
        names.join(";").into()
    }

    fn kernel_names(&self, frames: &[u64]) -> Vec<Arc<str>> {
        // If a call is a function's last instruction, its return address is the first of the next function.
        let inside =
            |(depth, &frame): (usize, &u64)| if depth == 0 { frame } else { frame.saturating_sub(1) };
        let name = |address| self.kernel.name_of(address).unwrap_or("[unknown]");
        let mut names: Vec<&str> = frames.iter().enumerate().map(inside).map(name).collect();
        if let Some(scheduler) = names.iter().position(|&name| name == SCHEDULER) {
            names.drain(..scheduler);
        }
        names.iter().rev().map(|name| format!("{name}{}", StackTime::KERNEL).into()).collect()
    }
}

/// The note in front of a stack's names.
fn note(half: &Half) -> Option<&'static str> {
    match half {
        Half::Lost => Some(LOST),
        Half::Frames(frames) if frames.len() >= MAX_FRAMES => Some(TRUNCATED),
        Half::None | Half::Frames(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CpuState, Entry, Half, frames_of};
    use crate::profile::ProfileOptions;

    fn key(state: u32) -> Vec<u8> {
        let mut key = [7_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat();
        key.extend([0_u32.to_ne_bytes(), state.to_ne_bytes()].concat());
        key.extend(b"handler\0\xff\xff\xff\xff\xff\xff\xff\xff");
        key
    }

    #[test]
    fn decodes_an_entry_but_no_truncated_one() {
        let value = [10_u64.to_ne_bytes(), 3_u64.to_ne_bytes()].concat();
        let entry = Entry::read(&key(1), &value).unwrap();
        assert_eq!((entry.user_stack, entry.kernel_stack, entry.state), (7, 9, CpuState::Off));
        assert_eq!((&*entry.thread, entry.ns, entry.count), ("handler", 10, 3));
        assert!(Entry::read(&key(0), &value).is_some() && Entry::read(&key(0)[..20], &value).is_none());
        assert!(Entry::read(&key(0), &value[..12]).is_none());
    }

    #[test]
    fn ongoing_interval_counts_if_it_is_long_enough() {
        let options = ProfileOptions {
            pid: 1,
            on_cpu_hz: None,
            off_cpu_from: Some(Duration::from_nanos(50)),
            calls: Vec::new(),
            by_thread: true,
            measure: false,
        };
        let off_cpu = |since: u64| {
            let mut bytes = [since.to_ne_bytes(), [0; 8], [0; 8]].concat();
            bytes.extend(*b"handler\0\0\0\0\0\0\0\0\0");
            bytes
        };
        let ongoing = |since| Entry::ongoing(&5_u32.to_ne_bytes(), &off_cpu(since), 1000, &options);
        assert_eq!(ongoing(900).map(|entry| (entry.ns, entry.tid)), Some((100, 5)));
        assert!(ongoing(960).is_none(), "too short");
        assert!(ongoing(0).is_none() && ongoing(2000).is_none(), "not off the CPU");
    }

    #[test]
    fn reads_the_counted_frames_of_a_stack() {
        let bytes = [2_u64.to_ne_bytes(), 0x10_u64.to_ne_bytes(), 0x20_u64.to_ne_bytes(), [0; 8]].concat();
        assert!(matches!(frames_of(&bytes), Half::Frames(frames) if frames == [0x10, 0x20]));
        let lying = [u64::MAX.to_ne_bytes(), 0x10_u64.to_ne_bytes()].concat();
        assert!(matches!(frames_of(&lying), Half::Frames(frames) if frames == [0x10]));
        assert!(matches!(frames_of(&[]), Half::Lost));
    }
}

#[cfg(test)]
mod frames_tests {
    use super::{Frames, Half, MAX_FRAMES};
    use crate::kallsyms::Symbols;
    use crate::user::UserCode;

    fn frames() -> Frames {
        let lines =
            "1000 T ksys_write\n2000 T io_schedule\n3000 t __schedule\n4000 T __traceiter_sched_switch\n";
        Frames { kernel: Symbols::read(lines.as_bytes()).unwrap(), user: UserCode::of(u32::MAX) }
    }

    #[test]
    fn kernel_frames_are_marked_and_tracer_frames_are_omitted() {
        let text = frames().text(&Half::None, &Half::Frames(vec![0x4010, 0x3010, 0x2010, 0x1010]));
        assert_eq!(&*text, "ksys_write_[k];io_schedule_[k];__schedule_[k]");
        assert_eq!(
            &*frames().text(&Half::None, &Half::Frames(vec![0x2000, 0x2000])),
            "ksys_write_[k];io_schedule_[k]"
        );
    }

    #[test]
    fn lost_and_truncated_stacks_are_marked() {
        assert_eq!(&*frames().text(&Half::Lost, &Half::Lost), "[stack lost];[stack lost]_[k]");
        let deep = Half::Frames(vec![0x1010; MAX_FRAMES]);
        let text = frames().text(&deep, &deep);
        assert!(text.starts_with("[truncated];[truncated]_[k];ksys_write_[k];"), "{text}");
    }
}
