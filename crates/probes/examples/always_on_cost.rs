//! Measures what the always-on programs cost, with this process as the broker: one thread serves requests of 100 bytes
//! as Kafka does (reads the size, reads the rest, appends, writes the answer); another sends them, one at a time.
//!
//! ```sh
//! cargo run --release -p probes --example always_on_cost -- DIRECTORY [REQUESTS [A SECOND]]    # root; the directory on ext4
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use probes::Facts;
use probes::always_on::{Options, Plan, Session};

const BODY: usize = 100;
const ANSWER: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().ok_or("usage: always_on_cost DIRECTORY [REQUESTS [A SECOND]]")?;
    let count: u32 = arguments.get(1).map_or(Ok(50_000), |text| text.parse())?;
    let rate: Option<f64> = arguments.get(2).map(|text| text.parse()).transpose()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ports = vec![listener.local_addr()?.port()];
    let options = Options { ports, measure: true, ..Options::default() };
    let session = Session::attach(&Plan::choose(&Facts::survey()), std::process::id(), &options)?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = listener.accept()?.0;
    server.set_nodelay(true)?;
    let path = Path::new(directory).join("always_on_cost");
    let mut segment = File::create(&path)?;
    let broker = thread::spawn(move || serve(server, &mut segment, count));
    let start = Instant::now();
    request(&mut client, count, rate.map(|rate| Duration::from_secs_f64(1.0 / rate)))?;
    let elapsed = start.elapsed();
    broker.join().map_err(|_| "the broker's thread panicked")??;
    std::fs::remove_file(path)?;

    println!("{count} requests in {elapsed:?}, {:.0} a second", f64::from(count) / elapsed.as_secs_f64());
    let mut sum = 0.0;
    for cost in session.overhead() {
        let of_request = cost.run_time_ns as f64 / f64::from(count);
        let (each, runs) =
            (cost.run_time_ns / cost.run_count.max(1), cost.run_count as f64 / f64::from(count));
        println!(
            "{:22} {runs:5.2} runs a request, {each:4} ns each, {of_request:5.0} ns a request",
            cost.program
        );
        sum += of_request;
    }
    println!("{sum:.0} ns a request, of which some 60 ns a run are the counting");
    for histogram in session.histograms() {
        println!(
            "API {}: p50 {:?} ns, p99 {:?} ns of {}",
            histogram.api_key,
            histogram.quantile(0.5),
            histogram.quantile(0.99),
            histogram.answered()
        );
    }
    println!("{:?}", session.losses());
    Ok(())
}

fn request(client: &mut TcpStream, count: u32, every: Option<Duration>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    bytes.extend((BODY as u32).to_be_bytes());
    bytes.resize(4 + BODY, 0);
    let mut answer = [0; ANSWER];
    let start = Instant::now();
    for id in 0..count {
        if let Some(every) = every {
            thread::sleep((every * id).saturating_sub(start.elapsed()));
        }
        if let Some(place) = bytes.get_mut(8..12) {
            place.copy_from_slice(&id.to_be_bytes());
        }
        client.write_all(&bytes)?;
        client.read_exact(&mut answer)?;
    }
    Ok(())
}

fn serve(mut server: TcpStream, segment: &mut File, count: u32) -> std::io::Result<()> {
    let mut answer = [0; ANSWER];
    answer[..4].copy_from_slice(&(ANSWER as u32 - 4).to_be_bytes());
    let (mut size, mut body) = ([0; 4], [0; BODY]);
    for at in 0..count {
        server.read_exact(&mut size)?;
        server.read_exact(&mut body)?;
        segment.write_all(&body)?;
        if at % 100_000 == 99_999 {
            segment.rewind()?;
        }
        answer[4..8].copy_from_slice(&body[4..8]);
        server.write_all(&answer)?;
    }
    Ok(())
}
