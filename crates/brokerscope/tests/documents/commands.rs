//! `docs/reference/commands.md`: every command and flag, as declared.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::{cell, hold};

const HEAD: &str = "\
# Commands and flags

Generated from the declarations that `--help`, the man pages and completions follow from: `BLESS=1 cargo test -p brokerscope --test
documents`. `brokerscope COMMAND --help` prints the same.

Every command also takes `--quiet` (print only data, warnings and errors), `--verbose` (print also what is read and watched, and how; with `explain`, all that could not be observed) and
`--help`. A time is a number with its unit: `100us`, `65ms`, `1.5s`, `10m`, `24h`. A size likewise: `512KiB`, `256MiB`.
[Exit codes](exit-codes.md) are the same for all.
";
/// Flags of every command.
const GLOBAL: [&str; 4] = ["quiet", "verbose", "help", "version"];

#[test]
fn the_reference_has_every_command_and_flag() {
    let mut root = brokerscope::command();
    root.build();
    let mut text = HEAD.to_owned();
    for command in root.get_subcommands_mut() {
        add_command(command, &mut text);
    }
    hold("docs/reference/commands.md", &text);
}

fn add_command(command: &mut Command, to: &mut String) {
    let usage = command.render_usage().to_string();
    let about = command.get_about().unwrap();
    let usage = usage.trim_start_matches("Usage: ");
    write!(to, "\n## {}\n\n{about}.\n\n    {usage}\n", command.get_name()).unwrap();
    for arg in command.get_positionals().filter(|arg| arg.get_id() != "help") {
        write!(to, "\n`{}`: {}.\n", arg.get_value_names().unwrap_or_default().join(" "), help(arg)).unwrap();
    }
    let flags = || {
        command
            .get_opts()
            .chain(command.get_arguments().filter(|arg| is_switch(arg)))
            .filter(|arg| is_listed(arg))
    };
    let mut headings: Vec<_> = flags().map(heading).collect();
    headings.sort_by_key(|heading| HEADINGS.iter().position(|known| known == heading));
    headings.dedup();
    for of in headings {
        write!(to, "\n| {of} | default | meaning |\n|---|---|---|\n").unwrap();
        for flag in flags().filter(|flag| heading(flag) == of) {
            writeln!(to, "| {} | {} | {} |", name(flag), default(flag), meaning(flag)).unwrap();
        }
    }
    if let Some(after) = command.get_after_help() {
        to.push('\n');
        after
            .to_string()
            .lines()
            .for_each(|line| writeln!(to, "{}", format!("    {line}").trim_end()).unwrap());
    }
}

/// Groups of flags, in the order of the output.
pub(crate) const HEADINGS: [&str; 5] = ["Options", "Input", "Filter", "JVM", "Output"];

pub(crate) fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or("Options")
}

fn is_switch(arg: &Arg) -> bool {
    !arg.is_positional() && !arg.get_action().takes_values()
}

pub(crate) fn is_listed(arg: &Arg) -> bool {
    !arg.is_hide_set() && !GLOBAL.contains(&arg.get_id().as_str())
}

fn help(arg: &Arg) -> String {
    cell(&arg.get_help().unwrap().to_string())
}

fn name(flag: &Arg) -> String {
    let long = flag.get_long().unwrap();
    let short = flag.get_short().map_or_else(String::new, |short| format!("`-{short}`, "));
    let values = flag.get_value_names().filter(|_| flag.get_action().takes_values());
    let values = values.map_or_else(String::new, |names| format!(" {}", names.join(" ")));
    format!("{short}`--{long}{}`", cell(&values))
}

fn default(flag: &Arg) -> String {
    if !flag.get_action().takes_values() {
        return String::new();
    }
    let values = flag.get_default_values().iter().map(|value| format!("`{}`", value.to_str().unwrap()));
    values.collect::<Vec<_>>().join(" ")
}

fn meaning(flag: &Arg) -> String {
    let values: Vec<_> = flag
        .get_possible_values()
        .iter()
        .filter(|_| flag.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let values = if values.is_empty() { String::new() } else { format!(" One of {}.", values.join(", ")) };
    format!("{}.{values}", help(flag))
}
