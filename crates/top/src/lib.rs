//! A full-screen view of what a broker does and why its requests are slow.
//!
//! Three parts that know of each other one way only: [`State`] is what is shown, a pure function of events and verdicts;
//! [`Ui`] is what the user looks at of it, a function of keys; [`draw`] puts both on a screen of any size. [`Screen`]
//! is the terminal, which it restores in every case. It does not know where events come from, and reads
//! no clock: live and replay are the same to it.
//!
//! Text from outside is escaped before it is drawn; everything that is kept is bounded.

mod clip;
mod draw;
mod item;
mod keys;
mod listing;
mod palette;
mod screen;
mod state;
mod ui;
mod view;

pub use draw::draw;
pub use keys::Key;
pub use palette::Palette;
pub use screen::Screen;
pub use state::{BrokerInfo, Overhead, Progress, State};
pub use ui::{Outcome, Ui};
