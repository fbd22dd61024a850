//! The functions of a program or library, from its symbol tables.
//!
//! Reads no debug information: without a symbol table only exported functions have names.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

/// JDK 25's libjvm.so has 30 MB. Functions of larger files get no names.
const MAX_BYTES: u64 = 128 << 20;
/// A libjvm has about a hundred thousand.
const MAX_SYMBOLS: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 4096;
/// Limits for demangling a C++ name: its parts, and the nesting of its grammar.
///
/// With each template within a template the parser tries twice as much and keeps all of it. The 55,000 names of JDK
/// 25's libjvm.so need 350 bytes and a depth of 48.
const MAX_CPP_BYTES: usize = 1024;
const MAX_CPP_DEPTH: u32 = 48;
/// Total bytes of one file's names, which may all share a few bytes of it: those kept, and those examined.
const MAX_KEPT_BYTES: usize = 32 << 20;
const MAX_SCANNED_BYTES: usize = 128 << 20;

/// The bytes of a program or library.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = foreign::open_named(path)?;
    if file.metadata()?.len() > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's functions.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// Address in the file's own numbering, end, and offset and length of the name; sorted.
    sorted: Vec<(u64, u64, u32, u16)>,
    names: String,
    /// Segments, from file offsets to that numbering: file offset, length, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Functions {
    /// Reads the functions of a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&read(path)?).map_err(io::Error::other)
    }

    pub(crate) fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file = object::File::parse(bytes)?;
        let mut functions = Self::default();
        for segment in file.segments() {
            let (offset, length) = segment.file_range();
            functions.segments.push((offset, length, segment.address()));
        }
        let mut scanned_bytes = 0;
        for symbol in file.symbols().chain(file.dynamic_symbols()).take(MAX_SYMBOLS) {
            if symbol.kind() == SymbolKind::Text
                && symbol.is_definition()
                && scanned_bytes < MAX_SCANNED_BYTES
            {
                let name = symbol.name_bytes().unwrap_or_default();
                scanned_bytes += name.len();
                functions.add(symbol.address(), symbol.size(), name);
            }
        }
        functions.sorted.sort_unstable();
        Ok(functions)
    }

    fn add(&mut self, start: u64, size: u64, name: &[u8]) {
        let (Ok(name), Ok(at)) = (std::str::from_utf8(name), u32::try_from(self.names.len())) else { return };
        let fits = self.names.len() + name.len() <= MAX_KEPT_BYTES;
        if name.is_empty() || name.len() > MAX_NAME_BYTES || size == 0 || !fits {
            return;
        }
        self.sorted.push((start, start.saturating_add(size), at, name.len() as u16));
        self.names.push_str(name);
    }

    /// Size in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.names.capacity() + self.sorted.capacity() * size_of::<(u64, u64, u32, u16)>()
    }

    /// Name of the function that holds the byte at this file offset, demangled.
    pub(crate) fn name_at(&self, offset: u64) -> Option<String> {
        let holds = |&&(start, length, _): &&(u64, u64, u64)| offset >= start && offset - start < length;
        let &(start, _, address) = self.segments.iter().find(holds)?;
        let address = address.checked_add(offset - start)?;
        let after = self.sorted.partition_point(|&(start, ..)| start <= address);
        let &(_, end, at, length) = self.sorted.get(after.checked_sub(1)?)?;
        let name = self.names.get(at as usize..at as usize + usize::from(length))?;
        (address < end).then(|| demangle(name))
    }
}

/// Demangles a C++ name, without its parameters: `JavaThread::run`.
pub(crate) fn demangle(name: &str) -> String {
    let plain = || name.split('@').next().filter(|plain| !plain.is_empty()).unwrap_or(name).to_owned();
    if !name.starts_with("_Z") || name.len() > MAX_CPP_BYTES {
        return plain();
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_CPP_DEPTH);
    let Ok(symbol) = cpp_demangle::Symbol::new_with_options(name, &parse) else { return plain() };
    let options =
        cpp_demangle::DemangleOptions::new().no_params().no_return_type().hide_expression_literal_types();
    let mut text = ShortText::default();
    symbol.structured_demangle(&mut text, &options).map_or_else(|_| plain(), |()| text.0)
}

/// Bounds the output: a name may stand for one that doubles with each of its letters.
#[derive(Default)]
struct ShortText(String);

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = self.0.len() + text.len() <= MAX_NAME_BYTES;
        self.0.push_str(if fits { text } else { "" });
        if fits { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Functions, MAX_NAME_BYTES, demangle};
    use crate::user::mappings::Mappings;
    use std::path::Path;

    #[test]
    fn names_a_function_of_the_test_program() {
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let functions = Functions::read(&exe).unwrap();
        let mappings = Mappings::read(Path::new("/proc/self")).unwrap();
        let here = names_a_function_of_the_test_program as fn() as usize as u64;
        let mapping = mappings.mapping_at(here).unwrap();
        let name = functions.name_at(here - mapping.start + mapping.offset).unwrap();
        assert!(name.contains("names_a_function_of_the_test_program"), "{name}");
        assert_eq!(functions.name_at(u64::MAX), None);
    }

    #[test]
    fn every_prefix_of_a_program_is_parsed_or_refused() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for length in (0..4096).step_by(7).chain((0..bytes.len()).step_by(bytes.len() / 40)) {
            // Must not panic; names from a truncated file may be wrong.
            let _ = Functions::parse(&bytes[..length]).map(|functions| functions.name_at(0x1000));
        }
        assert!(Functions::parse(b"\x7fELF").is_err());
    }

    #[test]
    fn memory_for_shared_names_is_bounded() {
        let (mut functions, name) = (Functions::default(), [b'f'; MAX_NAME_BYTES]);
        (0..20_000).for_each(|address| functions.add(address, 1, &name));
        assert!((8_000..10_000).contains(&functions.sorted.len()), "{}", functions.sorted.len());
        assert!(functions.bytes() < 80 << 20, "{} bytes", functions.bytes());
    }

    #[test]
    fn exponentially_long_name_is_not_demangled() {
        // Each pair is of the two pairs before it: `S1_`, `S2_` and so on, `S0_` being `std::pair`.
        let pairs = |depth: u32| {
            let nested = |n| {
                let before = char::from_digit(n, 36).unwrap().to_ascii_uppercase();
                format!("S0_IS{before}_S{before}_E")
            };
            format!("_Z1fISt4pairIiiE{}Evv", (1..depth).map(nested).collect::<String>())
        };
        let lengths = [1, 2, 3, 4].map(|depth| demangle(&pairs(depth)).len());
        assert!(lengths.is_sorted_by(|one, next| 3 * one < 2 * next), "{lengths:?} {}", demangle(&pairs(4)));
        let deep = pairs(34);
        assert_eq!(demangle(&deep), deep);
    }

    #[test]
    fn demangles_names_and_removes_symbol_versions() {
        assert_eq!(demangle("_ZN10JavaThread3runEv"), "JavaThread::run");
        assert_eq!(demangle("write@@GLIBC_2.2.5"), "write");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
        assert_eq!(demangle("@GLIBC_2.2.5"), "@GLIBC_2.2.5", "a frame has a name");
    }
}
