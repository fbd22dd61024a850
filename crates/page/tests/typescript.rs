//! Generates the front end's types, `web/src/types.ts`. Their source is the structs of the page's data, so each field
//! is declared only in Rust. `BLESS=1 cargo test -p page` writes the file.

// clippy.toml allows these in test functions; a test crate contains only tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use syn::{Attribute, Expr, Fields, GenericArgument, Item, ItemStruct, Lit, Meta, PathArguments, Type};

/// Where the structs are declared.
const SOURCES: [&str; 3] = ["src", "../report/src/advice", "../report/src/explanation.rs"];
/// The first struct; the others are those that it refers to.
const ROOT: &str = "Page";
/// A type that the front end declares: its rows are those of `compare --format json`.
const COMPARISON: &str = "ComparisonData";
const HEAD: &str = "// The page's data as `brokerscope report --format json` writes it. Generated from the structs of crates/page and crates/report\n\
                    // by crates/page/tests/typescript.rs: BLESS=1 cargo test -p page. Times are nanoseconds after the recording's origin.\n\n\
                    import type { Comparison } from \"./comparison\";\n";

fn parse(path: &Path, to: &mut BTreeMap<String, ItemStruct>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            parse(&entry.unwrap().path(), to);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let file = syn::parse_file(&std::fs::read_to_string(path).unwrap()).unwrap();
        let structs = file.items.into_iter().filter_map(|item| match item {
            Item::Struct(item) if derives_serialize(&item.attrs) => Some(item),
            _ => None,
        });
        to.extend(structs.map(|item| (item.ident.to_string(), item)));
    }
}

fn derives_serialize(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let visit = |meta: syn::meta::ParseNestedMeta<'_>| {
            found |= meta.path.is_ident("Serialize");
            Ok(())
        };
        attribute.parse_nested_meta(visit).unwrap();
    }
    found
}

fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(line) => Some(line.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    // TypeScript has no use for links.
    lines.collect::<Vec<_>>().join(" ").replace(['[', ']'], "")
}

/// The TypeScript name of a struct.
fn name(rust: &str) -> &str {
    rust.strip_suffix("Data").unwrap_or(rust)
}

/// The TypeScript type of a Rust type. A tuple is a list of any of its types, as a reader of JSON infers it.
fn typescript(rust: &Type, named: &mut BTreeSet<String>) -> String {
    let list =
        |element: String| if element.contains('|') { format!("({element})[]") } else { element + "[]" };
    match rust {
        Type::Reference(reference) => typescript(&reference.elem, named),
        Type::Array(array) => list(typescript(&array.elem, named)),
        Type::Tuple(tuple) => {
            let parts: BTreeSet<String> = tuple.elems.iter().map(|part| typescript(part, named)).collect();
            list(parts.into_iter().collect::<Vec<_>>().join(" | "))
        }
        Type::Path(path) => {
            let segment = path.path.segments.last().unwrap();
            let mut arguments = match &segment.arguments {
                PathArguments::AngleBracketed(angle) => angle.args.iter().collect::<Vec<_>>(),
                _ => Vec::new(),
            }
            .into_iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(argument) => Some(argument),
                _ => None,
            });
            match segment.ident.to_string().as_str() {
                "String" | "str" => "string".to_owned(),
                "bool" => "boolean".to_owned(),
                "i16" | "i32" | "i64" | "u32" | "u64" | "usize" | "f64" | "Tid" => "number".to_owned(),
                "Vec" => list(typescript(arguments.next().unwrap(), named)),
                "Option" => format!("{} | null", typescript(arguments.next().unwrap(), named)),
                "BTreeMap" => {
                    let key = typescript(arguments.next().unwrap(), named);
                    format!("Record<{key}, {}>", typescript(arguments.next().unwrap(), named))
                }
                other => {
                    named.insert(other.to_owned());
                    name(other).to_owned()
                }
            }
        }
        other => panic!("no TypeScript for {other:?}"),
    }
}

fn declare(item: &ItemStruct, named: &mut BTreeSet<String>) -> String {
    let mut text =
        format!("\n/** {} */\nexport interface {} {{\n", doc(&item.attrs), name(&item.ident.to_string()));
    let Fields::Named(fields) = &item.fields else { panic!("{} has no named fields", item.ident) };
    for field in &fields.named {
        // Of serde's attributes only skip_serializing_if is used.
        let is_optional = field.attrs.iter().any(|attribute| attribute.path().is_ident("serde"));
        let of = typescript(&field.ty, named);
        let (mark, of) = if is_optional { ("?", of.trim_end_matches(" | null")) } else { ("", of.as_str()) };
        let field_name = field.ident.as_ref().unwrap();
        writeln!(text, "  /** {} */\n  {field_name}{mark}: {of};", doc(&field.attrs)).unwrap();
    }
    text + "}\n"
}

#[test]
fn typescript_types_match_the_structs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut structs = BTreeMap::new();
    for source in SOURCES {
        parse(&manifest.join(source), &mut structs);
    }
    let mut text = HEAD.to_owned();
    let (mut pending, mut declared) = (vec![ROOT.to_owned()], BTreeSet::from([COMPARISON.to_owned()]));
    while let Some(next) = pending.pop() {
        if declared.insert(next.clone()) {
            let mut named = BTreeSet::new();
            let item = structs.get(&next).unwrap_or_else(|| panic!("{next} is in none of {SOURCES:?}"));
            text += &declare(item, &mut named);
            pending.extend(named);
        }
    }
    assert!(declared.len() > 20, "{declared:?}");
    let file = manifest.join("../../web/src/types.ts");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "web/src/types.ts is not what the structs say: BLESS=1 cargo test -p page");
}
