//! Drives a broker with Kafka's own producer: several processes of `ProducerPerformance` at a limited rate,
//! so that several request handlers meet at one partition's lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::broker::{Broker, tls_client_properties, with_launcher};
use crate::error::{Error, Result};
use crate::kafka::Kafka;
use crate::process::Process;
use crate::{files, process};

/// No limit: as fast as it can.
pub const UNLIMITED: u32 = u32::MAX;

/// One producer process.
#[derive(Clone, Debug)]
pub struct Producer {
    /// The topic that it writes to.
    pub topic: String,
    /// Its client id.
    pub client_id: String,
    /// Records per second, or [`UNLIMITED`].
    pub rate: u32,
    /// Size of a record's value.
    pub record_bytes: u32,
    /// Further producer properties, such as `acks=1`.
    pub properties: Vec<String>,
}

/// Running producers; dropping them ends them.
#[derive(Debug)]
pub struct Load {
    producers: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    log: PathBuf,
    /// Size of the log at the start of the measurement, in bytes.
    before: u64,
}

impl Load {
    /// Starts all producers, where the broker's clients are; their output goes to `directory`, a file each.
    pub fn start(kafka: &Kafka, broker: &Broker, producers: &[Producer], directory: &Path) -> Result<Self> {
        files::make(directory)?;
        let tls = directory.join("tls.properties");
        if let Some(keystore) = &broker.options.keystore {
            files::write(&tls, tls_client_properties(keystore))?;
        }
        let start = |producer: &Producer| {
            let log = directory.join(format!("{}.log", producer.client_id));
            let mut command = command(kafka, producer);
            if broker.options.keystore.is_some() {
                command.arg("--producer.config").arg(&tls);
            }
            command.args(arguments(producer, &broker.clients_bootstrap()));
            let mut command = with_launcher(&broker.options.clients.entering(), command);
            let process =
                Process::spawn(process::log_output(&mut command, &log)?, broker.options.site.as_deref())?;
            Ok(Running { process, log, before: 0 })
        };
        Ok(Self { producers: producers.iter().map(start).collect::<Result<_>>()? })
    }

    /// Checks that all still produce.
    ///
    /// # Errors
    /// [`Error::Ended`] with the output of the first that does not.
    pub fn check(&mut self) -> Result<()> {
        for Running { process, log, .. } in &mut self.producers {
            if process.exit_status()?.is_some() {
                return Err(Error::ended("a producer", log));
            }
        }
        Ok(())
    }

    /// Starts the measurement: what the producers reported before, while their JVMs still compiled, is left out.
    pub fn measure(&mut self) {
        for producer in &mut self.producers {
            producer.before = fs::metadata(&producer.log).map_or(0, |about| about.len());
        }
    }

    /// Ends the producers and returns what they measured since [`Load::measure`]. The window of that moment is not
    /// included.
    pub fn stop(mut self) -> ProducerMetrics {
        for producer in &self.producers {
            producer.process.signal(Signal::TERM);
        }
        let logs = self.producers.iter_mut().filter_map(|producer| {
            producer.process.stop();
            let log = fs::read(&producer.log).ok()?;
            Some(String::from_utf8_lossy(log.get(producer.before as usize..)?).into_owned())
        });
        let windows: Vec<Vec<Window>> =
            logs.map(|log| parse_windows(&log).into_iter().skip(1).collect()).collect();
        ProducerMetrics::of(&windows)
    }
}

/// Latency by the producers' own measurement, to compare with brokerscope's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProducerMetrics {
    /// Records sent.
    pub records: u64,
    /// Mean latency over all records, in milliseconds.
    pub mean_ms: f64,
    /// The longest latency of any record, in milliseconds.
    pub max_ms: f64,
    /// Records per second, of all producers together.
    pub records_per_s: f64,
}

impl ProducerMetrics {
    /// Metrics of each producer's windows.
    fn of(producers: &[Vec<Window>]) -> Self {
        let all = || producers.iter().flatten();
        let records: u64 = all().map(|window| window.records).sum();
        let sum: f64 = all().map(|window| window.mean_ms * window.records as f64).sum();
        Self {
            records,
            mean_ms: sum / records.max(1) as f64,
            max_ms: all().map(|window| window.max_ms).fold(0.0, f64::max),
            records_per_s: producers.iter().map(|windows| rate(windows)).sum(),
        }
    }
}

/// One line of `ProducerPerformance`: what it sent in about five seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    records: u64,
    records_per_s: f64,
    mean_ms: f64,
    max_ms: f64,
}

