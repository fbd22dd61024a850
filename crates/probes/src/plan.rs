//! Which hooks to use on this host: a pure function of [`Facts`]. Loads nothing.

mod needs;

use crate::facts::{Facts, Field};
use crate::registry::{Declaration, Function, Tracepoint, When};

pub use crate::registry::Purpose;
pub(crate) use needs::{meets, permits_bpf, permits_function, permits_process};

/// How a hook attaches to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Kernel functions, in [`Hook::functions`], at entry and return (fentry, fexit).
    Functions,
    /// Classic tracepoints, in [`Hook::points`].
    Tracepoints,
    /// Tracepoints with typed arguments, with these programs. They need BTF but no tracefs.
    BtfTracepoints(&'static [&'static str]),
    /// A sampling clock on each CPU, which runs this program.
    CpuClock(&'static str),
    /// `bpf_get_stack` and `/proc/kallsyms`, within the hook of [`Purpose::OffCpu`].
    StackHelper,
}

/// Whether a hook can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It will be used.
    Use,
    /// It cannot be.
    Missing {
        /// What this host lacks.
        why: String,
        /// What to do about it, where something can be done.
        remedy: Option<String>,
    },
}

/// A hook for one purpose, and whether it can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What it is for.
    pub purpose: Purpose,
    /// How it attaches.
    pub mechanism: Mechanism,
    /// Whether it is available here.
    pub state: State,
    /// The classic tracepoints to attach to; empty for missing hooks.
    pub points: Vec<Point>,
    /// The kernel's functions to attach to; empty for missing hooks.
    pub functions: Vec<&'static Function>,
}

/// A classic tracepoint of the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The tracepoint and the program on it.
    pub tracepoint: &'static Tracepoint,
    /// Its id on this kernel.
    pub id: u64,
    /// The fields that the program reads, in the order of their declaration.
    pub fields: Vec<Field>,
}

/// What to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One hook per [`Purpose`], in its order.
    pub hooks: Vec<Hook>,
    /// The kernel's HZ, if known.
    pub hz: Option<u32>,
    facts: Box<Facts>,
    /// Whether it contains only rare purposes ([`Purpose::is_rare`]).
    pub(crate) is_rare: bool,
}

impl Plan {
    /// Chooses hooks from the facts alone.
    pub fn choose(facts: &Facts) -> Self {
        let mut hooks: Vec<Hook> = Vec::with_capacity(Purpose::ALL.len());
        for purpose in Purpose::ALL {
            hooks.push(Hook::choose(purpose, facts, &hooks));
        }
        Self { hooks, hz: facts.hz, facts: Box::new(facts.clone()), is_rare: false }
    }

    /// Like [`Plan::choose`], for an always-on watch: only rare events, and no system calls, switches or wake-ups.
    pub fn choose_rare(facts: &Facts) -> Self {
        let mut plan = Self::choose(facts);
        plan.is_rare = true;
        for hook in plan.hooks.iter_mut().filter(|hook| !hook.is_rare()) {
            let why = "not watched while always on: it costs the broker too much".to_owned();
            *hook = Hook::missing(hook.purpose, hook.mechanism, State::Missing { why, remedy: None });
        }
        plan
    }

    /// The plan after the kernel refused a program: other hooks instead, or none for its purposes.
    pub(crate) fn without(&self, program: &str, why: &str) -> Self {
        let mut facts = self.facts.clone();
        facts.refused.insert(program.to_owned(), why.to_owned());
        if self.is_rare { Self::choose_rare(&facts) } else { Self::choose(&facts) }
    }

    /// Whether this purpose will be served.
    pub fn uses(&self, purpose: Purpose) -> bool {
        self.used().any(|hook| hook.purpose == purpose)
    }

    /// Whether it uses this program.
    pub(crate) fn needs(&self, program: &str) -> bool {
        self.used().flat_map(Hook::programs).any(|name| name == program)
    }

    /// The hooks that will be used.
    pub fn used(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| hook.is_used())
    }
}

impl Hook {
    /// Uses kernel functions if they can be hooked, else the purpose's other mechanism.
    fn choose(purpose: Purpose, facts: &Facts, before: &[Self]) -> Self {
        let declaration = purpose.declaration();
        let mechanism = mechanism(declaration, facts);
        if let Err(missing) = required(declaration, before) {
            return Self::missing(purpose, mechanism, missing);
        }
        if !declaration.functions.is_empty() {
            let hook = match needs::functions(purpose, facts) {
                Ok(functions) => Self { functions, ..Self::new(purpose, Mechanism::Functions) },
                Err(missing) => Self::missing(purpose, Mechanism::Functions, missing),
            };
            let hook = hook.unless_refused(facts);
            if hook.is_used() || mechanism == Mechanism::Functions {
                return hook;
            }
        }
        match needs::points(declaration, mechanism, facts) {
            Ok(points) => Self { points, ..Self::new(purpose, mechanism) }.unless_refused(facts),
            Err(missing) => Self::missing(purpose, mechanism, missing),
        }
    }

