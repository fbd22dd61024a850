//! A broker's settings: its file, its command line, and its answer to a request for those in force.
//!
//! Input: a selector byte, 0 the file, 1 the answer, 3 the answers to an authenticating client, others the command line
//! of a process; then the data.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use broker::{Broker, Processes, properties};
use watch::admin::{self, fuzzing};
use wire::describe_configs::DescribeConfigsResponse;

use crate::{Target, files};

/// The target.
pub const TARGET: Target = Target { name: "settings", check, spare_bytes: 64 << 10 };

/// Minimum size of a setting: name, value, flags and synonyms, all empty.
const MIN_CONFIG_BYTES: usize = 2 + 2 + 3 + 4;

fn check(data: &[u8]) {
    match data.split_first() {
        Some((0, file)) => check_file(file),
        Some((1, answer)) => check_answer(answer),
        Some((3, answers)) => check_authentication(answers),
        Some((_, command_line)) => check_command_line(command_line),
        None => {}
    }
}

/// Checks that no more is read than there is. A comment in front must change nothing, and a rewritten file must read
/// the same.
fn check_file(bytes: &[u8]) {
    let read = properties::parse(bytes);
    let characters: usize = read.iter().map(|(key, value)| key.chars().count() + value.chars().count()).sum();
    assert!(characters <= bytes.len(), "{characters} characters");
    assert_eq!(properties::parse(&[b"# a=b\r\n", bytes].concat()), read);
    assert_eq!(properties::parse(format_properties(&read).as_bytes()), read);
}

/// A file with these properties, with every special character escaped.
fn format_properties(properties: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (part, end) in properties.iter().flat_map(|(key, value)| [(key, '='), (value, '\n')]) {
        for c in part.chars() {
            if c.is_ascii_alphanumeric() {
                text.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").expect("a String takes everything");
            }
        }
        text.push(end);
    }
    text
}

/// Checks that there are no more settings than the bytes allow. A truncated answer must be an error, and an error must
/// be one line.
fn check_answer(body: &[u8]) {
    match admin::parse_response("PLAINTEXT://:9092", &[&[0, 0, 0, 1], body].concat()) {
        Ok(config) => {
            let settings = config.dynamic.iter().chain(&config.from_file);
            let bytes: usize = settings.map(|(name, value)| name.len() + value.len()).sum();
            let defaults: usize = config.defaults.iter().map(String::len).sum();
            assert!(bytes + defaults <= body.len(), "{config:?}");
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
    let Ok(answer) = DescribeConfigsResponse::parse(body) else { return };
    let (mut count, mut bytes) = (0, 0);
    for config in answer.configs() {
        count += 1;
        bytes += MIN_CONFIG_BYTES + config.name.len() + config.value.map_or(0, str::len);
    }
    assert!(bytes <= body.len(), "{count} settings of {bytes} bytes");
    for end in [0, body.len() / 2, body.len() - 1] {
        assert!(DescribeConfigsResponse::parse(&body[..end]).is_err(), "the first {end} bytes");
    }
}

/// Checks that SCRAM fails without the password. The error must be one line that does not contain the password. Input:
/// a byte that selects the mechanism, then the answers, each preceded by its length.
fn check_authentication(bytes: &[u8]) {
    let Some((mechanism, mut rest)) = bytes.split_first() else { return };
    let mut answers = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (answer, after) = after.split_at(usize::from(u16::from_be_bytes(*length)).min(after.len()));
        answers.push(answer);
        rest = after;
    }
    let is_scram = mechanism % 2 == 0;
    match fuzzing::authenticate(is_scram, &answers) {
        Ok(()) => assert!(!is_scram, "{answers:?}"),
        Err(error) => {
            let message = error.to_string();
            assert!(
                !message.contains(char::is_control) && !message.contains(fuzzing::PASSWORD),
                "{message:?}"
            );
        }
    }
}

/// Checks that a process with nothing but a command line is not a broker.
fn check_command_line(bytes: &[u8]) {
    let proc = files::directory();
    files::write(&proc, "7/cmdline", bytes);
    assert!(Broker::of(&Processes::at(proc.path()), 7).is_err());
}
