//! One request in full: its stages on a time axis, and below them the evidence of their cause on the same axis. Does not
//! choose the request: of several with the same correlation id, the slowest is shown and the others are listed.

use std::io::{self, Write};

use model::{Cause, EvidenceKind, Nanos, RequestSource, Verdict};

use super::groups::Questions;
use super::story::{self, Line};
use super::text::{NeededSources, basis, open_questions};
use crate::Style;
use crate::escape::escape;
use crate::explanation::{Conclusion, ExplanationReport};
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of};
use crate::requests::topic_name;
use crate::slowest::Slowest;
use crate::text_writer::TextWriter;

/// Note on a request of an always-on watch.
const SEEN_BY_CALLS: &str = "seen by the broker's calls on its socket (--watch always-on): it may have waited longer in the socket before its \
     first byte was read, and the time after its last was written is not in it";
/// Note on a request on a TLS connection.
const SEEN_BY_AGENT: &str =
    "seen by the broker's calls on a TLS connection (--see-tls): when its response had left is not seen";
/// The same if the kernel did not see its bytes arrive.
const SEEN_ONLY_BY_AGENT: &str = "seen by the broker's calls on a TLS connection (--see-tls): when its bytes came and left is not seen, nor \
     how long it waited in the socket before its first byte was read";
/// Note on a request of Kafka's request log.
const SEEN_BY_LOG: &str = "seen by Kafka's request log (--request-log), whose times begin when the broker has read it and end when it has \
     written the response: when its bytes came and left is not seen";
/// Limit on the requests with the same correlation id that are kept and listed.
const MAX_REQUESTS: usize = 10;
/// Columns of a row's label, and of its start and its length.
const LABEL: usize = 22;
const TIME: usize = 10;
/// Spaces before and between these columns and the bar. The bar has the rest of the line.
const BLANKS: usize = 8;
/// A narrower bar shows nothing useful.
const MIN_BAR: usize = 10;
/// Stage spans shown per request.
const MAX_SPANS: usize = 40;
/// Evidence is indented by its depth, up to this one.
const MAX_DEPTH: usize = 5;

/// Requests with one correlation id, as text.
pub struct RequestText<W> {
    text: TextWriter<W>,
    number: i32,
    slowest: Slowest<Verdict>,
    count: u64,
}

impl<W: Write> RequestText<W> {
    /// Creates an output about requests with this correlation id, in this style.
    pub fn new(out: W, style: &Style, number: i32) -> Self {
        Self { text: TextWriter::new(out, style), number, slowest: Slowest::new(MAX_REQUESTS), count: 0 }
    }

    fn others(&mut self, others: &[Verdict]) -> io::Result<()> {
        if others.is_empty() {
            return Ok(());
        }
        let found = format_count_of(self.count, "request");
        self.text.heading(&format!(
            "{found} have this correlation ID, one per connection. To show another, add one of:"
        ))?;
        for verdict in others {
            let request = &verdict.request;
            let (api, client) = (escape(request.api), request.client);
            let (at, latency) = (self.text.style.zone.time_of_day(request.arrival), verdict.latency());
            writeln!(self.text.out, "  --client {client:<22} {api:<10} {at}  {latency}")?;
        }
        match self.count - (others.len() as u64 + 1) {
            0 => Ok(()),
            more => writeln!(self.text.out, "  … and {} more", format_count(more)),
        }
    }
}

impl<W: Write> ExplanationReport for RequestText<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.count += 1;
        let latency = verdict.latency();
        self.slowest.offer(latency, || verdict);
        Ok(())
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let verdicts = self.slowest.take().collect::<Vec<_>>();
        let (mut needed, mut questions) = (NeededSources::default(), Questions::default());
        match verdicts.split_first() {
            Some((slowest, others)) => {
                needed.add(slowest);
                questions.add(slowest);
                write(&mut self.text, slowest)?;
                let about = " about this request";
                open_questions(&mut self.text, &questions.take(), conclusion, about)?;
                self.others(others)?;
            }
            None => writeln!(
                self.text.out,
                "no answered request has correlation ID {} ({} seen)",
                self.number,
                format_count_of(conclusion.summary.requests, "request")
            )?,
        }
        basis(&mut self.text, conclusion, &needed)?;
        self.text.out.flush()
    }
}

