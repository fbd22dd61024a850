//! Compares screens with their golden files in `tests/expected`. `BLESS=1 cargo test -p top` writes them; a missing one
//! fails.

use std::path::Path;

use model::{Event, Loss, LossKind, Nanos};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use report::escape;

use super::draw;
use crate::keys::Key;
use crate::palette::Palette;
use crate::state::Overhead;
use crate::state::Progress;
use crate::state::{State, sample};
use crate::ui::Ui;

/// Twenty seconds of a broker: a write per millisecond, and a stall in the twelfth second that four requests wait for.
fn state() -> State {
    let mut state = sample::state();
    let at = |ms: i64| sample::NOON + Nanos::from_millis(ms);
    for ms in 0..20_000 {
        let latency = if (12_000..12_400).contains(&ms) { 12_400 - ms } else { 1 + ms % 3 };
        state.event(&Event::Request(Box::new(sample::request(at(ms), Nanos::from_millis(latency)))));
        let mut write = sample::write(at(ms), at(ms) + Nanos::from_micros(40 + ms % 7));
        write.tid += (ms % 4) as u32;
        write.thread = format!("data-plane-kafka-request-handler-{}", ms % 4).into();
        write.file = format!("orders-{}/00000000000000000000.log", ms % 5).into();
        state.event(&Event::FileOp(Box::new(write)));
        if ms % 1_000 == 0 {
            state.reach(at(ms), Progress::Live { since: Nanos::ZERO });
        }
    }
    state.event(&Event::OffCpu(Box::new(sample::off_cpu(at(12_001), at(12_395)))));
    state.event(&Event::FileOp(Box::new(sample::write(at(12_000), at(12_400)))));
    for (number, ms) in [(1, 390), (2, 300), (3, 210), (4, 120)] {
        let mut verdict = sample::verdict_at(at(12_400 - ms), Nanos::from_millis(ms));
        verdict.request.client = ([10, 0, 0, 7], 41_234 + number).into();
        verdict.request.correlation_id += i32::from(number);
        state.verdict(verdict, None);
    }
    let progress =
        Progress::Replay { at: at(20_000) - at(0), of: at(30_000) - at(0), speed: 2.0, ended: false };
    state.reach(at(20_000), progress);
    state.overhead = Some(Overhead { processors: 0.021, resident_bytes: 34 << 20 });
    state
}

fn screen(state: &State, ui: &mut Ui, (width, height): (u16, u16), colour: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, ui, Palette { colour })).unwrap();
    terminal.backend().clone()
}

/// The letters of a screen, line by line, without trailing blanks.
fn letters(backend: &TestBackend) -> String {
    let buffer = backend.buffer();
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let line = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let expected = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 cargo test -p top writes it", file.display()));
    assert!(text == expected, "{name} differs; BLESS=1 cargo test -p top accepts:\n{text}");
}

fn keys(text: &str) -> Vec<Key> {
    text.chars()
        .map(|c| match c {
            '\n' => Key::Enter,
            c => Key::Char(c),
        })
        .collect()
}

#[test]
fn every_view_matches_its_golden_screens() {
    let state = state();
    for (name, typed) in [
        ("requests", ""),
        ("causes", "2"),
        ("causes-together", "2t"),
        ("writes", "3"),
        ("writes-by-file", "3t"),
        ("files", "4"),
        ("kinds", "4t"),
        ("threads", "5"),
        ("roles", "5t"),
        ("chain", "\n"),
        ("help", "h"),
        ("sort", ">"),
        ("filter", "\\372"),
        ("search", "/373"),
        ("victims", "2\n"),
    ] {
        for size in [(80, 24), (200, 60)] {
            let mut ui = Ui::default();
            for key in keys(typed) {
                ui.key(key, &state);
            }
            let text = letters(&screen(&state, &mut ui, size, true));
            golden(&format!("{name}-{}x{}.txt", size.0, size.1), &text);
            assert_eq!(letters(&screen(&state, &mut ui, size, false)), text, "{name}: letters say it all");
        }
    }
}

