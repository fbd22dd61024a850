//! The rows of groups: one with the latency on the wire and, where requests waited behind others, one with
//! what is left without that. Does not sort.

use std::net::SocketAddr;

use crate::distribution::Distribution;
use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, or_dash};
use crate::requests::overview::{Group, GroupBy, GroupKey, Groups, Kind, kinds::Client};
use crate::table::Column;

/// Longer names are shortened, so that rows fit a terminal.
pub(super) const LONGEST_NAME: usize = 30;
/// So much of a client's id is left beside a long address.
const SHORTEST_ID: usize = 8;
/// What the second row is called.
const ALONE: &str = "  alone";

pub(super) fn title(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Api => "By API, latency in ms",
        GroupBy::Topic => "By topic, latency in ms; its records' bytes",
        GroupBy::Client => "By client, latency in ms",
        GroupBy::Connection => "By connection, latency in ms",
    }
}

pub(super) fn columns(by: GroupBy, wide: bool) -> Vec<Column> {
    let mut columns = match by {
        GroupBy::Api => Vec::new(),
        GroupBy::Topic => vec![Column::text("TOPIC", 0)],
        GroupBy::Connection if wide => vec![Column::text("CLIENT", 0), Column::text("BROKER", 0)],
        GroupBy::Client | GroupBy::Connection => vec![Column::text("CLIENT", 0)],
    };
    columns.push(Column::text("API", 7));
    columns.push(Column::number("REQUESTS", 0));
    if wide || by == GroupBy::Api {
        columns.push(Column::number("PER_S", 0));
    }
    columns.push(Column::number("ERRORS", 0));
    columns.extend(
        PERCENTILES.iter().filter(|one| one.shown(by, wide)).map(|one| Column::number(one.heading, 0)),
    );
    columns.extend(match by {
        GroupBy::Topic => vec![Column::number("BYTES", 8)],
        GroupBy::Client | GroupBy::Connection if !wide => vec![Column::number("BYTES", 8)],
        _ => vec![Column::number("IN", 8), Column::number("OUT", 8)],
    });
    columns
}

/// What is told of latencies.
struct Percentile {
    heading: &'static str,
    of: fn(&Distribution) -> Option<u64>,
}

const PERCENTILES: [Percentile; 6] = [
    Percentile { heading: "P50", of: |spread| spread.quantile(0.5) },
    Percentile { heading: "P90", of: |spread| spread.quantile(0.9) },
    Percentile { heading: "P99", of: |spread| spread.quantile(0.99) },
    Percentile { heading: "P999", of: |spread| spread.quantile(0.999) },
    Percentile { heading: "MAX", of: Distribution::max },
    Percentile { heading: "MEAN", of: |spread| spread.mean().map(|ns| ns as u64) },
];

impl Percentile {
    /// Names need room.
    fn shown(&self, by: GroupBy, wide: bool) -> bool {
        match self.heading {
            "MEAN" => wide,
            "P90" => wide || by == GroupBy::Api,
            _ => true,
        }
    }
}

fn latencies(spread: &Distribution, by: GroupBy, wide: bool) -> Vec<String> {
    let shown = PERCENTILES.iter().filter(|one| one.shown(by, wide));
    shown.map(|one| or_dash((one.of)(spread).map(millis))).collect()
}

/// One row, or two.
pub(super) fn cells(
    groups: &Groups,
    (kind, who, group): &(Kind, GroupKey, Group),
    wide: bool,
) -> Vec<Vec<String>> {
    let by = who.by();
    let mut row = names(who, wide);
    let name_columns = row.len();
    row.push(api(*kind));
    row.push(group.requests.to_string());
    if wide || by == GroupBy::Api {
        row.push(groups.per_second(group.requests).map_or_else(|| NONE.to_owned(), rate));
    }
    row.push(group.errors.to_string());
    let before = row.len();
    let latency = latencies(group.latency(), by, wide);
    let alone = latencies(group.less_head_of_line(), by, wide);
    let differs = alone != latency;
    row.extend(latency);
    row.extend(match by {
        GroupBy::Topic => vec![format_bytes(group.record_bytes)],
        GroupBy::Client | GroupBy::Connection if !wide => {
            vec![format_bytes(group.request_bytes + group.response_bytes)]
        }
        _ => vec![format_bytes(group.request_bytes), format_bytes(group.response_bytes)],
    });
    if !differs {
        return vec![row];
    }
    let mut second = vec![String::new(); before];
    if let Some(cell) = second.get_mut(name_columns) {
        ALONE.clone_into(cell);
    }
    second.extend(alone);
    second.resize(row.len(), String::new());
    vec![row, second]
}

