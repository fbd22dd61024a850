//! One file a command.

pub(crate) mod advise;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod fleet;
pub(crate) mod io;
pub(crate) mod kernel;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod requests;
pub(crate) mod segment;
pub(crate) mod stacks;
pub(crate) mod top;
