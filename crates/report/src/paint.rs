//! Colours, where the caller allows them. Does not decide whether it does.

/// What a piece of text is, for those who see colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A heading.
    Heading,
    /// What went wrong or took long.
    Bad,
    /// What is as it should be.
    Good,
    /// What matters less.
    Faint,
}

impl Role {
    /// What selects it, between `ESC [` and `m`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Bad => "31",
            Self::Good => "32",
            Self::Faint => "2",
        }
    }
}

/// The text in the colour of its role, or as it is.
pub fn paint(colour: bool, role: Role, text: &str) -> String {
    if !colour || text.is_empty() {
        return text.to_owned();
    }
    let code = role.code();
    format!("\x1b[{code}m{text}\x1b[0m")
}
