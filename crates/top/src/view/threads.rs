//! What the broker's threads did in the last seconds, each by itself or all of a role together.

use report::quantity::{NONE, format_count};
use report::thread_state::ThreadState;

use crate::clip::{clip, clip_middle};
use crate::item::{Cell, Column, Item, Rank, RowKey, bar, cell};
use crate::palette::Tone;
use crate::state::State;
use crate::state::about::BrokerInfo;
use crate::state::threads::{Course, OfRole, Shares};

pub(crate) const BUSY: usize = 1;
pub(crate) const ROLE_BUSY: usize = 2;

/// A share of a thread's time, as a number.
const fn share(name: &'static str) -> Column {
    Column::number(name, 5)
}

pub(crate) const COLUMNS: [Column; 11] = [
    Column::text("THREAD", 16).growing(3, 60),
    share("BUSY"),
    Column::text("STATES", 12).growing(3, 50),
    share("CPU"),
    share("RUNQ"),
    share("FILE"),
    share("BLOCK"),
    share("LOCK"),
    share("STOP"),
    Column::number("TID", 7),
    Column::text("ROLE", 17).spare(1),
];

pub(crate) const ROLE_COLUMNS: [Column; 11] = [
    Column::text("ROLE", 17).growing(1, 26),
    Column::number("THREADS", 7),
    share("BUSY"),
    Column::text("STATES", 10).growing(3, 50),
    share("CPU"),
    share("RUNQ"),
    share("FILE"),
    share("BLOCK"),
    share("LOCK"),
    share("STOP"),
    Column::number("HOST'S CPUS", 11).spare(1),
];

pub(crate) fn threads(state: &State) -> Vec<Box<dyn Item + '_>> {
    let sampled = state.threads.sampled();
    let courses = state.threads.courses().into_iter();
    courses.map(|course| Box::new(ThreadRow { course, sampled }) as Box<dyn Item + '_>).collect()
}

pub(crate) fn roles(state: &State) -> Vec<Box<dyn Item + '_>> {
    let sampled = state.threads.sampled();
    let roles = state.threads.roles().into_iter();
    let row = |of: OfRole| RoleRow { each: of.shares.each_of(of.threads), of, sampled };
    roles.map(|of| Box::new(row(of)) as Box<dyn Item + '_>).collect()
}

/// The letter of a state in bars.
pub(crate) fn letter(state: ThreadState) -> char {
    match state {
        ThreadState::Running => 'C',
        ThreadState::Runnable => 'R',
        ThreadState::FileOp => 'F',
        ThreadState::Blocked => 'B',
        ThreadState::Lock => 'L',
        ThreadState::Stopped => 'S',
        ThreadState::Idle => '·',
    }
}

/// The states that have a column, in order.
const SHOWN: [ThreadState; 6] = [
    ThreadState::Running,
    ThreadState::Runnable,
    ThreadState::FileOp,
    ThreadState::Blocked,
    ThreadState::Lock,
    ThreadState::Stopped,
];

fn states(shares: &Shares, width: usize) -> Cell {
    let parts = ThreadState::ALL.map(|state| (letter(state), Tone::State(state), shares.of(state)));
    bar(&parts, 1.0, width)
}

/// The share in the state of a column; time on a CPU only where anything tells of it.
fn state_share(shares: &Shares, nth: usize, sampled: bool) -> Cell {
    match SHOWN.get(nth) {
        Some(ThreadState::Running) if !sampled => cell(NONE.to_owned(), Tone::Faint),
        Some(&state) => per_cent(shares.of(state), Tone::Plain),
        None => Cell::new(),
    }
}

fn state_rank(shares: &Shares, nth: usize) -> Rank {
    Rank::of_share(SHOWN.get(nth).map_or(0.0, |&state| shares.of(state)))
}

fn per_cent(share: f64, tone: Tone) -> Cell {
    let per_cent = share * 100.0;
    match per_cent {
        none if none <= 0.0 => cell(NONE.to_owned(), Tone::Faint),
        little if little < 0.05 => cell("<0.1%".to_owned(), Tone::Faint),
        some if some < 9.95 => cell(format!("{some:.1}%"), tone),
        much => cell(format!("{much:.0}%"), tone),
    }
}

struct ThreadRow {
    course: Course,
    sampled: bool,
}

impl Item for ThreadRow {
    fn key(&self) -> RowKey {
        RowKey::Thread(self.course.tid)
    }

    fn rank(&self, column: usize) -> Rank {
        let Course { tid, name, role, shares } = &self.course;
        match column {
            0 => Rank::Text(name.to_string()),
            1 | 2 => Rank::of_share(shares.busy()),
            3..=8 => state_rank(shares, column - 3),
            9 => Rank::Number((*tid).into()),
            _ => Rank::Text(role.as_str().to_owned()),
        }
    }

    fn cell(&self, column: usize, width: usize, _about: &BrokerInfo) -> Cell {
        let Course { tid, name, role, shares } = &self.course;
        match column {
            0 => cell(clip_middle(name, width), Tone::Plain),
            1 => per_cent(shares.busy(), Tone::Strong),
            2 => states(shares, width),
            3..=8 => state_share(shares, column - 3, self.sampled),
            9 => cell(tid.to_string(), Tone::Plain),
            _ => cell(clip(role.as_str(), width), Tone::Name),
        }
    }

    fn words(&self) -> String {
        let Course { tid, name, role, .. } = &self.course;
        format!("{name} {} {tid}", role.as_str())
    }
}

struct RoleRow {
    of: OfRole,
    each: Shares,
    sampled: bool,
}

impl Item for RoleRow {
    fn key(&self) -> RowKey {
        RowKey::Role(self.of.role.as_str())
    }

    fn rank(&self, column: usize) -> Rank {
        match column {
            0 => Rank::Text(self.of.role.as_str().to_owned()),
            1 => Rank::of_count(self.of.threads),
            2 | 3 => Rank::of_share(self.each.busy()),
            4..=9 => state_rank(&self.each, column - 4),
            _ => Rank::of_share(self.of.processors.unwrap_or(0.0)),
        }
    }

    fn cell(&self, column: usize, width: usize, _about: &BrokerInfo) -> Cell {
        match column {
            0 => cell(clip(self.of.role.as_str(), width), Tone::Name),
            1 => cell(format_count(self.of.threads), Tone::Plain),
            2 => per_cent(self.each.busy(), Tone::Strong),
            3 => states(&self.each, width),
            4..=9 => state_share(&self.each, column - 4, self.sampled),
            _ => match self.of.processors {
                Some(processors) => cell(format!("{processors:.2}"), Tone::Plain),
                None => cell(NONE.to_owned(), Tone::Faint),
            },
        }
    }

    fn words(&self) -> String {
        self.of.role.as_str().to_owned()
    }
}
