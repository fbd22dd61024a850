//! Text from outside in Markdown: code spans, which it cannot end. Does not know the document.

use crate::escape::escape;

/// A code span: what is in it is no markup. Backticks would end it.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", escape(text).replace('`', "'")) }
}

/// The same within a table, where a bar ends the cell even in code.
pub fn cell(text: &str) -> String {
    code(text).replace('|', "¦")
}