#[test]
fn every_view_has_losses_lag_and_the_exit_of_the_broker() {
    let mut state = state();
    let at = sample::NOON + Nanos::from_millis(20_000);
    let loss = Loss { start: at, end: at, kind: LossKind::EventsDropped, count: 1_234, detail: "".into() };
    state.event(&Event::Loss(loss));
    state.verdict(sample::verdict(Nanos::from_millis(200)), Some(Nanos::from_millis(1_400)));
    let listener = "10.0.0.1:9093".parse().unwrap();
    let tls = model::TlsTraffic { start: at, end: at, listener, connections: 3, bytes: 2_048 };
    state.event(&Event::TlsTraffic(tls));
    state.has_exited = true;
    state.reach(at, Progress::Live { since: Nanos::from_millis(192_000) });
    for view in ["1", "2", "3", "4", "5", "h", "\n"] {
        let mut ui = Ui::default();
        for key in keys(view) {
            ui.key(key, &state);
        }
        let text = letters(&screen(&state, &mut ui, (120, 30), true));
        for expected in [
            "LOST 1,234 events-dropped",
            "TLS, not read: 3 (2.0 KiB)",
            "verdicts 1.4 s behind",
            "the broker is gone",
            "live for 03:12",
        ] {
            assert!(text.contains(expected), "{view}: {expected}\n{text}");
        }
    }
}

#[test]
fn draws_any_terminal_size() {
    let state = state();
    for (width, height) in [(1, 1), (10, 3), (39, 11), (40, 12), (79, 23), (81, 25), (500, 3), (300, 200)] {
        for typed in ["", "2", "3", "4t", "5", "h", "\n", ">", "/x", "\\y"] {
            let mut ui = Ui::default();
            for key in keys(typed) {
                ui.key(key, &state);
            }
            screen(&state, &mut ui, (width, height), true);
        }
    }
}

#[test]
fn escapes_control_characters_from_outside() {
    const HOSTILE: &str = "\x1b[2J\x1b]0;x\x07\u{202e}\r\n\u{9b}31m";
    let mut state = sample::state();
    let mut verdict = sample::verdict(Nanos::from_millis(500));
    verdict.request.client_id = Some(HOSTILE.into());
    verdict.request.partitions[0].topic = Some(HOSTILE.into());
    verdict.partition = None;
    verdict.root = HOSTILE.into();
    verdict.evidence[0].text = HOSTILE.to_owned();
    verdict.evidence[0].thread = Some(HOSTILE.into());
    state.verdict(verdict, None);
    let mut write = sample::write(sample::NOON, sample::NOON + Nanos(5_000));
    write.file = HOSTILE.into();
    write.thread = HOSTILE.into();
    write.device.name = HOSTILE.into();
    write.fs = HOSTILE.into();
    state.event(&Event::FileOp(Box::new(write)));
    state.note(HOSTILE.to_owned());
    state.about.broker = HOSTILE.to_owned();
    state.reach(sample::NOON + Nanos::from_millis(2_000), Progress::Live { since: Nanos::ZERO });
    for typed in ["", "2", "2t", "3", "3t", "4", "4t", "5", "5t", "h", "\n", "\\\u{1b}[2J"] {
        let mut ui = Ui::default();
        for key in keys(typed) {
            ui.key(key, &state);
        }
        let text = letters(&screen(&state, &mut ui, (250, 60), true));
        assert!(!text.lines().any(|line| line.contains(escape::is_unsafe)), "{typed}: {text:?}");
        assert!(text.contains("\\x1b[2J"), "{typed}: {text}");
    }
}

#[test]
fn uses_only_terminal_colours_and_none_in_monochrome() {
    let state = state();
    let mut ui = Ui::default();
    let colours = |backend: &TestBackend| {
        let cells = backend.buffer().content.iter();
        cells.flat_map(|cell| [cell.fg, cell.bg]).collect::<std::collections::HashSet<_>>()
    };
    assert_eq!(colours(&screen(&state, &mut ui, (80, 24), false)), [Color::Reset].into());
    let drawn = screen(&state, &mut ui, (80, 24), true);
    assert!(colours(&drawn).contains(&Color::Red));
    for cell in &drawn.buffer().content {
        // Text as dark or as light as some terminals' background must have its own background.
        let on_own_ground = cell.bg != Color::Reset;
        assert!(on_own_ground || !matches!(cell.fg, Color::Black | Color::White | Color::Gray), "{cell:?}");
        assert!(!matches!(cell.fg, Color::Rgb(..) | Color::Indexed(_)), "{cell:?}");
    }
}
