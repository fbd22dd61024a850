//! Text of made-up words: unlike random bytes, a compressor finds repetitions in it, and has to look for them.

use crate::random::Random;

/// So many bytes of text.
#[must_use]
pub(crate) fn text(bytes: usize, random: &mut Random) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        let drawn = random.number();
        let mut word = drawn % 9_973;
        for _ in 0..3 + word % 5 {
            text.push(b'a' + (word % 26) as u8);
            word = word / 3 + 7;
        }
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_words_and_follows_from_the_seed() {
        let of = |seed| text(1000, &mut Random::new(seed));
        assert_eq!(of(1).len(), 1000);
        assert!(of(1).iter().all(|byte| byte.is_ascii_lowercase() || *byte == b' '));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
