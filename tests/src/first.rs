//! Ahead of whatever else runs on a machine: who observes loses nothing and is late for nothing, however busy it is.

use std::process::Command;

/// What a command is started by.
pub const FIRST: [&str; 3] = ["nice", "-n", "-15"];

/// The same command, ahead of others.
pub fn first(command: &Command) -> Command {
    let [nice, least, most] = FIRST;
    let mut ahead = Command::new(nice);
    ahead.args([least, most]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => ahead.env(name, value),
            None => ahead.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        ahead.current_dir(directory);
    }
    ahead
}

#[cfg(test)]
mod tests {
    use super::{Command, first};

    #[test]
    fn a_command_stays_what_it_is() {
        let mut command = Command::new("env");
        command.args(["-0", "x=1"]).env("A", "b").env_remove("C").current_dir("/tmp");
        let ahead = first(&command);
        assert_eq!(ahead.get_args().collect::<Vec<_>>(), ["-n", "-15", "env", "-0", "x=1"]);
        assert_eq!(ahead.get_envs().collect::<Vec<_>>(), command.get_envs().collect::<Vec<_>>());
        assert_eq!(ahead.get_current_dir(), command.get_current_dir());
    }
}
