//! Shares text that repeats: thread names, paths, flags. Bounded: it forgets everything when full, which
//! costs only repeated allocations.

use std::collections::HashMap;
use std::sync::Arc;

/// Distinct texts kept. A broker has thousands of open segments.
const MOST_TEXTS: usize = 16_384;

/// Bytes from the kernel to shared text; bytes that are not UTF-8 are replaced.
#[derive(Default)]
pub(crate) struct Texts {
    known: HashMap<Box<[u8]>, Arc<str>>,
}

impl Texts {
    /// The text of these bytes.
    pub(crate) fn share(&mut self, bytes: &[u8]) -> Arc<str> {
        if let Some(text) = self.known.get(bytes) {
            return Arc::clone(text);
        }
        self.remember(bytes, &String::from_utf8_lossy(bytes))
    }

    /// The path whose NUL-terminated components these bytes hold, the file's own name first.
    pub(crate) fn share_path(&mut self, bytes: &[u8]) -> Arc<str> {
        if let Some(text) = self.known.get(bytes) {
            return Arc::clone(text);
        }
        let path = join_components(bytes);
        self.remember(bytes, &path)
    }

    fn remember(&mut self, bytes: &[u8], text: &str) -> Arc<str> {
        if self.known.len() >= MOST_TEXTS {
            self.known.clear();
        }
        let text: Arc<str> = text.into();
        self.known.insert(bytes.into(), Arc::clone(&text));
        text
    }
}

fn join_components(bytes: &[u8]) -> String {
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(String::from_utf8_lossy).rev().collect();
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::{MOST_TEXTS, Texts, join_components};

    #[test]
    fn components_come_innermost_first_and_are_joined_outermost_first() {
        assert_eq!(join_components(b"0000.log\0topicA-0\0data\0"), "data/topicA-0/0000.log");
        assert_eq!(join_components(b"0000.log\0"), "0000.log");
        assert_eq!(join_components(b""), "");
        assert_eq!(join_components(b"\xff.log\0d\0"), "d/\u{fffd}.log");
    }

    #[test]
    fn a_name_and_a_path_of_the_same_text_do_not_mix() {
        let mut texts = Texts::default();
        assert_eq!(&*texts.share(b"a"), "a");
        assert_eq!(&*texts.share_path(b"a\0b\0"), "b/a");
        assert_eq!(&*texts.share_path(b"a\0b\0"), "b/a");
    }

    #[test]
    fn it_forgets_rather_than_grows() {
        let mut texts = Texts::default();
        for i in 0..=MOST_TEXTS {
            texts.share(i.to_string().as_bytes());
        }
        assert_eq!(texts.known.len(), 1);
    }
}
