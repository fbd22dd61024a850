//! Resolves kernel addresses to function names, from `/proc/kallsyms`.
//!
//! Knows functions only, no data, no lines.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

const PATH: &str = "/proc/kallsyms";

/// The kernel's functions, by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Start address, and offset and length of the name in `names`; sorted.
    starts: Vec<(u64, u32, u8)>,
    names: String,
}

impl Symbols {
    /// Reads the running kernel's symbols. Empty if addresses are hidden.
    pub(crate) fn of_this_kernel() -> io::Result<Self> {
        Self::read(BufReader::new(File::open(PATH)?))
    }

    pub(crate) fn read(mut lines: impl BufRead) -> io::Result<Self> {
        let mut symbols = Self::default();
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            if let Some((address, name)) = parse_function(&line) {
                symbols.add(address, name);
            }
            line.clear();
        }
        symbols.starts.sort_unstable();
        Ok(symbols)
    }

    fn add(&mut self, address: u64, name: &str) {
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u8::try_from(name.len())) else {
            return;
        };
        self.starts.push((address, at, length));
        self.names.push_str(name);
    }

    /// The range of the function with that name, up to the next function.
    pub(crate) fn range_of(&self, name: &str) -> Option<Range<u64>> {
        let named = |&(_, at, length): &(u64, u32, u8)| {
            self.names.get(at as usize..at as usize + usize::from(length)) == Some(name)
        };
        let at = self.starts.iter().position(named)?;
        let &(start, ..) = self.starts.get(at)?;
        let end = self.starts.get(at..)?.iter().map(|&(next, ..)| next).find(|&next| next > start)?;
        Some(start..end)
    }

    /// The function that holds an address: the last one that starts at or before it.
    pub(crate) fn name_of(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|&(start, ..)| start <= address);
        let &(_, at, length) = self.starts.get(after.checked_sub(1)?)?;
        self.names.get(at as usize..at as usize + usize::from(length))
    }
}

/// Whether this process may see addresses; unprivileged readers see zeros instead.
pub(crate) fn shows_addresses() -> bool {
    File::open(PATH).is_ok_and(|file| has_addresses(BufReader::new(file)))
}

/// Whether the kernel lists a symbol, at any address: data only with `CONFIG_KALLSYMS_ALL`.
pub(crate) fn lists(name: &str) -> bool {
    File::open(PATH).is_ok_and(|file| names(BufReader::new(file), name))
}

fn names(lines: impl BufRead, name: &str) -> bool {
    lines.lines().map_while(Result::ok).any(|line| line.split_ascii_whitespace().nth(2) == Some(name))
}

/// Whether the first function has an address.
///
/// Earlier symbols may be at zero for every reader: per-CPU data, on x86 kernels before 6.15.
fn has_addresses(lines: impl BufRead) -> bool {
    let mut lines = lines.lines().map_while(Result::ok);
    let first = lines.find(|line| parse_line(line).is_some_and(|(_, kind, _)| matches!(kind, "t" | "T")));
    first.is_some_and(|line| parse_function(&line).is_some())
}

/// Parses `ffffffff812a3b40 t ext4_file_write_iter [ext4]`.
fn parse_line(line: &str) -> Option<(u64, &str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((address, words.next()?, words.next()?))
}

/// Parses a function at a known address.
///
/// Parts that the compiler split off a function (`.isra.0`, `.cold`, `.part.3`) get that function's name, which people
/// and rules look for.
fn parse_function(line: &str) -> Option<(u64, &str)> {
    let (address, kind, name) = parse_line(line)?;
    let is_function = matches!(kind, "t" | "T" | "w" | "W");
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    (is_function && address != 0).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::{Symbols, has_addresses, names};

    const LINES: &str = "0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000300 t late.isra.0
ffffffff81000100 T early
ffffffff81000200 D some_data
ffffffffc0000010 t ext4_write\t[ext4]
not a line
ffffffff81000250
";

    fn symbols() -> Symbols {
        Symbols::read(LINES.as_bytes()).unwrap()
    }

    #[test]
    fn address_maps_to_the_function_that_starts_before_it() {
        let symbols = symbols();
        let name = |address| symbols.name_of(address);
        assert_eq!(name(0xffff_ffff_8100_00ff), Some("_text"));
        assert_eq!(name(0xffff_ffff_8100_0100), Some("early"));
        assert_eq!(name(0xffff_ffff_8100_0210), Some("early"), "data is no function");
        assert_eq!(name(0xffff_ffff_8100_0301), Some("late"));
        assert_eq!(name(0xffff_ffff_c000_0020), Some("ext4_write"));
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0), None);
    }

    #[test]
    fn function_ends_where_the_next_one_starts() {
        let symbols = Symbols::read("30 T c\n10 T a\n10 t alias\n20 T b\n".as_bytes()).unwrap();
        assert_eq!(symbols.range_of("a"), Some(0x10..0x20));
        assert_eq!(symbols.range_of("alias"), Some(0x10..0x20));
        assert_eq!(symbols.range_of("c"), None, "it has no end");
        assert_eq!(symbols.range_of("d"), None);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let symbols = Symbols::read("0000000000000000 T a\n0000000000000000 T b\n".as_bytes()).unwrap();
        assert_eq!(symbols.name_of(u64::MAX), None);
    }

    #[test]
    fn addresses_are_hidden_if_the_first_function_has_none() {
        assert!(has_addresses(LINES.as_bytes()));
        assert!(!has_addresses(
            "0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n".as_bytes()
        ));
        assert!(!has_addresses("".as_bytes()));
    }

    #[test]
    fn finds_a_symbol_by_its_whole_name() {
        let listed = "0000000000030e40 D kernel_cpustat\nffffffff81000000 T kernel_cpustat_cpu\n";
        assert!(names(listed.as_bytes(), "kernel_cpustat"));
        assert!(!names(listed.as_bytes(), "cpustat") && !names("".as_bytes(), "kernel_cpustat"));
    }
}
