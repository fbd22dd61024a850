//! Writes man pages and shell completions from the same declarations as `--help`: `manual DIRECTORY`.
//!
//! It is an example so that the program contains no generators. `make manual` runs it for the Debian package.

use std::path::PathBuf;
use std::{fs, io};

use clap_complete::Shell;

fn main() -> io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: manual DIRECTORY"));
    };
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(brokerscope::command(), &man)?;
    for page in fs::read_dir(man)? {
        let page = page?.path();
        // Examples are lines, not a paragraph.
        let text = fs::read_to_string(&page)?.replace(".SH EXTRA\n", ".SH NOTES AND EXAMPLES\n.nf\n");
        fs::write(page, text)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut brokerscope::command(), "brokerscope", &completions)?;
    }
    Ok(())
}
