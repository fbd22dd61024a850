//! A real broker and real clients, ready to be watched.

use std::path::{Path, PathBuf};

use lab::kafka::Kafka;
use lab::{Broker, BrokerOptions};

use crate::clients::Clients;

/// A running broker that writes Kafka's request log; stopped when dropped.
#[derive(Debug)]
pub struct Bench {
    broker: Broker,
    bootstrap: String,
    request_log: PathBuf,
    clients: Clients,
}

impl Bench {
    /// Starts a broker of this version, and installs the clients. All its files are in `directory`. Java's client is of
    /// the broker's version.
    ///
    /// # Panics
    /// If that fails.
    pub fn start(version: &str, directory: &Path) -> Self {
        Self::start_as(version, directory, |_| {})
    }

    /// As [`Bench::start`], with adjusted broker options.
    ///
    /// # Panics
    /// As [`Bench::start`].
    pub fn start_as(version: &str, directory: &Path, adjust: impl FnOnce(&mut BrokerOptions)) -> Self {
        let kafka = Kafka::prepare(version).unwrap_or_else(|error| panic!("{error}"));
        let clients = Clients::install(&kafka.jars.join("*").to_string_lossy());
        let mut options = BrokerOptions::new(directory.join("broker"));
        options.request_log = true;
        adjust(&mut options);
        let broker = Broker::start(&kafka, options).unwrap_or_else(|error| panic!("{error}"));
        let request_log = broker.request_log.clone().expect("a request log was asked for");
        Self { bootstrap: broker.bootstrap(), broker, request_log, clients }
    }

    /// The broker's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.broker.port
    }

    /// The broker's process.
    pub fn pid(&self) -> u32 {
        self.broker.pid
    }

    /// `127.0.0.1:port`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Stops the broker, and returns its request log. The log is buffered, so it is complete only then.
    pub fn stop(self) -> PathBuf {
        self.broker.stop();
        self.request_log
    }
}
