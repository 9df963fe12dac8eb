//! The owner of a variable, block or function: the program itself, or something that
//! comes with every program. Tables for people show what the program owns first.

use memref::RegionKind;
use symbols::{Variable, VariableKind};

/// Whose memory or code something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The program's, or that of a library which it uses.
    #[default]
    Program,
    /// The dynamic linker's, and the tables in each file that it reads.
    Linker,
    /// The C library's.
    CLibrary,
    /// The kernel's, in the program's memory (vdso).
    Kernel,
    /// memtap's own.
    Memtap,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Program, Self::Linker, Self::CLibrary, Self::Kernel, Self::Memtap];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Linker => "linker",
            Self::CLibrary => "c_library",
            Self::Kernel => "kernel",
            Self::Memtap => "memtap",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Program => "the program's",
            Self::Linker => "the dynamic linker's",
            Self::CLibrary => "the C library's",
            Self::Kernel => "the kernel's",
            Self::Memtap => "memtap's own",
        }
    }

    /// By the file name of a module.
    pub fn of_module(module: &str) -> Self {
        // libc.so.6, libm-2.31.so
        let is_library = |stem: &str| {
            module.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so") || rest.starts_with("-2."))
        };
        if module.starts_with("libmemtap_") {
            Self::Memtap
        } else if module.starts_with("ld-linux") || module.starts_with("ld-musl") || is_library("ld") {
            Self::Linker
        } else if ["libc", "libm", "libmvec", "libpthread", "libdl", "librt", "libresolv"]
            .into_iter()
            .any(is_library)
        {
            Self::CLibrary
        } else if matches!(module, "[vdso]" | "[vvar]" | "linux-vdso.so.1") {
            Self::Kernel
        } else {
            Self::Program
        }
    }

    /// Of a variable that is no heap block: that depends on who allocated it.
    pub fn of_variable(variable: &Variable) -> Self {
        let Some(module) = variable.module.as_deref() else {
            return match variable.region {
                RegionKind::Kernel => Self::Kernel,
                // Memory of the kind `tracer` is no owner's for sure: memtap's own has no accesses.
                _ => Self::Program,
            };
        };
        let owner = Self::of_module(module);
        let section = match variable.kind {
            VariableKind::Section => variable.name.rsplit_once(':').map_or("", |(_, section)| section),
            _ => "",
        };
        let tables =
            [".dyn", ".gnu.hash", ".gnu.version", ".hash", ".rela", ".relr", ".got", ".plt", ".interp"];
        let is_table = tables.into_iter().any(|table| section.starts_with(table))
            || matches!(&*variable.name, "_DYNAMIC" | "_GLOBAL_OFFSET_TABLE_");
        if owner == Self::Program && is_table { Self::Linker } else { owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(module: &str, expect: Owner) {
        assert_eq!(Owner::of_module(module), expect, "{module}");
    }

    #[test]
    fn modules_have_owners() {
        check("gzip", Owner::Program);
        check("libc.so.6", Owner::CLibrary);
        check("libm-2.31.so", Owner::CLibrary);
        check("libcrypto.so.3", Owner::Program);
        check("ld-linux-x86-64.so.2", Owner::Linker);
        check("libmemtap_tracer.so", Owner::Memtap);
        check("[vdso]", Owner::Kernel);
    }

    #[test]
    fn what_the_linker_reads_of_a_program_is_the_linkers() {
        let section = |name: &str| Variable {
            name: name.into(),
            kind: VariableKind::Section,
            region: RegionKind::Data,
            bytes: 0,
            module: Some("gzip".into()),
        };
        assert_eq!(Owner::of_variable(&section("gzip:.gnu.hash")), Owner::Linker);
        assert_eq!(Owner::of_variable(&section("gzip:.bss")), Owner::Program);
    }
}
