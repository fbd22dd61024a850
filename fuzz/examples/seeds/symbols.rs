//! A library with symbols and probes, a list of compiled code, mappings, C++ names. Does not read them.

/// Symbols: kind (2 a function, 1 a variable), name.
const SYMBOLS: [(u8, &str); 4] =
    [(2, "write@@GLIBC_2.2.5"), (2, "_ZN10JavaThread3runEv"), (1, "gHotSpotVMStructs"), (2, "main")];
const SECTIONS: &str = "\0.symtab\0.dynsym\0.strtab\0.note.stapsdt\0";
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;

const LIST: &str = "0x00007f0000002000 0x100 void java.util.ArrayList.add(int, java.lang.Object)\n\
                    7f0000001000 40 Interpreter\n7f0000003000 40 StubRoutines (1)\nnonsense\n";
const MAPS: &str = "55d0c8a01000-55d0c8a02000 r-xp 00001000 fe:00 42                         /usr/bin/java\n\
                    7f0000000000-7f0000100000 rwxp 00000000 00:00 0 \n\
                    7f1000000000-7f1000100000 r-xp 00026000 fe:00 18    /opt/a b/libjvm.so (deleted)\n\
                    7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n";
const NAMES: [&str; 3] =
    ["_Z1fISt4pairIiiES0_IS1_S1_EEvv", "_ZNSt6vectorIiSaIiEE9push_backEOi", "_ZZN1a1bEvENKUlvE_clEv"];

/// Inputs of the target `symbols`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [(1, LIST), (2, MAPS)].into_iter().chain(NAMES.map(|name| (3, name)));
    let texts = texts.map(|(choice, text)| [&[choice], text.as_bytes()].concat());
    texts.chain([[&[0], &library()[..]].concat()]).collect()
}

/// An ELF file of 64 bits: one segment, which is all of it, and sections of symbols and notes.
fn library() -> Vec<u8> {
    let (mut names, mut symbols) = (vec![0], vec![0; 24]);
    for (nth, (kind, name)) in (1_u64..).zip(SYMBOLS) {
        symbols.extend((names.len() as u32).to_le_bytes());
        symbols.extend([0x10 | kind, 0, 1, 0]);
        symbols.extend([nth * 64, 64].map(u64::to_le_bytes).concat());
        names.extend([name.as_bytes(), &[0]].concat());
    }
    let names_at = names.len() as u32;
    names.extend(SECTIONS.as_bytes());
    let probe = [&[7; 24], &b"hotspot\0gc__end\0\0"[..]].concat();
    let note =
        [&[8, 0, 0, 0, probe.len() as u8, 0, 0, 0, 3, 0, 0, 0], &b"stapsdt\0"[..], &probe, &[0; 3]].concat();
    let mut bytes = vec![0; HEADER_BYTES + SEGMENT_BYTES];
    let mut sections = vec![0; 64];
    let names_of = |name: &str| names_at + SECTIONS.find(name).unwrap() as u32;
    for (name, kind, data) in [
        (".symtab", 2, &symbols),
        (".dynsym", 11, &symbols),
        (".strtab", 3, &names),
        (".note.stapsdt", 7, &note),
    ] {
        sections.extend([names_of(name), kind].map(u32::to_le_bytes).concat());
        let entry_bytes = if kind == 2 || kind == 11 { 24 } else { 0 };
        let place = [0, 0, bytes.len() as u64, data.len() as u64];
        sections.extend(place.map(u64::to_le_bytes).concat());
        // Names are in the third section; no symbol is local.
        sections.extend([3_u32, 1].map(u32::to_le_bytes).concat());
        sections.extend([1_u64, entry_bytes].map(u64::to_le_bytes).concat());
        bytes.extend(data);
    }
    let sections_at = bytes.len() as u64;
    bytes.extend(&sections);
    let (header, segment) = (header(sections_at), segment(bytes.len() as u64));
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    bytes[HEADER_BYTES..][..SEGMENT_BYTES].copy_from_slice(&segment);
    bytes
}

/// Of a library for x86-64, little-endian.
fn header(sections_at: u64) -> Vec<u8> {
    let magic = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9], &[3, 0, 62, 0, 1, 0, 0, 0]].concat();
    let places = [0, HEADER_BYTES as u64, sections_at].map(u64::to_le_bytes).concat();
    let sizes = [0, 0, 64, SEGMENT_BYTES as u16, 1, 64, 5, 3].map(u16::to_le_bytes).concat();
    [magic, places, sizes].concat()
}

/// All of the file, mapped at address 0.
fn segment(bytes: u64) -> Vec<u8> {
    [[1_u32, 5].map(u32::to_le_bytes).concat(), [0, 0, 0, bytes, bytes, 4096].map(u64::to_le_bytes).concat()]
        .concat()
}
