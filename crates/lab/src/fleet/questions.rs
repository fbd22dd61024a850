//! The operator of the case: asks one command after the other what is wrong, and shows what each says. Whether that is what was
//! planted, [`super::named`] says.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::named::{self, Named};
use super::tier_state::{Cleaned, FILE, PARTITIONS, TOPIC};
use crate::error::Error;
use crate::observer::Observer;

/// What was seen while the brokers ran, and where it is.
pub(super) struct Seen {
    /// The broker that reads its disk for nobody.
    pub(super) planted: u32,
    pub(super) brokers: u32,
    /// Folders of all brokers' recordings.
    pub(super) before: PathBuf,
    /// The planted broker's recording, and those of the others.
    pub(super) odd: PathBuf,
    pub(super) well: Vec<PathBuf>,
    /// The planted broker's log.
    pub(super) log: PathBuf,
    pub(super) cleaned: Cleaned,
    /// Its recording after the cleanup.
    pub(super) after: PathBuf,
}

/// Asks.
pub(super) struct Operator<'a> {
    pub(super) observer: &'a Observer,
    /// What commands say is kept here.
    pub(super) said: &'a Path,
}

/// A command's name, and whether it named what was planted.
type Answer = (&'static str, Named);

impl Operator<'_> {
    /// Asks all questions, shows the answers, and says of each whether it names what was planted; how many do not.
    pub(super) fn ask_all(&self, seen: &Seen) -> Result<usize, Error> {
        let path = |path: &'static str| OsStr::new(path);
        let (odd, before) = (seen.odd.as_os_str(), seen.before.as_os_str());
        let most = PARTITIONS.to_string();
        let fleet = self.ask("fleet", "fleet", &[before], &[])?;
        let by_reads = [path("--from"), odd, path("--sort"), path("disk-reads")];
        let files = self.ask("files", "files", &by_reads, &[path("--top"), OsStr::new(&most)])?;
        let logs = self.ask("logs", "logs", &[seen.log.as_os_str()], &[])?;
        let advise = self.ask("advise", "advise", &[odd], &[])?;
        let by_kind = [path("--from"), seen.after.as_os_str(), path("--by"), path("kind")];
        let after = self.ask("after", "files", &by_kind, &[])?;
        let answers = [
            ("fleet", named::by_fleet(&fleet, seen.planted)),
            ("files", named::by_files(&files)),
            ("others", self.ask_of_others(seen)?),
            ("logs", named::by_logs(&logs, seen.cleaned)),
            ("advise", named::by_advise(&advise)),
            ("after", named::reads_gone(&after)),
        ];
        print(&conclusion(seen, &answers))?;
        Ok(answers.iter().filter(|(_, named)| named.is_err()).count())
    }

    /// Has a command say something, shows it, and returns it as JSON; `shown` are arguments of what is shown only.
    fn ask(
        &self,
        name: &str,
        command: &str,
        arguments: &[&OsStr],
        shown: &[&OsStr],
    ) -> Result<String, Error> {
        let words = arguments.iter().chain(shown).map(|word| word.to_string_lossy());
        let typed = words.fold(format!("brokerscope {command}"), |line, word| line + " " + &word);
        let text = self.have_said(&format!("{name}.txt"), command, &[arguments, shown].concat())?;
        print(&format!("$ {typed}\n{text}\n"))?;
        self.as_json(name, command, arguments)
    }

    fn as_json(&self, name: &str, command: &str, arguments: &[&OsStr]) -> Result<String, Error> {
        let as_json = [OsStr::new("--format"), OsStr::new("json")];
        self.have_said(&format!("{name}.jsonl"), command, &[arguments, &as_json].concat())
    }

    /// Whether nothing is said of brokers that are well.
    fn ask_of_others(&self, seen: &Seen) -> Result<Named, Error> {
        for recording in &seen.well {
            let arguments = [OsStr::new("--from"), recording.as_os_str()];
            if let Err(told) = named::no_reads_without_egress(&self.as_json("others", "files", &arguments)?) {
                return Ok(Err(told));
            }
        }
        Ok(Ok(format!("nothing is said of the {} brokers that are well", seen.well.len())))
    }

    fn have_said(&self, name: &str, command: &str, arguments: &[&OsStr]) -> Result<String, Error> {
        let said = self.said.join(name);
        self.observer.have_said(command, |command| command.args(arguments), &said)?;
        fs::read_to_string(&said).map_err(Error::io("read", &said))
    }
}

/// What was planted, and who named it.
fn conclusion(seen: &Seen, answers: &[Answer]) -> String {
    let Seen { planted, brokers, .. } = seen;
    let head = format!(
        "planted: broker {planted} of {brokers} reads {TOPIC}-*/{FILE} from its disk and sends it nowhere\n"
    );
    let line = |(name, named): &Answer| match named {
        Ok(how) => format!("  {name:<7} ok: {how}\n"),
        Err(why) => format!("  {name:<7} MISSED: {why}\n"),
    };
    answers.iter().map(line).fold(head, |text, line| text + &line)
}

fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_name_it_is_said() {
        let seen = Seen {
            planted: 4,
            brokers: 9,
            before: PathBuf::new(),
            odd: PathBuf::new(),
            well: Vec::new(),
            log: PathBuf::new(),
            cleaned: Cleaned { before_bytes: 2, after_bytes: 1 },
            after: PathBuf::new(),
        };
        let answers = [("fleet", Ok("broker 4".to_owned())), ("files", Err("nothing".to_owned()))];
        let text = conclusion(&seen, &answers);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("planted: broker 4 of 9 reads retriever-mutation-*"), "{text}");
        assert_eq!(lines[1..], ["  fleet   ok: broker 4", "  files   MISSED: nothing"]);
    }
}