/// Records per second of one producer, in the time that its windows lasted.
fn rate(windows: &[Window]) -> f64 {
    let records: f64 = windows.iter().map(|window| window.records as f64).sum();
    let seconds =
        windows.iter().map(|window| window.records as f64 / window.records_per_s.max(f64::MIN_POSITIVE));
    records / seconds.sum::<f64>().max(f64::MIN_POSITIVE)
}

/// An unlimited producer gets a fast JVM instead of a small one.
fn command(kafka: &Kafka, producer: &Producer) -> Command {
    let program = "org.apache.kafka.tools.ProducerPerformance";
    if producer.rate == UNLIMITED {
        kafka.command(&["-Xmx384m", "-XX:+UseSerialGC", "-Dlog4j2.level=ERROR"].map(str::to_owned), program)
    } else {
        kafka.tool(program)
    }
}

fn arguments(producer: &Producer, bootstrap: &str) -> Vec<String> {
    let rate = if producer.rate == UNLIMITED { -1 } else { i64::from(producer.rate) };
    let options = [
        ("--topic", producer.topic.clone()),
        // The lab ends it; this lasts for days.
        ("--num-records", "2000000000".to_owned()),
        ("--record-size", producer.record_bytes.to_string()),
        ("--throughput", rate.to_string()),
        ("--producer-props", format!("bootstrap.servers={bootstrap}")),
    ];
    let own = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let client_id = format!("client.id={}", producer.client_id);
    own.chain([client_id]).chain(producer.properties.iter().cloned()).collect()
}

/// Parses the windows in a producer's log. For example, `1001 records sent, 200.2 records/sec (0.19 MB/sec), 2.4 ms avg
/// latency, 301.0 ms max latency.`
fn parse_windows(log: &str) -> Vec<Window> {
    let before = |line: &str, unit: &str| {
        let head = line.split(unit).next()?;
        head.rsplit([' ', ',']).find(|word| !word.is_empty())?.parse::<f64>().ok()
    };
    let parse = |line: &str| {
        let rest = line.split_once(" records sent, ")?;
        let records = rest.0.trim().parse().ok()?;
        let records_per_s = before(rest.1, " records/sec")?;
        let mean_ms = before(rest.1, " ms avg latency")?;
        // The last line of a run, with percentiles, repeats the windows' figures.
        let max_ms = before(rest.1, " ms max latency").filter(|_| !line.contains("99th"))?;
        Some(Window { records, records_per_s, mean_ms, max_ms })
    };
    log.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_log_of_a_producer() {
        let log = "[2025] WARN something\n\
            1001 records sent, 200.2 records/sec (0.19 MB/sec), 2.0 ms avg latency, 301.0 ms max latency.\n\
            3003 records sent, 200.0 records/sec (0.19 MB/sec), 4.0 ms avg latency, 120.5 ms max latency.\n\
            4004 records sent, 200.1 records/sec (0.19 MB/sec), 3.5 ms avg latency, 301.0 ms max latency, \
            2 ms 50th, 3 ms 95th, 30 ms 99th, 301 ms 99.9th.\n";
        let windows = parse_windows(log);
        assert_eq!(windows.len(), 2);
        let measured = ProducerMetrics::of(&[windows.clone(), windows]);
        assert_eq!((measured.records, measured.max_ms), (8008, 301.0));
        assert!((measured.mean_ms - 3.5).abs() < 0.001);
        assert!((measured.records_per_s - 400.1).abs() < 0.1, "{}", measured.records_per_s);
    }

    #[test]
    fn empty_log_yields_default_metrics() {
        assert_eq!(ProducerMetrics::of(&[parse_windows("")]), ProducerMetrics::default());
    }

    #[test]
    fn own_producer_properties_come_last() {
        let producer = Producer {
            topic: "topicA".to_owned(),
            client_id: "p1".to_owned(),
            rate: 10,
            record_bytes: 100,
            properties: vec!["acks=1".to_owned()],
        };
        let arguments = arguments(&producer, "127.0.0.1:9");
        let start = arguments.iter().position(|word| word == "--producer-props").unwrap();
        assert_eq!(&arguments[start + 1..], ["bootstrap.servers=127.0.0.1:9", "client.id=p1", "acks=1"]);
        assert!(arguments.windows(2).any(|pair| pair == ["--throughput", "10"]));
        let unlimited = super::arguments(&Producer { rate: UNLIMITED, ..producer }, "127.0.0.1:9");
        assert!(unlimited.windows(2).any(|pair| pair == ["--throughput", "-1"]));
    }
}
