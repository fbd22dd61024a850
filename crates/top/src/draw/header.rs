//! The header: the broker and the time, requests and latencies of the last seconds, losses, the lag of verdicts, and
//! the cost of watching.

use model::Nanos;
use ratatui::layout::Rect;
use report::quantity::{format_bytes, format_count, format_count_of, or_dash};

use super::{Canvas, width_of};
use crate::clip::clip;
use crate::item::Cell;
use crate::palette::Tone;
use crate::state::{Progress, State};
use crate::ui::Ui;

pub(super) const LINES: u16 = 4;

/// Columns of a line's name, of its figure, and of the text on its right.
const NAME: usize = 11;
const FIGURE: usize = 8;
const RIGHT: usize = 42;
/// Maximum columns of the broker's name on a small terminal.
const BROKER: usize = 40;
/// Minimum latency for a block in a sparkline: a tenth of a millisecond.
const MIN_NS: f64 = 1e5;

pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, state: &State, ui: &Ui) {
    canvas.ground(area, 0, Tone::Ground);
    let room = usize::from(area.width).saturating_sub(BROKER).max(BROKER);
    let title = format!(" brokerscope  {}", clip(&state.about.broker, room.min(60)));
    canvas.line_with_right(area, 0, vec![(title, Tone::Ground)], progress(state, ui));
    requests(canvas, area, state);
    latencies(canvas, area, state);
    canvas.line(area, 3, condition(state));
}

fn progress(state: &State, ui: &Ui) -> Cell {
    let paused = if ui.paused { "PAUSED  " } else { "" };
    let text = match state.progress {
        Progress::Live { since } => format!("{paused}live for {} ", minutes(since)),
        Progress::Replay { at, of, speed, ended } => {
            let ended = if ended { "ended  " } else { paused };
            format!("{ended}replay ×{} {} of {} ", trimmed(speed), minutes(at), minutes(of))
        }
    };
    let tone = if ui.paused { Tone::Chosen } else { Tone::Ground };
    let at = if state.now == Nanos::MIN { String::new() } else { state.about.zone.time_of_day(state.now) };
    let at = at.split_once('.').map_or(&*at, |(second, _)| second);
    vec![(text, tone), (format!(" {at} "), Tone::Ground)]
}

