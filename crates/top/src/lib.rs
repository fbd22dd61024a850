//! A full-screen view of a broker's activity and of the reasons for slow requests.
//!
//! Three parts, each of which depends only on those before it: [`State`] is the data, a pure function of events and
//! verdicts; [`Ui`] is the user's view of it, a function of keys; [`draw`] puts both on a screen of any size.
//! [`Screen`] is the terminal, which it always restores. The crate does not know where events come from, and reads no
//! clock: live and replay are the same to it.
//!
//! Text from outside is escaped before it is drawn; all state is bounded.

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
