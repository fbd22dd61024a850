//! What colours mean. Of the terminal's own sixteen only, never white or black as ink on the terminal's own ground, so that
//! dark and light terminals both show them; without colours, by bold, faint and reversed letters.

use model::Stage;
use ratatui::style::{Color, Modifier, Style};
use report::thread_state::ThreadState;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// A heading, or what matters most.
    Strong,
    /// What matters less.
    Faint,
    /// What went wrong or took long.
    Bad,
    /// What is as it should be.
    Good,
    /// A name that stands for something else: a cause, a role.
    Name,
    /// Columns' headings, the keys' meanings.
    Ground,
    /// The column that rows are sorted by, the view that is shown.
    Chosen,
    /// The row that is looked at.
    Selected,
    /// A row that the user tagged.
    Tagged,
    /// A letter of a bar of stages.
    Stage(Stage),
    /// A letter of a bar of states.
    State(ThreadState),
}

/// Which colours may be used.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    colour: bool,
}

impl Palette {
    /// With or without colours.
    pub fn new(colour: bool) -> Self {
        Self { colour }
    }

    pub(crate) fn is_coloured(self) -> bool {
        self.colour
    }

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
        Tone::Stage(stage) => on(of_stage(stage)),
        Tone::State(state) => on(of_state(state)),
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

/// Red is where the disk is waited for, magenta where other threads are, blue the network, green work.
fn of_stage(stage: Stage) -> Color {
    match stage {
        Stage::NetworkIn | Stage::NetworkOut => Color::Blue,
        Stage::HeadOfLine | Stage::Queue => Color::Yellow,
        Stage::Receive | Stage::Respond | Stage::Remote => Color::Cyan,
        Stage::Handler => Color::Green,
        Stage::Lock => Color::Magenta,
        Stage::Append => Color::Red,
        Stage::Unobserved => Color::DarkGray,
    }
}

fn of_state(state: ThreadState) -> Color {
    match state {
        ThreadState::Running => Color::Green,
        ThreadState::Runnable => Color::Yellow,
        ThreadState::FileOp => Color::Cyan,
        ThreadState::Blocked => Color::Red,
        ThreadState::Lock => Color::Magenta,
        ThreadState::Stopped => Color::Blue,
        ThreadState::Idle => Color::DarkGray,
    }
}
