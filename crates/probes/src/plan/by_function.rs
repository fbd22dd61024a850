//! Whether a purpose can be served by hooking the kernel's functions, which costs threads that do not call them
//! nothing. Where it cannot, tracepoints may serve: see [`super::missing`].

use super::{Purpose, State, missing};
use crate::facts::{Facts, Lockdown};
use crate::functions::Function;
use crate::tracepoints::Absent;

/// The functions to hook, or the first thing that is missing; none for purposes that no function serves.
pub(super) fn check(purpose: Purpose, facts: &Facts) -> Option<Result<Vec<Function>, State>> {
    let wanted = purpose.functions(facts);
    (!wanted.is_empty()).then(|| available(purpose, facts, wanted))
}

fn available(purpose: Purpose, facts: &Facts, wanted: Vec<Function>) -> Result<Vec<Function>, State> {
    missing::check_host(purpose, facts)?;
    if let Some(refused) = &facts.functions.refused {
        return Err(State::Missing {
            why: format!("the kernel does not let programs hook its functions ({refused})"),
            remedy: Some(remedy(facts)),
        });
    }
    let wanted = wanted.into_iter().filter(|function| !is_needless(function, facts));
    let known = wanted.map(|function| known(function, facts)).collect::<Result<Vec<_>, _>>()?;
    if known.is_empty() {
        return Err(State::Missing { why: no_functions(purpose).to_owned(), remedy: None });
    }
    Ok(known)
}

/// All of them are done without: they are in a module that is not there.
fn no_functions(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Ext4Functions => "ext4 is not loaded, or has no BTF",
        Purpose::XfsFunctions => "xfs is not loaded, or has no BTF",
        Purpose::BtrfsFunctions => "btrfs is not loaded, or has no BTF",
        _ => "this kernel has none of its functions",
    }
}

fn remedy(facts: &Facts) -> String {
    let what = match facts.lockdown {
        Lockdown::Integrity => "boot with lockdown=none",
        Lockdown::Unknown if facts.functions.is_forbidden() => {
            "boot with lockdown=none, if `mount -t securityfs nodev /sys/kernel/security` shows that it is on in \
             /sys/kernel/security/lockdown"
        }
        _ => {
            "Linux 5.11 or newer with CONFIG_DEBUG_INFO_BTF_MODULES=y and \
             CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y"
        }
    };
    format!("{what}; or leave it: tracepoints serve everything but exact lengths of kernel functions")
}

fn is_needless(function: &Function, facts: &Facts) -> bool {
    function.absent == Absent::Fine && !facts.functions.known.contains(&function.name)
}

fn known(function: Function, facts: &Facts) -> Result<Function, State> {
    if facts.functions.known.contains(&function.name) {
        return Ok(function);
    }
    Err(State::Missing { why: format!("this kernel has no function {}", function.name), remedy: None })
}