fn api(kind: Kind) -> String {
    match kind.hold {
        Some(hold) => format!("{} ({})", kind.api, hold.as_str().replace('-', " ")),
        None => kind.api.to_owned(),
    }
}

fn names(who: &GroupKey, wide: bool) -> Vec<String> {
    let longest = if wide { usize::MAX } else { LONGEST_NAME };
    match who {
        GroupKey::All | GroupKey::Others(GroupBy::Api) => Vec::new(),
        GroupKey::Topic(Some(topic), _) => vec![shortened(&escape(topic), longest)],
        // No topic's name has a colon.
        GroupKey::Topic(None, Some(id)) => vec![format!("id:{id}")],
        GroupKey::Topic(None, None) => vec![NONE.to_owned()],
        GroupKey::Client(client) => vec![client_shown(client, None, longest)],
        GroupKey::Connection(client, port, broker) if wide => {
            vec![client_shown(client, Some(*port), longest), broker.to_string()]
        }
        GroupKey::Connection(client, port, _) => vec![client_shown(client, Some(*port), longest)],
        GroupKey::Others(GroupBy::Connection) if wide => vec!["others".to_owned(), NONE.to_owned()],
        GroupKey::Others(_) => vec!["others".to_owned()],
    }
}

/// `client-id@host`, with the port of a connection: the id gives way where there is no room for both.
pub(super) fn client_shown(client: &Client, port: Option<u16>, longest: usize) -> String {
    let place =
        port.map_or_else(|| client.host.to_string(), |port| SocketAddr::new(client.host, port).to_string());
    match client.id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => {
            let room = longest.saturating_sub(place.len() + 1).max(SHORTEST_ID);
            format!("{}@{place}", shortened(&escape(id), room))
        }
        None => place,
    }
}

/// A long name without its middle: names often differ at their ends only.
fn shortened(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let head = (longest - 1) / 2;
    let tail = longest - 1 - head;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

/// Milliseconds, to three digits.
fn millis(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        _ if ms < 9.995 => format!("{ms:.2}"),
        _ if ms < 99.95 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// So many a second, to three digits.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        _ if per_second < 9.995 => format!("{per_second:.2}"),
        _ if per_second < 99.95 => format!("{per_second:.1}"),
        _ => format!("{per_second:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, client_shown, millis, shortened};

    #[test]
    fn milliseconds_have_three_digits() {
        for (ns, text) in [
            (0, "0.00"),
            (820_000, "0.82"),
            (9_994_000, "9.99"),
            (9_996_000, "10.0"),
            (99_960_000, "100"),
            (3_012_400_000, "3012"),
        ] {
            assert_eq!(millis(ns), text);
        }
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        let name = "payments-service-eu-west-producer-17";
        assert_eq!(shortened(name, 24), "payments-se…-producer-17");
        assert_eq!(shortened(name, usize::MAX), name);
        assert_eq!(shortened(&"ž".repeat(25), 24).chars().count(), 24);
    }

    #[test]
    fn an_address_stays_whole() {
        let client = Client { id: Some("payments-service-1".into()), host: [192, 168, 100, 200].into() };
        assert_eq!(client_shown(&client, Some(41_234), 30), "pay…ce-1@192.168.100.200:41234");
        assert_eq!(client_shown(&Client { id: None, ..client }, None, 30), "192.168.100.200");
    }
}
