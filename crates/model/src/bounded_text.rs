//! Cuts a text that others wrote, to keep it in bounded memory. Does not escape it.

/// The longest prefix of whole characters in at most `max_bytes`.
pub fn beginning(text: &str, max_bytes: usize) -> &str {
    // The empty text always fits.
    (0..=max_bytes.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn cuts_between_characters() {
        let text = "aé€😀";
        let cut: Vec<&str> = (0..=11).map(|bytes| beginning(text, bytes)).collect();
        let expected = ["", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€", "aé€", text, text];
        assert_eq!(cut, expected);
        assert_eq!(beginning("", 5), "");
    }
}