/// Writes all that is known about one request, in lines of at most `width` columns.
pub fn write_request<W: Write>(
    out: &mut W,
    style: &Style,
    width: usize,
    verdict: &Verdict,
) -> io::Result<()> {
    write(&mut TextWriter { width, ..TextWriter::new(out, style) }, verdict)
}

fn write<W: Write>(text: &mut TextWriter<W>, verdict: &Verdict) -> io::Result<()> {
    let request = &verdict.request;
    let (api, number, latency) = (request.api, request.correlation_id, verdict.latency());
    let heading = format!("{api} {number}: {latency}, {}", why(verdict));
    text.wrap("", (0, 0), &heading, Some(Role::Heading))?;
    text.wrap("  ", (2, 2), &about(&text.style, verdict), None)?;
    let axis = Axis::new(text.width, request.arrival, request.last_seen());
    axis.head(text, "WHERE ITS TIME WENT")?;
    for span in verdict.stage_spans.iter().take(MAX_SPANS) {
        let role = if span.stage == verdict.stages.longest() { Role::Bad } else { Role::Good };
        axis.row(text, &story::stage_name(span.stage), (span.start, span.end), role)?;
    }
    let more = verdict.stage_spans.len().saturating_sub(MAX_SPANS) as u64;
    if more > 0 {
        writeln!(text.out, "  … and {}", format_count_of(more, "more span"))?;
    }
    evidence(text, verdict, &axis)?;
    let not_by_packets = match request.seen_by {
        Some(RequestSource::SocketCalls) => Some(SEEN_BY_CALLS),
        Some(RequestSource::TlsAgent) if request.read.is_some() => Some(SEEN_BY_AGENT),
        Some(RequestSource::TlsAgent) => Some(SEEN_ONLY_BY_AGENT),
        Some(RequestSource::RequestLog) => Some(SEEN_BY_LOG),
        Some(RequestSource::Packets) | None => None,
    };
    let limits = story::limits(verdict).chain(not_by_packets.map(str::to_owned));
    let limits = limits.collect::<Vec<_>>();
    if !limits.is_empty() {
        writeln!(text.out)?;
    }
    limits.iter().try_for_each(|limit| text.bullet(limit))?;
    if !verdict.advice.is_empty() {
        text.heading(&format!("What to change about {}", verdict.cause))?;
    }
    verdict.advice.iter().try_for_each(|advice| text.bullet(advice))
}

fn why(verdict: &Verdict) -> String {
    match verdict.cause {
        Cause::Unobserved => "no cause explains most of it".to_owned(),
        cause => format!("because of {cause} ({}), root {}", verdict.confidence, verdict.root),
    }
}

/// Describes the client, the times and the partitions of a request.
fn about(style: &Style, verdict: &Verdict) -> String {
    let request = &verdict.request;
    let client = request.client_id.as_deref().map(|id| format!("{id} at ")).unwrap_or_default();
    let at = |time| style.zone.time_of_day(time);
    let answered =
        request.end.map_or_else(|| "not answered".to_owned(), |end| format!("answered {}", at(end)));
    let first_three = request.partitions.iter().take(3).map(|of| {
        let (topic, bytes) = (topic_name(Some(of)), format_count(of.bytes.into()));
        format!("{topic}-{} ({bytes} bytes)", of.partition)
    });
    let more = request.partitions.len().saturating_sub(3);
    let partitions =
        first_three.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>().join(", ");
    let of = if partitions.is_empty() { String::new() } else { format!("; {partitions}") };
    format!("from {client}{}, arrived {}, {answered}{of}", request.client, at(request.arrival))
}

/// Writes the evidence, nearest first, each piece below what it explains.
fn evidence<W: Write>(text: &mut TextWriter<W>, verdict: &Verdict, axis: &Axis) -> io::Result<()> {
    if verdict.evidence.is_empty() {
        return Ok(());
    }
    axis.head(text, "EVIDENCE")?;
    for (depth, seen) in verdict.evidence.iter().enumerate() {
        let depth = depth.min(MAX_DEPTH);
        let label = format!("{}{}", "  ".repeat(depth), what(seen.kind));
        axis.row(text, &label, (seen.start, seen.end), Role::Bad)?;
        let indent = 4 + 2 * depth;
        let line = Line::of(seen, &seen.text).text;
        text.wrap(&" ".repeat(indent), (indent, indent), &line, Some(Role::Faint))?;
    }
    Ok(())
}

