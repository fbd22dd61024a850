//! Tests of the metrics of invented events, as a scraper reads them.

mod broker;
mod catalogue;
mod counting;
mod growing;
mod kernel;
mod native;
mod serving;
mod topics;

use std::collections::BTreeMap;

use diagnose::Config;
use model::{Event, FileKind, Nanos};

use crate::{BrokerInfo, Classifiers, Exporter, Format, LogDir, ProcessUsage};

pub(crate) fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

/// The result of a scrape: each series, as written, with its value.
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    pub(crate) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut series = BTreeMap::new();
        for line in lines {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let twice = series.insert(name.to_owned(), value.parse().unwrap());
            assert_eq!(twice, None, "{name} is there twice");
        }
        Self(series)
    }

    /// The value of a series, by name and labels, without the prefix `brokerscope_`.
    #[track_caller]
    pub(crate) fn of_series(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.0))
    }

    pub(crate) fn find(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("brokerscope_{name}")).copied()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

pub(crate) fn about() -> BrokerInfo {
    BrokerInfo {
        top_topics: 2,
        log_dirs: vec![LogDir { device: (7, 0), path: "/data".to_owned() }],
        node_id: Some(1),
        host: "host".to_owned(),
        kernel: "6.18".to_owned(),
        version: "0".to_owned(),
        plan: vec![("file-writes".to_owned(), true), ("requests".to_owned(), false)],
        is_always_on: false,
    }
}

/// An exporter with a threshold of 100 ms. Threads are named by their roles.
pub(crate) fn exporter() -> Exporter {
    exporter_of(about())
}

pub(crate) fn exporter_of(about: BrokerInfo) -> Exporter {
    let role_of = |name: &str| if name.starts_with("data-plane") { "request-handlers" } else { "other" };
    let kind_of = |path: &str| if path.contains(".log") { FileKind::Log } else { FileKind::Other };
    Exporter::new(Config::replay(ms(100)), about, Classifiers { role_of, kind_of })
}

pub(crate) fn scrape(exporter: &mut Exporter) -> Scrape {
    Scrape::of(&String::from_utf8(exporter.write(Format::Text, &ProcessUsage::default())).unwrap())
}

/// Scrapes after these events.
pub(crate) fn collect(events: impl IntoIterator<Item = Event>) -> Scrape {
    collect_from(exporter(), events)
}

pub(crate) fn collect_from(mut exporter: Exporter, events: impl IntoIterator<Item = Event>) -> Scrape {
    for event in events {
        exporter.push(event);
    }
    exporter.finish();
    scrape(&mut exporter)
}
