//! The rows of groups: one with the latency on the wire and, where requests waited behind others, one with
//! what is left without that. Does not sort.

use std::net::SocketAddr;

use crate::escape::escape;
use crate::numbers::{NONE, or_none, size};
use crate::requests::overview::spread::Spread;
use crate::requests::overview::{By, Group, Groups, Kind, Who, kinds::Client};
use crate::table::Column;

/// Longer names are shortened, so that rows fit a terminal.
const LONGEST_NAME: usize = 24;
/// What the second row is called.
const ALONE: &str = "  alone";

pub(super) fn title(by: By) -> &'static str {
    match by {
        By::Api => "By API, latency in ms",
        By::Topic => "By topic, latency in ms; its records' bytes",
        By::Client => "By client, latency in ms",
        By::Connection => "By connection, latency in ms",
    }
}

pub(super) fn columns(by: By, wide: bool) -> Vec<Column> {
    let mut columns = match by {
        By::Api => Vec::new(),
        By::Topic => vec![Column::text("TOPIC", 0)],
        By::Client => vec![Column::text("CLIENT", 0)],
        By::Connection if wide => vec![Column::text("CLIENT", 0), Column::text("BROKER", 0)],
        By::Connection => vec![Column::text("CLIENT", 0)],
    };
    columns.push(Column::text("API", 7));
    columns.push(Column::number("REQUESTS", 0));
    if wide || by == By::Api {
        columns.push(Column::number("PER_S", 0));
    }
    columns.extend(["ERRORS", "P50", "P90", "P99", "P999", "MAX"].map(|heading| Column::number(heading, 0)));
    if wide {
        columns.push(Column::number("MEAN", 0));
    }
    columns.extend(match by {
        By::Topic => vec![Column::number("BYTES", 8)],
        _ => vec![Column::number("IN", 8), Column::number("OUT", 8)],
    });
    columns
}

/// One row, or two.
pub(super) fn cells(
    groups: &Groups,
    (kind, who, group): &(Kind, Who, Group),
    wide: bool,
) -> Vec<Vec<String>> {
    let by = who.by();
    let mut row = names(who, wide);
    let name_columns = row.len();
    row.push(api(*kind));
    row.push(group.requests.to_string());
    if wide || by == By::Api {
        row.push(groups.per_second(group.requests).map_or_else(|| NONE.to_owned(), rate));
    }
    row.push(group.errors.to_string());
    let before = row.len();
    let latency = latencies(group.latency(), wide);
    let alone = latencies(group.less_head_of_line(), wide);
    let differs = alone != latency;
    row.extend(latency);
    row.extend(match by {
        By::Topic => vec![size(group.record_bytes)],
        _ => vec![size(group.request_bytes), size(group.response_bytes)],
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

fn names(who: &Who, wide: bool) -> Vec<String> {
    let name = |text: String| shortened(&text, wide);
    match who {
        Who::All | Who::Others(By::Api) => Vec::new(),
        Who::Topic(Some(topic), _) => vec![name(escape(topic).into_owned())],
        // No topic's name has a colon.
        Who::Topic(None, Some(id)) => vec![name(format!("id:{id}"))],
        Who::Topic(None, None) => vec![NONE.to_owned()],
        Who::Client(client) => vec![name(client_shown(client, None))],
        Who::Connection(client, port, broker) if wide => {
            vec![name(client_shown(client, Some(*port))), broker.to_string()]
        }
        Who::Connection(client, port, _) => vec![name(client_shown(client, Some(*port)))],
        Who::Others(By::Connection) if wide => vec!["others".to_owned(), NONE.to_owned()],
        Who::Others(_) => vec!["others".to_owned()],
    }
}

/// `client-id@host`, with the port of a connection.
pub(super) fn client_shown(client: &Client, port: Option<u16>) -> String {
    let place =
        port.map_or_else(|| client.host.to_string(), |port| SocketAddr::new(client.host, port).to_string());
    let id = client.id.as_deref().unwrap_or_default();
    format!("{}@{place}", escape(id))
}

/// A long name without its middle: names often differ at their ends only.
pub(super) fn shortened(text: &str, wide: bool) -> String {
    let length = text.chars().count();
    if wide || length <= LONGEST_NAME {
        return text.to_owned();
    }
    let head = (LONGEST_NAME - 1) / 2;
    let tail = LONGEST_NAME - 1 - head;
    let front = text.chars().take(head);
    front.chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

fn latencies(spread: &Spread, wide: bool) -> Vec<String> {
    let quantiles = [0.5, 0.9, 0.99, 0.999].map(|share| spread.quantile(share));
    let mut cells =
        quantiles.into_iter().chain([spread.max()]).map(|ns| or_none(ns.map(millis))).collect::<Vec<_>>();
    if wide {
        cells.push(or_none(spread.mean().map(|ns| millis(ns as u64))));
    }
    cells
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
    use super::{millis, shortened};

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
        assert_eq!(shortened(name, false), "payments-se…producer-17");
        assert_eq!(shortened(name, true), name);
        assert_eq!(shortened("short", false), "short");
        assert_eq!(shortened(&"ž".repeat(25), false).chars().count(), 24);
    }
}
