//! Brokers, one of them odd, against their golden files: as in the case of mysterious disk reads, with names that would
//! steer a terminal.

use ::fleet::{Broker, BrokerName, Figure, FigureValue, Fleet, Item, Part, PartKind};
use report::fleet::{write_differences, write_figures};

use super::{CSV, JSON, golden, table};

/// A figure of segments and state files.
fn reads(segments: f64, states: f64) -> FigureValue {
    let items = [
        ("retriever-mutation-53/00000000000000000000.tierstate.mutable", 0.6),
        ("m\x1b[31m-7/0.tierstate", 0.3),
    ];
    let items = items.map(|(name, share)| Item { name: name.into(), value: share * states });
    let of_states = Part { value: states, items: items.to_vec() };
    let of_segments = Part { value: segments, items: Vec::new() };
    let parts = [("log".into(), of_segments), ("tierstate".into(), of_states)];
    FigureValue { value: segments + states, kind: PartKind::FileKind, parts: parts.into() }
}

fn plain(value: f64) -> FigureValue {
    FigureValue { value, kind: PartKind::None, parts: [].into() }
}

fn broker(number: usize, cluster: &str) -> Broker {
    let odd = number == 4;
    let figures = [
        (Figure::DeviceReads, reads(6_000.0 + number as f64, if odd { 48_000.0 } else { 0.0 })),
        (Figure::WriteTime, plain(0.04)),
        (Figure::BatchBytes, plain(if number == 7 { 900.0 } else { 16_000.0 })),
    ];
    let name = BrokerName { cluster: cluster.to_owned(), broker: number.to_string() };
    Broker { name, seconds: 3_600.0, figures: figures.into() }
}

fn fleet() -> Fleet {
    let odd_name = "stag\u{202e}ing,\"x\"";
    let prod = (1..=9).map(|number| broker(number, "prod"));
    Fleet::of(prod.chain((1..=2).map(|number| broker(number, odd_name))).collect())
}

#[test]
fn differences_between_brokers_in_every_format() {
    let fleet = fleet();
    golden("fleet.txt", |out| write_differences(out, &table(false), &fleet, 1).unwrap());
    golden("fleet-wide.txt", |out| write_differences(out, &table(true), &fleet, 9).unwrap());
    golden("fleet.jsonl", |out| write_differences(out, &JSON, &fleet, 9).unwrap());
    golden("fleet.csv", |out| write_differences(out, &CSV, &fleet, 9).unwrap());
    golden("fleet-alike.txt", |out| {
        let alike = Fleet::of((1..=3).chain(5..=6).map(|number| broker(number, "prod")).collect());
        write_differences(out, &table(false), &alike, 9).unwrap();
    });
}

#[test]
fn figures_of_every_broker_in_every_format() {
    let fleet = fleet();
    golden("fleet-figures.txt", |out| write_figures(out, &table(false), &fleet.brokers).unwrap());
    golden("fleet-figures.jsonl", |out| write_figures(out, &JSON, &fleet.brokers).unwrap());
    golden("fleet-figures.csv", |out| write_figures(out, &CSV, &fleet.brokers).unwrap());
}
