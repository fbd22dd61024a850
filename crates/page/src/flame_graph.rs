//! Time by stack: as folded text for other tools, and as a flame graph, an SVG that needs nothing but a
//! browser. Does not know how the stacks were seen.
//!
//! A flame graph here has a panel for time on the CPU and one for time off it, each with its own scale:
//! threads wait a hundred times as long as they run, and on one scale nothing of the latter would be seen.
//! That, and two sets of colours in one picture, is why the picture is drawn here and by no library.

mod colour;
mod fold;
mod layout;
mod svg;
mod xml;

pub use fold::{FoldedStacks, Total};
pub use svg::write_svg;

/// What a flame graph says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What was looked at.
    pub title: String,
    /// How, and for how long: one sentence each.
    pub notes: Vec<String>,
    /// What was lost or could not be seen: one sentence each.
    pub missing: Vec<String>,
}
