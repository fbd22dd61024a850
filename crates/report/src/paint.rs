//! Colours, if the caller allows them. Does not decide that.

/// The role of a piece of text, which selects its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A heading.
    Heading,
    /// Something that went wrong or took long.
    Bad,
    /// Something that is as it should be.
    Good,
    /// Something that matters less.
    Faint,
}

impl Role {
    /// The code that selects the colour, between `ESC [` and `m`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Bad => "31",
            Self::Good => "32",
            Self::Faint => "2",
        }
    }
}

/// The text in the colour of its role, or unchanged.
pub fn paint(colour: bool, role: Role, text: &str) -> String {
    if !colour || text.is_empty() {
        return text.to_owned();
    }
    let code = role.code();
    format!("\x1b[{code}m{text}\x1b[0m")
}
