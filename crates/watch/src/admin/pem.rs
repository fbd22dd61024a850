//! Parses PEM like Kafka's clients (`DefaultSslEngineFactory.PemParser`): sections in base64, whose lines may be joined into one,
//! as in a properties file. Does not interpret their content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A section of PEM.
pub(super) struct Section {
    /// Its label, such as `CERTIFICATE`.
    pub(super) label: String,
    /// The decoded bytes.
    pub(super) der: Vec<u8>,
}

/// Parses all sections of a text, in order; skips text around them.
///
/// # Errors
/// What is wrong with a section, without its content.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    let mut rest = text;
    while let Some((_, section)) = rest.split_once("-----BEGIN ") {
        let (label, section) = section.split_once("-----").ok_or("a section of PEM does not begin right")?;
        let end = format!("-----END {label}-----");
        let (body, after) = section.split_once(&end).ok_or("a section of PEM does not end")?;
        let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let der = STANDARD.decode(body).map_err(|_| "a section of PEM is not base64")?;
        sections.push(Section { label: label.to_owned(), der });
        rest = after;
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn finds_sections_on_one_line_and_on_many() {
        let many = "Bag Attributes\n-----BEGIN A-----\nAAEC\r\nAw==\n-----END A-----\n-----BEGIN B C-----\n/w==\n-----END B C-----\n";
        let one = many.replace(['\n', '\r'], "");
        for text in [many, &one] {
            let sections = sections(text).unwrap();
            let found: Vec<_> = sections.iter().map(|s| (s.label.as_str(), s.der.as_slice())).collect();
            assert_eq!(found, [("A", &[0, 1, 2, 3][..]), ("B C", &[255])]);
        }
        assert!(sections("").unwrap().is_empty());
    }

    #[test]
    fn error_does_not_contain_the_damaged_text() {
        for text in ["-----BEGIN A", "-----BEGIN A-----\nAA==", "-----BEGIN A-----\nsecret!\n-----END A-----"]
        {
            let why = sections(text).err().unwrap();
            assert!(why.contains("PEM") && !why.contains("secret"), "{why}");
        }
    }
}
