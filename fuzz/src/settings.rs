//! A broker's settings: its file, its command line, and what it answers when it is asked for those in force.
//!
//! Input: a byte that chooses, 0 the file, 1 the answer, 3 the answers to a client that authenticates itself, others the command line
//! of a process; then that.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use broker::{Broker, Processes, properties};
use watch::admin::{self, fuzzing};
use wire::describe_configs::DescribeConfigsResponse;

use crate::{Target, files};

/// The target.
pub const TARGET: Target = Target { name: "settings", check, spare_bytes: 64 << 10 };

/// A setting's name, value, flags and synonyms, all empty.
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

/// No more is read than there is, a comment in front changes nothing, and what is written again is read as the same.
fn check_file(bytes: &[u8]) {
    let read = properties::parse(bytes);
    let characters: usize = read.iter().map(|(key, value)| key.chars().count() + value.chars().count()).sum();
    assert!(characters <= bytes.len(), "{characters} characters");
    assert_eq!(properties::parse(&[b"# a=b\r\n", bytes].concat()), read);
    assert_eq!(properties::parse(written(&read).as_bytes()), read);
}

/// A file with these properties, in which every character is escaped that may mean anything.
fn written(properties: &BTreeMap<String, String>) -> String {
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

/// No more settings are taken than there are bytes for, an answer that is cut is none, and why there are none is one line.
fn check_answer(body: &[u8]) {
    match admin::understand("PLAINTEXT://:9092", &[&[0, 0, 0, 1], body].concat()) {
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

/// Who does not know the password authenticates nobody by SCRAM, and what is said is one line without it. A byte that chooses the
/// mechanism, then the answers, each after its length.
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
            let said = error.to_string();
            assert!(!said.contains(char::is_control) && !said.contains(fuzzing::PASSWORD), "{said:?}");
        }
    }
}

/// A process that shows no more than its command line is no broker.
fn check_command_line(bytes: &[u8]) {
    let proc = files::directory();
    files::write(&proc, "7/cmdline", bytes);
    assert!(Broker::of(&Processes::at(proc.path()), 7).is_err());
}
