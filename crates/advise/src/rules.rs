//! All rules, by topic. The order ranks rules without a measured cost: those about lost request time first, then those that
//! protect from it.

mod broker;
pub(crate) mod causes;
mod clients;
mod disk;
pub(crate) mod jvm;
mod kernel;
mod locks;
mod network;

use std::sync::LazyLock;

use crate::Rule;

/// Every rule: one for each cause with advice, then the others.
pub static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let of_inputs = [
        disk::RULES,
        locks::RULES,
        network::RULES,
        clients::RULES,
        broker::RULES,
        jvm::RULES,
        kernel::RULES,
        disk::MOUNT_OPTIONS,
    ];
    causes::rules().chain(of_inputs.into_iter().flatten().copied()).collect()
});
