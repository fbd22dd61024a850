//! Which broker is different, in what, and what makes the difference: pure functions over the events of many brokers.
//!
//! Computes [`Figure`]s of each broker in bounded memory ([`FileStats`], [`RequestStats`], [`HostStats`],
//! [`VerdictStats`], together a [`Broker`]), each with its parts: kinds of file, topics, causes. The brokers of one
//! cluster are measured by their median and by the median absolute deviation from it (Hampel, "The Influence Curve and
//! Its Role in Robust Estimation", JASA 69, 1974), which a few odd brokers do not move. A broker differs if it is
//! further from the median than 3.5 of these, scaled to a standard deviation (Iglewicz and Hoaglin, "How to Detect and
//! Handle Outliers", 1993). No deviation counts as smaller than a tenth of the median or the figure's floor, so that a
//! cluster of nearly identical brokers has no odd one. Clusters of fewer than four brokers are not compared.
//!
//! `deploy/sql/views.sql` computes the same in SQL; a test holds both to the same answers. Does not know where events
//! come from or how differences are shown.

mod broker;
mod difference;
mod figure;
mod of_files;
mod of_host;
mod of_requests;
mod of_verdicts;
mod parts;
mod spread;

pub use broker::{Broker, BrokerName, BrokerStats};
pub use difference::{Difference, Fleet, MIN_BROKERS, Reason};
pub use figure::{Figure, Unit};
pub use of_files::FileStats;
pub use of_host::HostStats;
pub use of_requests::RequestStats;
pub use of_verdicts::VerdictStats;
pub use parts::{FigureValue, Item, Part, PartKind};
pub use spread::Spread;
