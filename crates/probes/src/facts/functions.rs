//! Whether programs may hook kernel functions, and which declared functions exist. A hook is fentry or fexit. The
//! functions are from the BTF of the kernel and of its modules. Hooks none of them: the trial uses a function that
//! nothing calls.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{MapType, libbpf_sys as sys};

use crate::registry;

/// What the kernel offers for hooking its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// Why no function can be hooked; `None` if they can.
    pub refused: Option<String>,
    /// The functions of `registry` that exist, by name.
    pub known: BTreeSet<String>,
}

impl Functions {
    /// Whether the kernel supports hooking but forbids it.
    pub(crate) fn is_forbidden(&self) -> bool {
        let denied = io::Error::from_raw_os_error(libc::EPERM).to_string();
        self.refused.as_ref().is_some_and(|why| why.contains(&denied))
    }
}

/// A test function (`net/bpf/test_run.c`) that nothing else calls.
const HARMLESS: &str = "bpf_fentry_test1";

/// Reads the kernel's BTF and tries to hook the harmless function. Does not try if hooking is known to be impossible.
pub(super) fn survey(bpf_refused: Option<&str>) -> Functions {
    let Some(kernel) = Btf::of_kernel() else {
        return Functions { refused: Some("the kernel has no BTF".to_owned()), known: BTreeSet::new() };
    };
    let modules: Vec<Btf> = registry::MODULES.iter().filter_map(|name| kernel.of_module(name)).collect();
    let has = |name: &&str| kernel.function(name).is_some() || modules.iter().any(|btf| btf.has(name));
    // Their programs need task storage.
    let has_storage = MapType::TaskStorage.is_supported().unwrap_or(false);
    let storage = if let Some(why) = bpf_refused {
        Err(why.to_owned())
    } else if has_storage {
        Ok(())
    } else {
        Err("no BPF task storage: Linux 5.11 has it".to_owned())
    };
    let known = registry::function_names().filter(has).map(str::to_owned).collect();
    Functions { refused: storage.and_then(|()| try_hook(&kernel)).err(), known }
}

/// Whether the kernel's BTF describes a variable.
pub(super) fn has_variable(name: &str) -> bool {
    Btf::of_kernel().is_some_and(|kernel| kernel.number_of(name, sys::BTF_KIND_VAR).is_some())
}

fn try_hook(kernel: &Btf) -> Result<(), String> {
    let function =
        kernel.function(HARMLESS).ok_or_else(|| format!("{HARMLESS} is not in the kernel's BTF"))?;
    let program = load(function).map_err(|error| format!("loading an fentry program: {error}"))?;
    // SAFETY: attaching to the function that the program was loaded for takes no name.
    let link = unsafe { sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
    // Closed immediately: the program is detached again.
    to_fd(link).map(drop).map_err(|error| format!("attaching an fentry program: {error}"))
}

/// Loads a program that does nothing (`r0 = 0; exit`), for the entry of the function with that BTF id.
fn load(function: u32) -> io::Result<OwnedFd> {
    let mut zero = sys::bpf_insn { code: 0xb7, ..Default::default() };
    zero.set_dst_reg(0);
    let instructions = [zero, sys::bpf_insn { code: 0x95, ..Default::default() }];
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        expected_attach_type: sys::BPF_TRACE_FENTRY,
        attach_btf_id: function,
        ..Default::default()
    };
    // SAFETY: name and licence are NUL-terminated, the instruction count and the size of the options are right; all
    // outlive the call.
    to_fd(unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_TRACING,
            c"survey".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as sys::size_t,
            &raw mut options,
        )
    })
}

/// Converts libbpf's result: a descriptor, or a negative errno.
fn to_fd(result: i32) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: the kernel has just returned this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// BTF, freed on drop; a module's before its kernel's.
struct Btf(*mut sys::btf);

impl Btf {
    fn of_kernel() -> Option<Self> {
        // SAFETY: the call takes no arguments.
        Self::new(unsafe { sys::btf__load_vmlinux_btf() })
    }

    /// The BTF of a module. `None` if the module is not loaded, is built in, or the kernel keeps no BTF of modules
    /// (before 5.11).
    fn of_module(&self, name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is NUL-terminated, and the kernel's BTF outlives its modules' (see `survey`).
        Self::new(unsafe { sys::btf__load_module_btf(name.as_ptr(), self.0) })
    }

    fn new(btf: *mut sys::btf) -> Option<Self> {
        (!btf.is_null()).then_some(Self(btf))
    }

    /// The BTF id of a function.
    fn function(&self, name: &str) -> Option<u32> {
        self.number_of(name, sys::BTF_KIND_FUNC)
    }

    /// The BTF id of a type by name and kind.
    fn number_of(&self, name: &str, kind: u32) -> Option<u32> {
        let name = CString::new(name).ok()?;
        // SAFETY: the BTF lives as long as this value, and the name is NUL-terminated.
        let found = unsafe { sys::btf__find_by_name_kind(self.0, name.as_ptr(), kind) };
        u32::try_from(found).ok()
    }

    fn has(&self, name: &str) -> bool {
        self.function(name).is_some()
    }
}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: this value loaded it, and nothing else frees it.
        unsafe { sys::btf__free(self.0) };
    }
}
