//! Binaries that require no newer C library than glibc 2.28, linked on a system that has a newer one.
//!
//! The linker gives a reference the newest version in the library at hand, although the older ones are still there for programs that were
//! linked long ago. It is therefore given other libraries: without code, with each symbol in the newest version that 2.28 has, in the file
//! that contained it at that time (threads and dlsym have been in libc.so.6 only since 2.34). The versions are taken from the system's own
//! libraries. What 2.28 had in the static part of the C library, the `stat` family, and what starts a program is compiled into the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::glibc::{Glibc, WANTED};
use crate::shell;

/// What programs call that older C libraries have under another name, and how they start.
///
/// A `main` of today is started with no function for its initialisers, which only newer libraries then call themselves.
const STATIC_PART: &str = r#"
struct stat;
#define HIDDEN __attribute__((visibility("hidden")))
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstat64(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat *, int);
HIDDEN int stat(const char *path, struct stat *to) { return __xstat(1, path, to); }
HIDDEN int stat64(const char *path, struct stat *to) { return __xstat64(1, path, to); }
HIDDEN int lstat(const char *path, struct stat *to) { return __lxstat(1, path, to); }
HIDDEN int lstat64(const char *path, struct stat *to) { return __lxstat64(1, path, to); }
HIDDEN int fstat(int file, struct stat *to) { return __fxstat(1, file, to); }
HIDDEN int fstat64(int file, struct stat *to) { return __fxstat64(1, file, to); }
HIDDEN int fstatat(int dir, const char *path, struct stat *to, int flags) { return __fxstatat(1, dir, path, to, flags); }
HIDDEN int fstatat64(int dir, const char *path, struct stat *to, int flags) { return __fxstatat64(1, dir, path, to, flags); }
"#;
const START: &str = r#"
#define HIDDEN __attribute__((visibility("hidden")))
typedef void initialiser(int, char **, char **);
HIDDEN extern initialiser *__init_array_start[], *__init_array_end[];
extern void _init(void);
static void initialise(int argc, char **argv, char **envp)
{
    _init();
    for (initialiser **each = __init_array_start; each < __init_array_end; each++)
        (*each)(argc, argv, envp);
}
int start(int (*)(int, char **, char **), int, char **, initialiser *, void (*)(void), void (*)(void), void *);
__asm__(".symver start, __libc_start_main@GLIBC_2.2.5");
HIDDEN int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, initialiser *init, void (*fini)(void),
                             void (*rtld_fini)(void), void *stack_end)
{
    return start(main, argc, argv, init ? init : initialise, fini, rtld_fini, stack_end);
}
"#;

/// A symbol as a shared library defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Defined {
    name: String,
    version: Glibc,
    version_name: String,
    /// Nothing for a function.
    variable: Option<Variable>,
    /// Whether it is another name of a variable, as `environ` is: a program that has the one then has the other, too.
    is_weak: bool,
    /// Whether the linker would give this version to a reference today.
    is_default: bool,
}

/// Where a variable is, so that all of its names stay names of one, and how many bytes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Variable {
    address: u64,
    bytes: u64,
}

/// Makes the libraries; returns the C compiler that links with them.
pub(super) fn make(place: &Path) -> Result<PathBuf> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    fs::create_dir_all(place)?;
    let c = as_wanted(&defined("libc.so.6")?);
    let is_of = |file: &'static str| move |one: &&Old| one.file == file;
    for (file, soname) in [("libc", "libc.so.6"), ("libpthread", "libpthread.so.0"), ("libdl", "libdl.so.2")]
    {
        let symbols: Vec<&Old> = c.iter().filter(is_of(file)).collect();
        let name = if file == "libc" { "libc.so.6".to_owned() } else { format!("{file}.so") };
        library(place, &name, soname, &symbols)?;
    }
    let mathematics = as_wanted(&defined("libm.so.6")?);
    library(place, "libm.so", "libm.so.6", &mathematics.iter().collect::<Vec<_>>())?;
    static_part(place)?;
    let (loader, rest) = (system("ld-linux-x86-64.so.2")?, system("libc_nonshared.a")?);
    let [own, loader, rest] = [place, &loader, &rest].map(|path| path.display().to_string());
    let script = format!(
        "GROUP ( {own}/libc.so.6 {own}/static.a {rest} AS_NEEDED ( {own}/libpthread.so {own}/libdl.so {loader} ) )\n"
    );
    fs::write(place.join("libc.so"), script)?;
    // The folder has to come before the system's, so the variable LIBRARY_PATH is too weak; and an option for rustc that names it
    // would change the names of all symbols with the place of this repository.
    // The system's other libraries, such as libgcc_s.so.1, use what only its own C library has: it will be there where they are.
    let compiler = place.join("cc");
    fs::write(&compiler, format!("#!/bin/sh\nexec cc -L'{own}' -Wl,--allow-shlib-undefined \"$@\"\n"))?;
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755))?;
    Ok(compiler)
}

/// A symbol as 2.28 had it, and in which file.
#[derive(Debug, PartialEq, Eq)]
struct Old {
    symbol: Defined,
    file: &'static str,
}