fn what(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::FileOp => "file",
        EvidenceKind::LockWait => "lock",
        EvidenceKind::Kernel => "kernel",
        EvidenceKind::OffCpu => "off CPU",
        EvidenceKind::BlockIo => "device",
        EvidenceKind::Request => "request",
        other => other.as_str(),
    }
}

/// A request's time axis, from its first byte to the last byte of its response.
struct Axis {
    start: Nanos,
    end: Nanos,
    /// Columns of its bars.
    bar: usize,
}

impl Axis {
    /// Creates an axis for lines of `width` columns.
    fn new(width: usize, start: Nanos, end: Nanos) -> Self {
        Self { start, end, bar: width.saturating_sub(LABEL + 2 * TIME + BLANKS).max(MIN_BAR) }
    }

    /// Writes the headings of the rows that follow, below an empty line.
    fn head<W: Write>(&self, text: &mut TextWriter<W>, what: &str) -> io::Result<()> {
        let length = (self.end - self.start).to_string();
        let scale = format!("0{length:>width$}", width = self.bar - 1);
        let head = format!("{what:<LABEL$}  {:>TIME$}  {:>TIME$}  {scale}", "START", "LENGTH");
        writeln!(text.out, "\n  {}", text.style.heading(&head))
    }

    fn row<W: Write>(
        &self,
        text: &mut TextWriter<W>,
        what: &str,
        (start, end): (Nanos, Nanos),
        role: Role,
    ) -> io::Result<()> {
        let (since, length) = ((start - self.start).to_string(), (end - start).to_string());
        let bar = self.bar(start, end);
        let glyphs = bar.trim_start_matches(' ');
        let before = " ".repeat(bar.len() - glyphs.len());
        let glyphs = paint(text.style.colour, role, glyphs);
        writeln!(text.out, "  {what:<LABEL$}  {since:>TIME$}  {length:>TIME$}  {before}{glyphs}")
    }

    /// A span as a bar. The part outside the axis is cut, with an arrow.
    fn bar(&self, start: Nanos, end: Nanos) -> String {
        let whole = (self.end - self.start).0.max(1);
        let column = |at: Nanos| {
            let within = (at - self.start).0.clamp(0, whole);
            (i128::from(within) * self.bar as i128, i128::from(whole))
        };
        let ((from, whole), (to, _)) = (column(start), column(end));
        let first = ((from / whole) as usize).min(self.bar - 1);
        let last = (((to + whole - 1) / whole) as usize).clamp(first + 1, self.bar);
        let mut bar = " ".repeat(first);
        let is_thin = last - first == 1 && (to - from) * 2 < whole;
        for at in first..last {
            bar.push(match () {
                () if start < self.start && at == first => '◂',
                () if end > self.end && at + 1 == last => '▸',
                () if is_thin => '▏',
                () => '█',
            });
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;
    use crate::wrap::WIDTH;
    use model::Nanos;

    const BAR: usize = 50;

    #[test]
    fn bar_covers_its_time_and_is_never_empty() {
        let axis = Axis::new(WIDTH, Nanos(1_000), Nanos(2_000));
        assert_eq!(axis.bar, BAR);
        let draw = |start, end| {
            let bar = axis.bar(Nanos(start), Nanos(end));
            (bar.chars().take_while(|&c| c == ' ').count(), bar.trim_start().to_owned())
        };
        assert_eq!(draw(1_000, 2_000), (0, "█".repeat(BAR)));
        assert_eq!(draw(1_500, 2_000), (BAR / 2, "█".repeat(BAR / 2)));
        assert_eq!(draw(1_500, 1_501), (BAR / 2, "▏".to_owned()));
        assert_eq!(draw(2_000, 2_000), (BAR - 1, "▏".to_owned()));
        assert_eq!(draw(0, 3_000), (0, format!("◂{}▸", "█".repeat(BAR - 2))));
        assert_eq!(draw(i64::MIN, i64::MAX).1.chars().count(), BAR);
        let instant = Axis::new(WIDTH, Nanos(5), Nanos(5));
        assert_eq!(instant.bar(Nanos(5), Nanos(5)), "▏");
    }
}
