//! What makes requests slow: the table of causes, and one file a concept with their declarations and finders.
//!
//! A finder says what its cause explains of an operation, a thread or a stage, with the evidence. It names nothing that
//! the evidence does not prove.

pub(crate) mod advice;
pub(crate) mod candidate;
pub(crate) mod cpu;
pub(crate) mod device;
pub(crate) mod file_system;
pub(crate) mod handlers;
pub(crate) mod jvm;
pub(crate) mod lock_chain;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod operation;
pub(crate) mod protocol;