/// Of each name the newest version that 2.28 has.
fn as_wanted(all: &[Defined]) -> Vec<Old> {
    let mut newest: BTreeMap<&str, &Defined> = BTreeMap::new();
    let mut moved: BTreeSet<&str> = BTreeSet::new();
    for one in all {
        if one.version > WANTED {
            if one.is_default {
                moved.insert(&one.name);
            }
            continue;
        }
        let best = newest.entry(&one.name).or_insert(one);
        if best.version < one.version {
            *best = one;
        }
    }
    let file = |name: &str| {
        // What got a new version though it does the same as before has moved into libc.so.6.
        let is_named = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match moved.contains(name) {
            true if is_named(&["pthread_", "__pthread_", "sem_"]) => "libpthread",
            true if is_named(&["dl"]) => "libdl",
            _ => "libc",
        }
    };
    newest.values().map(|one| Old { symbol: (*one).clone(), file: file(&one.name) }).collect()
}

/// A library without code that has these symbols.
fn library(place: &Path, name: &str, soname: &str, symbols: &[&Old]) -> Result<()> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut variables: BTreeMap<Variable, Vec<&Defined>> = BTreeMap::new();
    let mut text = ".text\n".to_owned();
    for Old { symbol, .. } in symbols {
        if symbol.name == "__libc_start_main" {
            // Not for references of today's start files: those are to find ours.
            let _ = writeln!(text, ".globl start\n.type start, @function\nstart:");
            let _ = writeln!(text, ".symver start, {}@{}", symbol.name, symbol.version_name);
            versions.entry(&symbol.version_name).or_default();
            continue;
        }
        versions.entry(&symbol.version_name).or_default().push(&symbol.name);
        match symbol.variable {
            Some(variable) => variables.entry(variable).or_default().push(symbol),
            None => {
                let _ = writeln!(text, ".globl {0}\n.type {0}, @function\n{0}:", symbol.name);
            }
        }
    }
    text.push_str("ret\n.bss\n.balign 64\n");
    for (Variable { bytes, .. }, names) in variables {
        for Defined { name, is_weak, .. } in names {
            let binding = if *is_weak { ".weak" } else { ".globl" };
            let _ = writeln!(text, "{binding} {name}\n.type {name}, @object\n.size {name}, {bytes}\n{name}:");
        }
        let _ = writeln!(text, ".zero {bytes}\n.balign 64");
    }
    text.push_str(".section .note.GNU-stack, \"\", @progbits\n");
    let mut script = String::new();
    for (version, names) in versions {
        let names: String = names.iter().map(|name| format!("{name}; ")).collect();
        let global = if names.is_empty() { String::new() } else { format!("global: {names}") };
        let _ = writeln!(script, "{version} {{ {global}}};");
    }
    script.push_str("memtap_private { local: *; };\n");
    let (source, map) = (place.join(format!("{name}.s")), place.join(format!("{name}.map")));
    fs::write(&source, text)?;
    fs::write(&map, script)?;
    let [source, map, to] = [source, map, place.join(name)].map(|path| path.display().to_string());
    compile(&[
        "-shared",
        "-nostdlib",
        &format!("-Wl,-soname,{soname}"),
        &format!("-Wl,--version-script,{map}"),
        "-o",
        &to,
        &source,
    ])
}

/// What is compiled into each binary that needs it.
fn static_part(place: &Path) -> Result<()> {
    let mut archive = shell::command(&["ar", "crsD"]);
    archive.arg(place.join("static.a"));
    for (name, text) in [("stat", STATIC_PART), ("start", START)] {
        let source = place.join(format!("{name}.c"));
        let object = place.join(format!("{name}.o"));
        fs::write(&source, text)?;
        let [source, to] = [&source, &object].map(|path| path.display().to_string());
        compile(&["-c", "-O2", "-fPIC", "-ffreestanding", "-fno-builtin", "-w", "-o", &to, &source])?;
        archive.arg(object);
    }
    shell::output(&mut archive).map(drop)
}

fn compile(words: &[&str]) -> Result<()> {
    shell::output(shell::command(&["cc"]).args(words)).context("glibc of old").map(drop)
}

/// A file of the system's C library, as the compiler finds it.
fn system(name: &str) -> Result<PathBuf> {
    let path = shell::output(&mut shell::command(&["cc", &format!("-print-file-name={name}")]))?;
    let path = PathBuf::from(path.trim());
    if !path.is_absolute() {
        bail!("{name} is not where the C compiler looks: install the C library's files for development");
    }
    Ok(path)
}

/// What a library of the system defines.
fn defined(library: &str) -> Result<Vec<Defined>> {
    let path = system(library)?.display().to_string();
    let symbols = shell::output(&mut shell::command(&["readelf", "--dyn-syms", "--wide", &path]))?;
    let found: Vec<Defined> = symbols.lines().filter_map(parse).collect();
    if found.is_empty() {
        bail!("{path} defines no versions of symbols");
    }
    Ok(found)
}