/// `03:12`, `1:03:12`.
fn minutes(length: Nanos) -> String {
    let seconds = length.at_least_zero().0 / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Formats a speed without trailing zeros.
fn trimmed(speed: f64) -> String {
    let text = format!("{speed:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn requests(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let figures = state.pulse.figures();
    let rate = figures.requests_per_second.map(|rate| format_count(rate.round() as u64));
    let values = state.pulse.rates(line_columns(area));
    let values = values.iter().map(|&count| Some(count as f64)).collect::<Vec<_>>();
    let over_time = vec![(sparkline(&values), Tone::Good)];
    let figure = |name: &str, value: Option<Nanos>| {
        let tone = if value.is_some_and(|value| value >= state.about.slower_than) {
            Tone::Bad
        } else {
            Tone::Strong
        };
        [(format!("  {name} "), Tone::Plain), (format!("{:>FIGURE$}", or_dash(value)), tone)]
    };
    let figures = [figure("p50", figures.median), figure("p99", figures.p99), figure("max", figures.longest)];
    figure_line(canvas, area, 1, ("requests/s", or_dash(rate)), over_time, figures.concat());
}

fn latencies(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let longest = state.pulse.longest(line_columns(area));
    let last = longest.last().copied().flatten();
    // Logarithmic, because latencies span several orders of magnitude.
    let values =
        longest.iter().map(|latency| latency.map(|latency| (latency.0 as f64 / MIN_NS).log2().max(0.0)));
    let blocks = sparkline(&values.collect::<Vec<_>>());
    let slow = |latency: &Option<Nanos>| latency.is_some_and(|latency| latency >= state.about.slower_than);
    let over_time = blocks
        .chars()
        .zip(&longest)
        .map(|(block, latency)| (block.to_string(), if slow(latency) { Tone::Bad } else { Tone::Good }));
    let slow = format!(
        "  {} of {} took {} or longer",
        format_count(state.slow.count),
        format_count(state.pulse.requests),
        state.about.slower_than
    );
    let tone = if state.slow.count > 0 { Tone::Bad } else { Tone::Plain };
    figure_line(canvas, area, 2, ("max latency", or_dash(last)), over_time.collect(), vec![(slow, tone)]);
}

/// Columns of a sparkline.
fn line_columns(area: Rect) -> usize {
    usize::from(area.width).saturating_sub(NAME + 1 + FIGURE + 1 + RIGHT)
}

fn figure_line(
    canvas: &mut Canvas<'_>,
    area: Rect,
    down: u16,
    (name, figure): (&str, String),
    over_time: Cell,
    right: Cell,
) {
    let mut left =
        vec![(format!("{name:<NAME$} "), Tone::Plain), (format!("{figure:>FIGURE$} "), Tone::Strong)];
    left.extend(over_time);
    let room = usize::from(area.width).saturating_sub(RIGHT);
    let gap = room.saturating_sub(width_of(&left));
    left.push((" ".repeat(gap), Tone::Plain));
    left.extend(right);
    canvas.line(area, down, left);
}

/// The status line: losses, lag, cost and notes.
fn condition(state: &State) -> Cell {
    let mut parts = Vec::new();
    if state.has_exited {
        parts.push(("the broker is gone".to_owned(), Tone::Bad));
    }
    parts.push(losses(state));
    if !state.tls.is_empty() {
        let count = state.tls.total();
        let (connections, bytes) = (format_count(count.connections), format_bytes(count.bytes));
        parts.push((format!("TLS, not read: {connections} ({bytes})"), Tone::Bad));
    }
    if let Some(lag) = state.lag {
        parts.push((format!("verdicts {lag} behind"), Tone::Plain));
    }
    if let Some(overhead) = state.overhead {
        let per_cent = overhead.processors * 100.0;
        let resident = format_bytes(overhead.resident_bytes);
        parts.push((format!("overhead {per_cent:.1}% of a CPU, {resident}"), Tone::Plain));
    }
    let notes = state.notes.len() + state.about.unobservable.len();
    if notes > 0 {
        parts.push((format!("{} (F1)", format_count_of(notes as u64, "note")), Tone::Plain));
    }
    let mut line = Vec::new();
    for part in parts {
        if !line.is_empty() {
            line.push((" · ".to_owned(), Tone::Faint));
        }
        line.push(part);
    }
    line
}

fn losses(state: &State) -> (String, Tone) {
    let lost = state.losses.iter().map(|(kind, count)| format!("{} {}", format_count(count), kind.as_str()));
    let lost = lost.collect::<Vec<_>>();
    if lost.is_empty() {
        return ("nothing lost".to_owned(), Tone::Good);
    }
    let since = state.losses.last.map(|at| format!(", last {}", state.about.zone.time_of_day(at)));
    (format!("LOST {}{}", lost.join(", "), since.unwrap_or_default()), Tone::Bad)
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One block per number, full for the highest; a blank for `None`.
/// Numbers above zero are never blank.
pub(super) fn sparkline(values: &[Option<f64>]) -> String {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    values.iter().map(|value| value.map_or(' ', |value| block(value, highest))).collect()
}

fn block(value: f64, highest: f64) -> char {
    let share = if highest > 0.0 { value / highest } else { 0.0 };
    let step = (share * BLOCKS.len() as f64).ceil() as usize;
    BLOCKS.get(step.saturating_sub(1)).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use super::{minutes, trimmed};
    use model::Nanos;

    #[test]
    fn formats_durations_and_speeds() {
        let seconds = |n: i64| Nanos::from_millis(n * 1_000);
        for (length, text) in [(0, "00:00"), (192, "03:12"), (3_792, "1:03:12"), (-5, "00:00")] {
            assert_eq!(minutes(seconds(length)), text);
        }
        for (speed, text) in [(1.0, "1"), (0.25, "0.25"), (50.0, "50"), (1.5, "1.5")] {
            assert_eq!(trimmed(speed), text);
        }
    }
}

#[cfg(test)]
mod sparkline_tests {
    use super::sparkline;

    #[test]
    fn highest_value_is_a_full_block_and_no_data_is_blank() {
        let some = |values: &[f64]| values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        assert_eq!(sparkline(&some(&[0.0, 1.0, 4.0, 8.0])), "▁▁▄█");
        assert_eq!(sparkline(&some(&[0.0, 0.0])), "▁▁");
        assert_eq!(sparkline(&[None, Some(3.0)]), " █");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&some(&[f64::NAN, 1.0])).chars().count(), 2);
    }
}
