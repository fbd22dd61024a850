//! Presses keys, one after the other, and checks the view after them.

use model::Nanos;

use super::{Mode, Outcome, Ui};
use crate::item::RowKey;
use crate::keys::{INTERRUPT, Key, REDRAW, RESIZED, SUSPEND};
use crate::state::State;
use crate::state::sample;
use crate::view::View;

/// Six requests of 100 to 600 ms, one per second; every other one with another root and cause.
fn state() -> State {
    let mut state = sample::state();
    for number in 1..=6_i64 {
        let mut verdict = sample::verdict_at(
            sample::NOON + Nanos::from_millis(number * 1_000),
            Nanos::from_millis(number * 100),
        );
        if number % 2 == 0 {
            verdict.root = "gc-pause:9:17".into();
            verdict.cause = model::Cause::GcPause;
        }
        state.verdict(verdict, None);
    }
    state
}

fn press(ui: &mut Ui, state: &State, keys: &[Key]) -> Outcome {
    let mut outcome = Outcome::Draw;
    for &key in keys {
        outcome = ui.key(key, state);
    }
    outcome
}

fn type_in(ui: &mut Ui, state: &State, text: &str) {
    for c in text.chars() {
        ui.key(Key::Char(c), state);
    }
}

/// The numbers of the requests in order, and of the selected one.
fn requests(ui: &Ui, state: &State) -> (Vec<u64>, Option<u64>) {
    let number = |key: RowKey| match key {
        RowKey::Request(number) => number,
        other => panic!("{other:?}"),
    };
    let rows = ui.listing().rows(state);
    let selected = ui.listing().selected(&rows).map(number);
    (rows.items.iter().map(|item| number(item.key())).collect(), selected)
}

#[test]
fn slowest_request_comes_first_and_the_selection_stays() {
    let (mut state, mut ui) = (state(), Ui::default());
    assert_eq!(requests(&ui, &state), (vec![6, 5, 4, 3, 2, 1], Some(6)));
    press(&mut ui, &state, &[Key::Down, Key::Down]);
    assert_eq!(requests(&ui, &state).1, Some(4));
    state.verdict(sample::verdict(Nanos::from_millis(450)), None);
    assert_eq!(requests(&ui, &state), (vec![6, 5, 7, 4, 3, 2, 1], Some(4)));
    press(&mut ui, &state, &[Key::End]);
    assert_eq!(requests(&ui, &state).1, Some(1));
    press(&mut ui, &state, &[Key::Down, Key::PageDown]);
    assert_eq!(requests(&ui, &state).1, Some(1));
    // The first row stays selected when another one becomes the first.
    press(&mut ui, &state, &[Key::Home]);
    state.verdict(sample::verdict(Nanos::from_millis(900)), None);
    assert_eq!(requests(&ui, &state).1, Some(8));
}

#[test]
fn sorts_by_the_chosen_column_and_inverts() {
    let (state, mut ui) = (state(), Ui::default());
    // From LATENCY up to TIME: the latest first.
    press(&mut ui, &state, &[Key::F(6), Key::Up, Key::Enter]);
    assert_eq!((ui.listing().sorted_by, ui.listing().descending), (0, true));
    press(&mut ui, &state, &[Key::Char('I')]);
    assert_eq!(requests(&ui, &state).0, [1, 2, 3, 4, 5, 6]);
    // Text columns sort from A.
    press(&mut ui, &state, &[Key::Char('>'), Key::Down, Key::Down, Key::Enter]);
    assert_eq!(requests(&ui, &state).0, [2, 4, 6, 1, 3, 5]);
    press(&mut ui, &state, &[Key::F(5), Key::Home, Key::Esc]);
    assert_eq!(ui.listing().sorted_by, 2, "Esc leaves it as it was");
}

#[test]
fn filter_applies_while_typing_and_escape_removes_it() {
    let (state, mut ui) = (state(), Ui::default());
    press(&mut ui, &state, &[Key::F(4)]);
    type_in(&mut ui, &state, "gc-x");
    assert_eq!(requests(&ui, &state).0, [0_u64; 0]);
    press(&mut ui, &state, &[Key::Backspace]);
    assert_eq!(requests(&ui, &state).0, [6, 4, 2]);
    // While words are typed, q is a letter.
    assert_eq!(ui.key(Key::Char('q'), &state), Outcome::Draw);
    press(&mut ui, &state, &[Key::Backspace, Key::Enter]);
    assert_eq!(requests(&ui, &state).0, [6, 4, 2]);
    press(&mut ui, &state, &[Key::Esc]);
    assert_eq!(requests(&ui, &state).0.len(), 6);
}

