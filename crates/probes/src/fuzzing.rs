//! Entry points for the fuzz target `symbols`: names, from bytes that other users wrote.
//!
//! Used by nothing else.

use crate::jvm::library;
use crate::user::elf::{Functions, demangle};
use crate::user::mappings::{CodeSource, Mapping, Mappings};
use crate::user::perf_map::PerfMap;

/// The functions at these offsets of a program's file.
pub fn functions(program: &[u8], offsets: &[u64]) -> Vec<String> {
    let functions = Functions::parse(program).unwrap_or_default();
    offsets.iter().filter_map(|offset| functions.name_at(*offset)).collect()
}

/// A symbol's name as people write it.
pub fn function(symbol: &str) -> String {
    demangle(symbol)
}

/// The probes and exported variables of a library. The library is mapped from this offset of its file.
pub fn library(bytes: &[u8], offset: u64) -> Vec<String> {
    let mapping = Mapping { start: 1 << 40, end: 1 << 41, offset, what: CodeSource::Memory };
    let (probes, exported) = library::parse(bytes, &mapping).unwrap_or_default();
    probes.into_iter().chain(exported.into_keys()).collect()
}

/// Names of the compiled code at these addresses, from a perf map.
pub fn compiled_code(list: &[u8], addresses: &[u64]) -> Vec<String> {
    let compiled = PerfMap::parse(list);
    addresses.iter().filter_map(|address| compiled.name_of(*address)).map(str::to_owned).collect()
}

/// The start and end of the mapping that holds each address.
pub fn mappings(maps: &[u8], addresses: &[u64]) -> Vec<Option<(u64, u64)>> {
    let mappings = Mappings::parse(maps).unwrap_or_default();
    let found = addresses.iter().map(|address| mappings.mapping_at(*address));
    found.map(|found| found.map(|mapping| (mapping.start, mapping.end))).collect()
}
