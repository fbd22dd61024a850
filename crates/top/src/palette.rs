//! The meaning of colours. Uses only the terminal's own sixteen, and never white or black text on the terminal's own
//! background, so that it is readable on dark and light terminals; without colours, uses bold, faint and reversed text.

use model::Stage;
use ratatui::style::{Color, Modifier, Style};
use report::thread_state::ThreadState;

/// The role of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// A heading, or other important text.
    Strong,
    /// Less important text.
    Faint,
    /// An error, or a long time.
    Bad,
    /// A normal value.
    Good,
    /// A name for something else: a cause, a role.
    Name,
    /// Column headings and key bindings.
    Ground,
    /// The sort column, the current view.
    Chosen,
    /// The selected row.
    Selected,
    /// A tagged row.
    Tagged,
    /// A letter of a bar of stages.
    Stage(Stage),
    /// A letter of a bar of states.
    State(ThreadState),
}

/// The colours in use.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Whether colours are used.
    pub colour: bool,
}

impl Palette {
    pub(crate) fn style(self, tone: Tone) -> Style {
        if self.colour { coloured(tone) } else { plain(tone) }
    }
}

fn coloured(tone: Tone) -> Style {
    let ink = |colour| Style::new().fg(colour);
    match tone {
        Tone::Plain => Style::new(),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Faint | Tone::State(ThreadState::Idle) => Style::new().add_modifier(Modifier::DIM),
        Tone::Bad => ink(Color::Red),
        Tone::Good => ink(Color::Green),
        Tone::Name => ink(Color::Magenta),
        Tone::Ground => on(Color::Green),
        Tone::Chosen | Tone::Selected => on(Color::Cyan),
        Tone::Tagged => ink(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Stage(stage) => on(stage_style(stage).1),
        Tone::State(state) => on(state_style(state).1),
    }
}

fn plain(tone: Tone) -> Style {
    match tone {
        Tone::Plain | Tone::Good | Tone::Name | Tone::Stage(_) | Tone::State(_) => Style::new(),
        Tone::Strong | Tone::Bad | Tone::Tagged => Style::new().add_modifier(Modifier::BOLD),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        Tone::Ground | Tone::Selected => Style::new().add_modifier(Modifier::REVERSED),
        Tone::Chosen => Style::new().add_modifier(Modifier::REVERSED.union(Modifier::BOLD)),
    }
}

fn on(ground: Color) -> Style {
    let ink = if ground == Color::Blue || ground == Color::DarkGray { Color::Gray } else { Color::Black };
    Style::new().fg(ink).bg(ground)
}

/// The letter of a stage in bars, its background, and its meaning.
/// Red is waiting for the disk, magenta waiting for other threads, blue the network, green work.
pub(crate) fn stage_style(stage: Stage) -> (char, Color, &'static str) {
    match stage {
        Stage::NetworkIn => ('I', Color::Blue, "the request's bytes came in"),
        Stage::HeadOfLine => ('B', Color::Yellow, "behind another request of its connection"),
        Stage::Receive => ('R', Color::Cyan, "complete, not read yet by a network thread"),
        Stage::Queue => ('Q', Color::Yellow, "read, not taken yet by a request handler"),
        Stage::Handler => ('H', Color::Green, "the handler's work"),
        Stage::Lock => ('L', Color::Magenta, "waiting for the partition's log lock"),
        Stage::Append => ('A', Color::Red, "inside the write to the file"),
        Stage::Remote => ('F', Color::Cyan, "waiting for followers, or for data"),
        Stage::Respond => ('S', Color::Cyan, "answered, not sent yet"),
        Stage::NetworkOut => ('O', Color::Blue, "the response's bytes went out"),
        Stage::Unobserved => ('·', Color::DarkGray, "not observed"),
    }
}

/// The letter of a thread's state in bars, and its background.
pub(crate) fn state_style(state: ThreadState) -> (char, Color) {
    match state {
        ThreadState::Running => ('C', Color::Green),
        ThreadState::Runnable => ('R', Color::Yellow),
        ThreadState::FileOp => ('F', Color::Cyan),
        ThreadState::Blocked => ('B', Color::Red),
        ThreadState::Lock => ('L', Color::Magenta),
        ThreadState::Stopped => ('S', Color::Blue),
        ThreadState::Idle => ('·', Color::DarkGray),
    }
}
