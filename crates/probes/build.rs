//! Compiles the BPF objects and generates their skeletons into `OUT_DIR`. Needs `clang` on the path.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// Sources: `src/bpf/NAME.bpf.c`.
const OBJECTS: [&str; 7] =
    ["probes", "profile", "process_list", "thread_times", "jvm", "always_on", "arrivals"];

/// Objects with atomic operations that return a value (Linux 5.12).
///
/// Every kernel that has everything else that they need has these too.
const NEWER_INSTRUCTIONS: [&str; 2] = ["always_on", "arrivals"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?);
    OBJECTS.iter().try_for_each(|name| build(name, &out))
}

fn build(name: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    // libbpf's usdt.bpf.h includes the system's errno headers; Debian keeps some of them in this directory.
    let system_headers = format!("-I/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?);
    let newer = NEWER_INSTRUCTIONS.contains(&name).then_some("-mcpu=v3");
    SkeletonBuilder::new()
        .source(format!("src/bpf/{name}.bpf.c"))
        .obj(out.join(format!("{name}.bpf.o")))
        .reference_obj(true)
        // Newer compilers treat the last two as errors.
        .clang_args(
            [
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror=int-conversion",
                "-Werror=incompatible-function-pointer-types",
                &system_headers,
            ]
            .into_iter()
            .chain(newer),
        )
        .build_and_generate(out.join(format!("{name}.skel.rs")))
        .map_err(|error| {
            format!("the BPF programs in src/bpf do not build (is clang installed?): {error:#}")
        })?;
    Ok(())
}
