//! Names of code from other users' files: programs and libraries, lists of compiled code, mappings.
//!
//! Input: a selector byte (0 a program, 1 a list, 2 mappings, 3 a symbol's name); then the data.

use probes::fuzzing;

use crate::Target;

/// The target. Symbols may share the bytes of a name of 4 KiB.
pub const TARGET: Target = Target { name: "symbols", check, spare_bytes: 4 << 20 };

const MAX_NAME_BYTES: usize = 4096;
/// Maximum length of the name of a probe or an exported variable. A probe's consists of its provider's name, a colon
/// and its own.
const MAX_PROBE_BYTES: usize = 257;
const MAX_COMPILED_BYTES: usize = 256;
/// Number of addresses to look up, and their distance in a program.
const ASKED: usize = 64;

fn check(data: &[u8]) {
    match data.split_first() {
        Some((0, program)) => check_program(program),
        Some((1, list)) => check_list(list),
        Some((2, maps)) => check_mappings(maps),
        Some((_, symbol)) => check_symbol(symbol),
        None => {}
    }
}

/// Checks that names are in the file, unless they are demangled C++ names.
fn check_program(bytes: &[u8]) {
    let offsets: Vec<u64> = (0..ASKED as u64).map(|nth| nth * 64).collect();
    let has_cpp = is_in(bytes, "_Z");
    for name in fuzzing::functions(bytes, &offsets) {
        assert!((1..=MAX_NAME_BYTES).contains(&name.len()), "{name}");
        assert!(has_cpp || is_in(bytes, &name), "{name} is not in the file");
    }
    for name in fuzzing::library(bytes, 0) {
        assert!(name.len() <= MAX_PROBE_BYTES, "{name}");
        assert!(name.split(':').all(|part| is_in(bytes, part)), "{name} is not in the file");
    }
}

fn is_in(bytes: &[u8], name: &str) -> bool {
    name.is_empty() || bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

/// Checks that names are in the list.
fn check_list(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for name in fuzzing::compiled_code(bytes, &numbers(&text)) {
        assert!((1..=MAX_COMPILED_BYTES).contains(&name.len()), "{name}");
        assert!(text.contains(&name), "{name} is not in the list");
    }
}

/// Checks that the mapping found for an address contains it.
fn check_mappings(bytes: &[u8]) {
    let addresses = numbers(&String::from_utf8_lossy(bytes));
    for (address, found) in addresses.iter().zip(fuzzing::mappings(bytes, &addresses)) {
        assert!(found.is_none_or(|(start, end)| (start..end).contains(address)), "{address}: {found:?}");
    }
}

/// The numbers at the start of the first lines, and addresses that nothing has.
fn numbers(text: &str) -> Vec<u64> {
    let first = |line: &str| {
        let word = line.strip_prefix("0x").unwrap_or(line).split([' ', '-']).next()?;
        u64::from_str_radix(word, 16).ok()
    };
    [0, u64::MAX].into_iter().chain(text.lines().filter_map(first).take(ASKED)).collect()
}

/// Checks that a name is short, and that other names than C++'s are unchanged.
fn check_symbol(bytes: &[u8]) {
    let Ok(symbol) = std::str::from_utf8(bytes) else { return };
    let name = fuzzing::function(symbol);
    assert!(name.len() <= symbol.len().max(MAX_NAME_BYTES), "{} bytes", name.len());
    assert!(name.is_empty() == symbol.is_empty(), "a name of nothing for {symbol}");
    assert!(symbol.starts_with("_Z") || symbol.starts_with(&name), "{name}");
}
