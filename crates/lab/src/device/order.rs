//! The lines by which a device's server is controlled: an [`Order`] a line, answered by one line each.

use serde::{Deserialize, Serialize};

use super::delay::{Delay, Direction, Pace};

/// What the server is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Add a rule; its window counts from the moment the order is read.
    Delay(Delay),
    /// Do one write after the other, at this pace, beside what the rules say.
    Pace(Pace),
    /// Drop all rules and the pace.
    Clear,
    /// Say what was served lately, and forget it.
    Trace,
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is mounted.
    Ready,
    /// An order has been carried out; of [`Order::Trace`], what was served, oldest first.
    Done(Vec<DeviceOperation>),
    /// The line was no order.
    Refused(String),
}

/// One operation the server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceOperation {
    /// Read or write.
    pub direction: Direction,
    /// Offset on the device.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
    /// How long it was held back.
    pub held_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_lines_that_are_read_as_they_were_meant() {
        let delay =
            Delay { direction: Direction::Write, offset: 4096, length: u64::MAX, least_ms: 1, most_ms: 2 };
        for order in [
            Order::Delay(delay),
            Order::Pace(Pace { write_us: 5, bytes_per_second: 6 }),
            Order::Clear,
            Order::Trace,
        ] {
            let line = serde_json::to_string(&order).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        }
        for bad in ["", "clear", "\"Clean\"", "{\"Delay\":{\"offset\":1}}", "{\"Pace\":{\"write_us\":-1}}"] {
            assert!(serde_json::from_str::<Order>(bad).is_err(), "{bad}");
        }
    }
}
