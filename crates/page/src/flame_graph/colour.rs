//! The kind of code of a frame, derived from its name, and its colour. Warm colours for time on the CPU, cool ones for
//! time off it.

use model::{CpuState, StackTime};

model::named! {
    /// Kinds of code, distinguished by colour, as tooltips and the legend name them.
    pub(super) enum Kind {
        /// Not code: a whole panel, or a thread.
        Thread = "thread",
        Kernel = "kernel",
        Java = "Java",
        Jvm = "JVM, C++",
        Native = "native",
        /// A missing part of the stack.
        Missing = "missing",
    }
}

impl Kind {
    /// The kinds that the legend explains.
    pub(super) const CODE: [Self; 4] = [Self::Java, Self::Jvm, Self::Native, Self::Kernel];

    pub(super) fn of(name: &str, depth: usize) -> Self {
        let plain = plain_name(name);
        if depth < 2 {
            Self::Thread
        } else if matches!(plain, "[truncated]" | "[stack lost]" | "[unknown]") {
            Self::Missing
        } else if name.ends_with(StackTime::KERNEL) {
            Self::Kernel
        } else if name.ends_with(StackTime::COMPILED) {
            Self::Java
        } else if name.contains("::") || name.starts_with("JVM_") || name.starts_with("[libjvm") {
            Self::Jvm
        } else {
            Self::Native
        }
    }

    /// A shade of the kind's colour, the same for the same name.
    pub(super) fn colour(self, state: CpuState, name: &str) -> String {
        let (hue, saturation, lightness) = match (self, state) {
            (Self::Thread, CpuState::On) => (40, 12, 82),
            (Self::Thread, CpuState::Off) => (220, 14, 82),
            (Self::Missing, _) => (0, 0, 72),
            (Self::Kernel, CpuState::On) => (28, 90, 62),
            (Self::Java, CpuState::On) => (95, 48, 60),
            (Self::Jvm, CpuState::On) => (50, 82, 58),
            (Self::Native, CpuState::On) => (6, 74, 68),
            (Self::Kernel, CpuState::Off) => (208, 68, 65),
            (Self::Java, CpuState::Off) => (165, 42, 60),
            (Self::Jvm, CpuState::Off) => (235, 50, 76),
            (Self::Native, CpuState::Off) => (275, 42, 74),
        };
        hex(hue, saturation, lightness + shade(name))
    }
}

/// A frame's name without the mark of its kind.
pub(super) fn plain_name(name: &str) -> &str {
    let plain = name.strip_suffix(StackTime::KERNEL).or_else(|| name.strip_suffix(StackTime::COMPILED));
    plain.unwrap_or(name)
}

/// A small variation of lightness, -4 to 4: neighbours of one kind differ, equal names never do.
fn shade(name: &str) -> i32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash % 9) as i32 - 4
}

/// `hsl()` as `#rrggbb`, which every SVG viewer understands.
fn hex(hue: i32, saturation: i32, lightness: i32) -> String {
    let (saturation, lightness) = (f64::from(saturation) / 100.0, f64::from(lightness) / 100.0);
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + f64::from(hue) / 30.0) % 12.0;
        let value = lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::{Kind, hex, plain_name};
    use model::CpuState;

    #[test]
    fn frame_kind_follows_from_its_name() {
        for (name, kind) in [
            ("vfs_write_[k]", Kind::Kernel),
            ("java.util.ArrayList.add_[j]", Kind::Java),
            ("JavaThread::run", Kind::Jvm),
            ("[libjvm.so]", Kind::Jvm),
            ("write", Kind::Native),
            ("[stack lost]_[k]", Kind::Missing),
            ("[truncated]", Kind::Missing),
        ] {
            assert_eq!(Kind::of(name, 2), kind, "{name}");
            assert_eq!(Kind::of(name, 1), Kind::Thread);
        }
        assert_eq!(
            (plain_name("vfs_write_[k]"), plain_name("a_[j]"), plain_name("a")),
            ("vfs_write", "a", "a")
        );
    }

    #[test]
    fn colours_depend_on_the_state() {
        assert_ne!(Kind::Kernel.colour(CpuState::On, "a"), Kind::Kernel.colour(CpuState::Off, "a"));
        assert_eq!(hex(0, 100, 50), "#ff0000");
        assert_eq!(hex(240, 100, 50), "#0000ff");
        assert_eq!(hex(120, 0, 50), "#808080");
    }
}