    fn new(purpose: Purpose, mechanism: Mechanism) -> Self {
        Self { purpose, mechanism, state: State::Use, points: Vec::new(), functions: Vec::new() }
    }

    fn missing(purpose: Purpose, mechanism: Mechanism, state: State) -> Self {
        Self { state, ..Self::new(purpose, mechanism) }
    }

    /// Marks the hook as missing if the kernel refused one of its programs.
    fn unless_refused(self, facts: &Facts) -> Self {
        let refused = self.programs().find_map(|name| facts.refused.get_key_value(name));
        let Some((program, why)) = refused else { return self };
        let why = format!("this kernel refuses the program {program}: {why}");
        Self::missing(self.purpose, self.mechanism, State::Missing { why, remedy: None })
    }

    /// Whether it hooks nothing that a broker does for each request.
    fn is_rare(&self) -> bool {
        let is_system_call = |point: &Point| point.tracepoint.name.starts_with("syscalls/");
        self.purpose.is_rare() && !self.points.iter().any(is_system_call)
    }

    /// Whether it will be used.
    pub fn is_used(&self) -> bool {
        self.state == State::Use
    }

    /// The programs for tracepoints with typed arguments.
    pub(crate) fn typed_programs(&self) -> &'static [&'static str] {
        match self.mechanism {
            Mechanism::BtfTracepoints(programs) if self.is_used() => programs,
            _ => &[],
        }
    }

    /// The program for the clock of each CPU.
    pub(crate) fn clock_program(&self) -> Option<&'static str> {
        match self.mechanism {
            Mechanism::CpuClock(program) if self.is_used() => Some(program),
            _ => None,
        }
    }

    /// The BPF programs it needs.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &'static str> {
        let functions = self.functions.iter().flat_map(|function| [function.entry, function.exit]);
        let points = self.points.iter().map(|point| point.tracepoint.program);
        points.chain(self.typed_programs().iter().copied()).chain(functions).chain(self.clock_program())
    }

    /// Describes what it is attached to, for people.
    pub fn describe(&self) -> String {
        let points: Vec<_> = self.points.iter().map(|point| point.tracepoint.name).collect();
        let functions: Vec<_> = self.functions.iter().map(|function| function.name).collect();
        match self.mechanism {
            Mechanism::Tracepoints if points.is_empty() => "tracepoints".to_owned(),
            Mechanism::Tracepoints => points.join(" "),
            Mechanism::BtfTracepoints(names) => format!("BTF tracepoints {}", names.join(" ")),
            Mechanism::Functions if functions.is_empty() => "kernel functions".to_owned(),
            Mechanism::Functions => format!("functions {}", functions.join(" ")),
            Mechanism::CpuClock(_) => "a clock of 100 Hz on each CPU".to_owned(),
            Mechanism::StackHelper => "bpf_get_stack".to_owned(),
        }
    }
}

fn holds(when: When, facts: &Facts) -> bool {
    match when {
        When::Always => true,
        When::Btf => facts.btf,
        When::BlockQueueArgument => facts.btf && facts.block_queue_argument,
    }
}

/// The best mechanism on this host, other than functions.
fn mechanism(declaration: &Declaration, facts: &Facts) -> Mechanism {
    if let Some(program) = declaration.clock {
        return Mechanism::CpuClock(program);
    }
    match declaration.typed.iter().find(|(when, _)| holds(*when, facts)) {
        Some((_, programs)) => Mechanism::BtfTracepoints(programs),
        None if !declaration.tracepoints.is_empty() => Mechanism::Tracepoints,
        None if !declaration.functions.is_empty() => Mechanism::Functions,
        None => Mechanism::StackHelper,
    }
}

fn required(declaration: &Declaration, before: &[Hook]) -> Result<(), State> {
    let is_used = |basis: &Purpose| before.iter().any(|hook| hook.purpose == *basis && hook.is_used());
    match declaration.requires.iter().find(|basis| !is_used(basis)) {
        None => Ok(()),
        Some(basis) => {
            Err(State::Missing { why: format!("needs {}, which is missing", basis.as_str()), remedy: None })
        }
    }
}

#[cfg(test)]
mod tests;
