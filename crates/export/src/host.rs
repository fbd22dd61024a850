//! Figures of the host that bear on a broker: devices, interfaces, its cgroup. Samples are rates over their own stretch of time;
//! what they say is added up to counters, which can be asked over any stretch. Does not read the host.

use model::{HostSample, HostScope};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::seconds;
use crate::label::ByLabel;

/// More devices and interfaces than bear on one broker.
const MOST: usize = 64;
/// No device or interface moves more in a second: what says so is damaged.
const MOST_A_SECOND: f64 = 1e15;

/// The host.
#[derive(Debug)]
pub(crate) struct Host {
    devices: ByLabel<Device>,
    interfaces: ByLabel<Interface>,
    cpu_throttled_s: f64,
}

#[derive(Debug, Default)]
struct Device {
    utilization: Option<f64>,
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
}

#[derive(Debug, Default)]
struct Interface {
    received_bytes: f64,
    sent_bytes: f64,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            devices: ByLabel::of_at_most(MOST),
            interfaces: ByLabel::of_at_most(MOST),
            cpu_throttled_s: 0.0,
        }
    }
}

impl Host {
    pub(crate) fn sample(&mut self, sample: &HostSample) {
        match sample.scope {
            HostScope::Device => self.devices.at(&sample.name).sample(sample),
            HostScope::Interface => self.interfaces.at(&sample.name).sample(sample),
            HostScope::Cgroup if *sample.metric == *"cpu_throttled_ratio" => {
                self.cpu_throttled_s += increase(sample);
            }
            _ => {}
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let utilization = self.devices.iter().filter_map(|(name, device)| Some((name, device.utilization?)));
        out.each(&catalog::DEVICE_UTIL, utilization);
        let mut devices = |family, count: fn(&Device) -> f64| {
            out.each(family, self.devices.iter().map(|(name, device)| (name, count(device).round())));
        };
        devices(&catalog::DEVICE_READS, |device| device.reads);
        devices(&catalog::DEVICE_WRITES, |device| device.writes);
        devices(&catalog::DEVICE_READ_BYTES, |device| device.read_bytes);
        devices(&catalog::DEVICE_WRITTEN_BYTES, |device| device.written_bytes);
        let mut interfaces = |family, count: fn(&Interface) -> f64| {
            out.each(family, self.interfaces.iter().map(|(name, of)| (name, count(of).round())));
        };
        interfaces(&catalog::NETWORK_RECEIVED, |interface| interface.received_bytes);
        interfaces(&catalog::NETWORK_SENT, |interface| interface.sent_bytes);
        out.one(&catalog::CGROUP_THROTTLED, self.cpu_throttled_s);
    }
}

impl Device {
    fn sample(&mut self, sample: &HostSample) {
        match &*sample.metric {
            "util_ratio" => self.utilization = Some(sample.value),
            "reads_per_second" => self.reads += increase(sample),
            "writes_per_second" => self.writes += increase(sample),
            "read_bytes_per_second" => self.read_bytes += increase(sample),
            "write_bytes_per_second" => self.written_bytes += increase(sample),
            _ => {}
        }
    }
}

impl Interface {
    fn sample(&mut self, sample: &HostSample) {
        match &*sample.metric {
            "receive_bytes_per_second" => self.received_bytes += increase(sample),
            "transmit_bytes_per_second" => self.sent_bytes += increase(sample),
            _ => {}
        }
    }
}

/// What a rate comes to; nothing where it makes no sense.
fn increase(sample: &HostSample) -> f64 {
    let rate = if sample.value.is_finite() { sample.value.clamp(0.0, MOST_A_SECOND) } else { 0.0 };
    rate * seconds((sample.end - sample.start).at_least_zero())
}
