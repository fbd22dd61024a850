//! Rules of help texts: a verb first, examples last, flags in groups, no line over 80 columns.

use clap::Command;

use super::commands::{HEADINGS, heading, is_listed};

/// Verbs that help of a command or a flag may start with. A new one is added here on purpose.
const VERBS: [&str; 51] = [
    "Advise", "Answer", "Count", "Ask", "Call", "Capture", "Check", "Compare", "Draw", "Examine", "Explain",
    "Export", "Get", "Group", "Have", "Keep", "Leave", "List", "Listen", "Look", "Measure", "Name", "Print",
    "Profile", "Put", "Rank", "Read", "Record", "Replay", "Reply", "Sample", "Say", "Send", "Set", "Show",
    "Sort", "Stop", "Sum", "Take", "Trace", "Treat", "Use", "Wait", "Watch", "Write", "Add", "Find", "Start",
    "End", "Do", "Save",
];

fn commands() -> Vec<Command> {
    let mut root = brokerscope::command();
    root.build();
    let subcommands = root.get_subcommands().cloned().collect::<Vec<_>>();
    [vec![root], subcommands].concat()
}

#[test]
fn help_texts_begin_with_a_verb() {
    let begins = |text: &str| VERBS.contains(&text.split(' ').next().unwrap());
    let mut faults = Vec::new();
    for command in commands() {
        let flags = command.get_arguments().filter(|arg| !arg.is_positional() && is_listed(arg));
        let flags = flags.map(|flag| (flag.get_id().to_string(), flag.get_help().unwrap().to_string()));
        let about = (String::new(), command.get_about().unwrap().to_string());
        let texts = flags.chain([about]).filter(|(_, help)| !begins(help));
        faults.extend(texts.map(|(flag, help)| format!("{} --{flag}: {help}", command.get_name())));
    }
    assert!(faults.is_empty(), "help begins with a verb:\n{}", faults.join("\n"));
}

#[test]
fn examples_end_the_help_in_lines_of_at_most_80_columns() {
    let mut faults = Vec::new();
    for command in commands().iter().skip(1) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = after.rsplit_once("Examples:\n").map_or("", |(_, examples)| examples);
        if examples.is_empty() || examples.lines().any(|line| !line.starts_with("  ")) {
            faults.push(format!("{}: examples do not end its help", command.get_name()));
        }
        let long = after.lines().filter(|line| line.chars().count() > 80);
        faults.extend(long.map(|line| format!("{}: {line}", command.get_name())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn defaults_are_ascii_without_spaces() {
    for command in commands() {
        for flag in command.get_arguments() {
            for value in flag.get_default_values() {
                let value = value.to_str().unwrap();
                let typed = value.is_ascii() && !value.contains(' ');
                assert!(typed, "{} --{}: {value}", command.get_name(), flag.get_id());
            }
        }
    }
}

#[test]
fn flags_are_grouped_under_known_headings() {
    for command in commands() {
        for flag in command.get_arguments().filter(|arg| !arg.is_positional()) {
            assert!(HEADINGS.contains(&heading(flag)), "{} --{}", command.get_name(), flag.get_id());
        }
    }
}

#[test]
fn help_lines_have_at_most_80_columns() {
    for mut command in commands() {
        let help = command.render_help().to_string();
        let long = help.lines().filter(|line| line.chars().count() > 80).collect::<Vec<_>>();
        assert!(long.is_empty(), "{}: {long:?}", command.get_name());
    }
}
