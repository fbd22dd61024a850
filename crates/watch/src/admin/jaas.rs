//! Parses `sasl.jaas.config` like `org.apache.kafka.common.security.JaasConfig`: one login module with its options. Knows which
//! modules take a user name and a password from them. Errors never quote the text, which holds a password.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// Modules that only pass on `username` and `password`.
/// Matched by suffix: some programs relocate Kafka's classes.
const MODULES: [&str; 2] = [".PlainLoginModule", ".ScramLoginModule"];
const CONTROL_FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

/// Returns the user name and the password.
///
/// # Errors
/// What is wrong, without any value.
pub(super) fn username_and_password(text: &str) -> Result<(String, String), &'static str> {
    let mut tokens = Tokens(text.chars().peekable());
    let module = tokens.word().ok_or("it does not begin with a login module")?;
    if !MODULES.iter().any(|known| module.ends_with(known)) {
        return Err("its login module is neither PlainLoginModule nor ScramLoginModule");
    }
    let flag = tokens.word().unwrap_or_default();
    if !CONTROL_FLAGS.iter().any(|known| flag.eq_ignore_ascii_case(known)) {
        return Err("`required` does not follow its login module");
    }
    let mut options = tokens.options()?;
    if options.get("tokenauth").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err("delegation tokens (tokenauth) are not supported");
    }
    let mut option = |name: &str| options.remove(name).filter(|value| !value.contains('\0'));
    let username = option("username").ok_or("it has no username")?;
    let password = option("password").ok_or("it has no password")?;
    Ok((username, password))
}

/// Reads words and quoted strings.
/// Works like `java.io.StreamTokenizer` as Kafka configures it.
struct Tokens<'a>(Peekable<Chars<'a>>);

impl Tokens<'_> {
    /// Reads `NAME=VALUE` pairs up to the semicolon; nothing may follow it.
    fn options(&mut self) -> Result<BTreeMap<String, String>, &'static str> {
        let mut options = BTreeMap::new();
        while !self.accept(';') {
            let name = self.word().ok_or("it does not end with a semicolon, or an option has no name")?;
            if !self.accept('=') {
                return Err("an option of it has no value");
            }
            let value = self.word().ok_or("an option of it has no value, or a quote does not end")?;
            options.insert(name, value);
        }
        self.skip_blanks();
        if self.0.peek().is_some() {
            return Err("it has more than one login module");
        }
        Ok(options)
    }

    fn accept(&mut self, expected: char) -> bool {
        self.skip_blanks();
        self.0.next_if_eq(&expected).is_some()
    }

    fn skip_blanks(&mut self) {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
    }

    /// Reads a word or a quoted string; `None` if neither is next or the quote does not end.
    fn word(&mut self) -> Option<String> {
        self.skip_blanks();
        if let Some(quote) = self.0.next_if(|c| matches!(c, '"' | '\'')) {
            return self.quoted_text(quote);
        }
        let mut word = String::new();
        while let Some(c) = self.0.next_if(|c| !c.is_whitespace() && !matches!(c, '=' | ';' | '"' | '\'')) {
            word.push(c);
        }
        Some(word).filter(|word| !word.is_empty())
    }

    fn quoted_text(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.0.next()? {
                c if c == quote => return Some(text),
                '\n' | '\r' => return None,
                '\\' => text.push(self.escaped_char()?),
                c => text.push(c),
            }
        }
    }

    /// Reads the rest of an escape sequence; up to three octal digits are a character.
    fn escaped_char(&mut self) -> Option<char> {
        let c = self.0.next()?;
        let Some(first) = c.to_digit(8) else {
            return Some(match c {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other => other,
            });
        };
        // A third digit is only read if the first is at most 3.
        let more = if first <= 3 { 2 } else { 1 };
        let mut code = first;
        for _ in 0..more {
            let Some(digit) = self.0.peek().and_then(|c| c.to_digit(8)) else { break };
            self.0.next();
            code = code * 8 + digit;
        }
        char::from_u32(code)
    }
}

#[cfg(test)]
mod tests {
    use super::username_and_password;

    const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required";
    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";

    #[test]
    fn parses_kafkas_jaas_syntax() {
        let cases = [
            (format!("{SCRAM} username=\"u\" password=\"p\";"), "u", "p"),
            (format!("  {PLAIN}\n\tusername = 'u'  password=p ; "), "u", "p"),
            (format!("{PLAIN} username=\"a \\\"b\\\"\" password=\"\\\\ \\101;=',\";"), "a \"b\"", "\\ A;=',"),
            (
                format!("{PLAIN} password=\"p\" user_x=\"y\" username=\"u-1_$.x\" serviceName=kafka;"),
                "u-1_$.x",
                "p",
            ),
            (format!("{PLAIN} username=u password=\"\\477\";"), "u", "'7"),
        ];
        for (text, username, password) in cases {
            assert_eq!(
                username_and_password(&text),
                Ok((username.to_owned(), password.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_do_not_contain_the_password() {
        for (text, why) in [
            (String::new(), "begin with a login module"),
            ("x.Krb5LoginModule required username=u password=secret;".to_owned(), "neither"),
            (format!("{SCRAM} username=\"u\" password=\"secret\""), "semicolon"),
            (format!("{SCRAM} username=\"u\" password=\"secret;"), "quote"),
            (format!("{SCRAM} username=\"u\";"), "no password"),
            (format!("{SCRAM} password=\"secret\";"), "no username"),
            (format!("{SCRAM} username=u password;"), "no value"),
            (format!("{SCRAM} username=u password=secret; {PLAIN};"), "more than one"),
            (format!("{SCRAM} username=u password=secret tokenauth=true;"), "tokenauth"),
            ("x.ScramLoginModule username=u password=secret;".to_owned(), "required"),
            (format!("{SCRAM} username=u password=\"secret\\0\";"), "no password"),
        ] {
            let error = username_and_password(&text).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
