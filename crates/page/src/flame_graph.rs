//! Time by stack: as folded text for other tools, and as a flame graph, an SVG that needs only a browser. Does not
//! know how the stacks were captured.
//!
//! A flame graph here has a panel for time on the CPU and one for time off it, each with its own scale: threads wait a
//! hundred times as long as they run, so on one scale time on the CPU would be invisible. Because of this, and of the
//! two sets of colours, the picture is drawn here and not by a library.

mod colour;
mod fold;
mod layout;
mod svg;
mod xml;

pub use fold::{FoldedStacks, Total};
pub use svg::write_svg;

/// Header of a flame graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What was observed.
    pub title: String,
    /// How it was observed, and for how long: one sentence each.
    pub notes: Vec<String>,
    /// What was lost or could not be seen: one sentence each.
    pub missing: Vec<String>,
}
