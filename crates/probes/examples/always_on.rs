//! Watches one broker with the always-on programs and prints what they report:
//! `always_on PID PORTS [SECONDS [THRESHOLD_MS]]`. For development; the product is `brokerscope`.

use std::error::Error;
use std::time::{Duration, Instant};

use probes::Facts;
use probes::always_on::{Options, Outcome, Plan, Record, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: always_on PID PORT,PORT... [SECONDS [THRESHOLD_MS]]";
    let pid = arguments.next().ok_or(usage)?.parse()?;
    let ports = arguments.next().ok_or(usage)?.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let threshold = Duration::from_millis(arguments.next().map_or(Ok(500), |text| text.parse())?);
    let plan = Plan::choose(&Facts::survey());
    for hook in &plan.hooks {
        println!("{:14} {} {:?}", hook.purpose.as_str(), hook.describe(), hook.state);
    }
    let options = Options { ports, threshold, measure: true, ..Options::default() };
    let mut session = Session::attach(&plan, pid, &options)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        for slow in session.wait(left)? {
            println!("SLOW {:?} {} bytes of the answer", slow.request, slow.answer.len());
            let interval = session.interval(slow.request.arrival_ns, slow.request.last_ns);
            println!("  {} records, {} overwritten", interval.records.len(), interval.overwritten);
            let waits = interval.records.iter().filter(|it| matches!(it, Record::Wait(_)));
            waits.for_each(|wait| println!("  {wait:?}"));
        }
    }
    let costs = session.overhead();
    let histograms: Vec<_> = session.histograms().collect();
    let requests: u64 = histograms.iter().map(|it| it.requests).sum();
    println!("API  port  requests  answered  unanswered  given up  p50 ms  p99 ms");
    for it in &histograms {
        let ms = |share| it.quantile(share).map_or(0.0, |ns| ns as f64 / 1e6);
        println!(
            "{:3} {:5} {:9} {:9} {:11} {:9} {:7.3} {:7.3}",
            it.api_key,
            it.local_port,
            it.requests,
            it.answered(),
            it.unanswered,
            it.given_up,
            ms(0.5),
            ms(0.99)
        );
    }
    let start = Instant::now();
    let interval = session.interval(0, u64::MAX);
    let count = |is: fn(&Record) -> bool| interval.records.iter().filter(|it| is(it)).count();
    println!(
        "{} requests, {} appends and {} waits are recorded, {} overwritten; read in {:?}",
        count(|it| matches!(it, Record::Request(request) if request.outcome == Outcome::Answered)),
        count(|it| matches!(it, Record::Append(_))),
        count(|it| matches!(it, Record::Wait(_))),
        interval.overwritten,
        start.elapsed()
    );
    let mut sum = 0.0;
    for cost in costs {
        let (each, runs) =
            (cost.run_time_ns / cost.run_count.max(1), cost.run_count as f64 / requests.max(1) as f64);
        let of_request = cost.run_time_ns as f64 / requests.max(1) as f64;
        println!(
            "{:22} {runs:5.2} runs a request, {each:4} ns each, {of_request:5.0} ns a request",
            cost.program
        );
        sum += of_request;
    }
    println!("{sum:.0} ns a request; {:?}", session.losses());
    Ok(())
}
