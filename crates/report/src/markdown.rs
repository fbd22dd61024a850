//! Text from outside in Markdown: in code spans, which it cannot end. Does not know the document.

use crate::escape::escape;

/// A code span: its text is not markup. Backticks would end it, so they are replaced.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", escape(text).replace('`', "'")) }
}

/// Like [`code`], within a table, where a bar ends the cell even in code.
pub fn cell(text: &str) -> String {
    code(text).replace('|', "¦")
}