/// A line of readelf: number, address, size, type, binding, visibility, section, `name@version` or `name@@version`.
fn parse(line: &str) -> Option<Defined> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, address, bytes, kind, binding, _, section, name, ..] = words[..] else { return None };
    let (name, version) = name.split_once('@')?;
    let version_name = version.trim_start_matches('@');
    let variable = match (kind, section) {
        (_, "UND" | "ABS") => return None,
        ("FUNC" | "IFUNC", _) => None,
        ("OBJECT", _) => {
            let address = u64::from_str_radix(address, 16).ok()?;
            Some(Variable { address, bytes: bytes.parse().ok()? })
        }
        _ => return None,
    };
    Some(Defined {
        name: name.to_owned(),
        version: Glibc::parse(version_name)?,
        version_name: version_name.to_owned(),
        variable,
        is_weak: binding == "WEAK",
        is_default: version.starts_with('@'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "
   Num:    Value          Size Type    Bind   Vis      Ndx Name
    10: 00000000000848e0   200 FUNC    GLOBAL DEFAULT   15 dlsym@@GLIBC_2.34
    11: 00000000000848e0   200 FUNC    GLOBAL DEFAULT   15 dlsym@GLIBC_2.2.5
    12: 00000000000a48e0   200 IFUNC   GLOBAL DEFAULT   15 memcpy@@GLIBC_2.14
    13: 00000000000a49e0   200 FUNC    GLOBAL DEFAULT   15 memcpy@GLIBC_2.2.5
    14: 00000000000b49e0    20 FUNC    GLOBAL DEFAULT   15 gettid@@GLIBC_2.30
    15: 00000000000c49e0    20 FUNC    GLOBAL DEFAULT   15 pthread_create@@GLIBC_2.34
    16: 00000000000c49e0    20 FUNC    GLOBAL DEFAULT   15 pthread_create@GLIBC_2.2.5
    17: 00000000000c59e0    20 FUNC    GLOBAL DEFAULT   15 pthread_self@@GLIBC_2.2.5
    18: 00000000001d49e0     8 OBJECT  WEAK   DEFAULT   30 environ@@GLIBC_2.2.5
    19: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS GLIBC_2.2.5
    20: 0000000000000010     4 TLS     GLOBAL DEFAULT   20 errno@@GLIBC_PRIVATE
    21: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __tls_get_addr@GLIBC_2.3 (42)
";

    #[test]
    fn each_symbol_is_the_newest_that_the_old_library_has() {
        let all: Vec<Defined> = SYMBOLS.lines().filter_map(parse).collect();
        let old = as_wanted(&all);
        let shown: Vec<(&str, &str, &str)> =
            old.iter().map(|one| (&one.symbol.name[..], &one.symbol.version_name[..], one.file)).collect();
        assert_eq!(
            shown,
            [
                ("dlsym", "GLIBC_2.2.5", "libdl"),
                ("environ", "GLIBC_2.2.5", "libc"),
                ("memcpy", "GLIBC_2.14", "libc"),
                ("pthread_create", "GLIBC_2.2.5", "libpthread"),
                ("pthread_self", "GLIBC_2.2.5", "libc"),
            ]
        );
        assert_eq!(old[1].symbol.variable, Some(Variable { address: 0x1d_49e0, bytes: 8 }));
    }

    #[test]
    fn a_program_that_is_linked_with_them_asks_for_nothing_newer_and_runs() {
        let place = shell::target_dir().join("tmp/old-glibc-test");
        let compiler = make(&place).expect("the libraries are made");
        let compiler = compiler.to_str().expect("UTF-8");
        let source = place.join("program.c");
        let text = r#"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
static int began;
__attribute__((constructor)) static void begin(void) { began++; }
static void *add(void *x) { *(double *)x = pow(*(double *)x, 2.0) + hypotf(3, 4); return x; }
int main(void)
{
    double x = 4;
    struct stat root;
    pthread_t thread;
    if (pthread_create(&thread, 0, add, &x) || pthread_join(thread, 0) || stat("/", &root) || !S_ISDIR(root.st_mode))
        return 1;
    printf("%d %.0f %d %d\n", began, x, dlsym(RTLD_DEFAULT, "printf") != 0, environ != 0);
    return 0;
}
"#;
        fs::write(&source, text).expect("it can be written");
        let program = place.join("program");
        let mut cc = shell::command(&[compiler, "-O1", "-fno-builtin", "-pthread", "-o"]);
        cc.arg(&program).arg(&source).args(["-lm", "-ldl"]);
        shell::output(&mut cc).expect("it is linked");
        let (version, symbol) =
            super::super::glibc::of_file(&program).expect("objdump").expect("it uses the C library");
        assert!(version <= WANTED, "{symbol} is of {version}");
        let path = program.to_str().expect("UTF-8");
        assert_eq!(shell::output(&mut shell::command(&[path])).expect("it runs"), "1 21 1 1\n");
        let needed = shell::output(&mut shell::command(&["readelf", "--dynamic", path])).expect("readelf");
        for name in ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"] {
            assert!(needed.contains(&format!("[{name}]")), "{name} is not asked for: {needed}");
        }
    }
}