#[test]
fn search_selects_the_next_match_and_wraps_around() {
    let (state, mut ui) = (state(), Ui::default());
    press(&mut ui, &state, &[Key::Char('/')]);
    type_in(&mut ui, &state, "JOURNAL");
    assert_eq!(requests(&ui, &state), (vec![6, 5, 4, 3, 2, 1], Some(5)));
    press(&mut ui, &state, &[Key::F(3)]);
    assert_eq!(requests(&ui, &state).1, Some(3));
    press(&mut ui, &state, &[Key::Enter, Key::Char('n'), Key::Char('n')]);
    assert_eq!(requests(&ui, &state).1, Some(5));
    press(&mut ui, &state, &[Key::F(3)]);
    type_in(&mut ui, &state, "nowhere");
    assert!(matches!(&ui.mode, Mode::Typing(typed) if typed.is_nowhere));
    assert_eq!(requests(&ui, &state).1, Some(5));
}

#[test]
fn enter_opens_the_victims_of_a_root_and_then_a_chain() {
    let (state, mut ui) = (state(), Ui::default());
    press(&mut ui, &state, &[Key::Char('2'), Key::Enter]);
    assert_eq!((ui.view, requests(&ui, &state).0), (View::Requests, vec![6, 4, 2]));
    press(&mut ui, &state, &[Key::Down, Key::Enter, Key::Down]);
    let Mode::Chain { verdict, top } = &ui.mode else { panic!("no chain") };
    assert_eq!((verdict.request.latency(), *top), (Some(Nanos::from_millis(400)), 1));
    // Any other key closes it, F10 ends everything.
    assert_eq!(press(&mut ui, &state, &[Key::Esc]), Outcome::Draw);
    assert!(matches!(ui.mode, Mode::Browse));
    assert_eq!(press(&mut ui, &state, &[Key::Enter, Key::F(10)]), Outcome::Quit);
}

#[test]
fn views_wrap_around_and_have_separate_grouping() {
    let (state, mut ui) = (state(), Ui::default());
    press(&mut ui, &state, &[Key::BackTab]);
    assert_eq!(ui.view, View::Threads);
    press(&mut ui, &state, &[Key::Tab, Key::Tab, Key::Char('t')]);
    assert!(ui.view == View::Causes && ui.listing().grouped);
    press(&mut ui, &state, &[Key::Char('3')]);
    assert!(ui.view == View::Writes && !ui.listing().grouped);
    press(&mut ui, &state, &[Key::Char('1'), Key::Char('t')]);
    assert!(!ui.listing().grouped && ui.message.is_some());
}

#[test]
fn tags_stay_with_their_rows() {
    let (state, mut ui) = (state(), Ui::default());
    press(&mut ui, &state, &[Key::Char(' '), Key::Char(' '), Key::Char('I')]);
    let tagged =
        |ui: &Ui| (1..=6).filter(|&n| ui.listing().tagged.contains(&RowKey::Request(n))).collect::<Vec<_>>();
    assert_eq!(tagged(&ui), [5, 6]);
    press(&mut ui, &state, &[Key::Char('U')]);
    assert_eq!(tagged(&ui), [0_u64; 0]);
}

#[test]
fn keys_return_their_outcomes() {
    let (state, mut ui) = (state(), Ui::default());
    for (key, outcome) in [
        (Key::Char('q'), Outcome::Quit),
        (Key::F(10), Outcome::Quit),
        (INTERRUPT, Outcome::Quit),
        (Key::Char('p'), Outcome::Pause),
        (Key::Char('Z'), Outcome::Pause),
        (Key::Char('+'), Outcome::Faster),
        (Key::Char('-'), Outcome::Slower),
        (SUSPEND, Outcome::Suspend),
        (REDRAW, Outcome::Redraw),
        (RESIZED, Outcome::Draw),
        (Key::F(1), Outcome::Draw),
    ] {
        assert_eq!(ui.key(key, &state), outcome, "{key:?}");
    }
    // In the help, a key without a meaning there returns, and Ctrl-C ends.
    assert_eq!(press(&mut ui, &state, &[Key::Char('q')]), Outcome::Draw);
    assert_eq!(press(&mut ui, &state, &[Key::F(1), INTERRUPT]), Outcome::Quit);
}
