//! Compiles the BPF object and generates its skeleton into `OUT_DIR`. Needs `clang` on the path.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?);
    SkeletonBuilder::new()
        .source("src/bpf/probes.bpf.c")
        .obj(out.join("probes.bpf.o"))
        .reference_obj(true)
        .clang_args(["-Wall", "-Wextra", "-Wno-unused-parameter"])
        .build_and_generate(out.join("probes.skel.rs"))
        .map_err(|error| {
            format!("the BPF programs in src/bpf do not build (is clang installed?): {error:#}")
        })?;
    Ok(())
}
