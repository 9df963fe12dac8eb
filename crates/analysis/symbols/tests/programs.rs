//! Programs in three languages, with the expected names written by hand.

mod support;

use std::process::Command;

use memref::{AllocationKind, RegionChange, RegionKind, VirtAddr};
use support::{Built, allocation, build, mapped, nm, open, region, run};
use symbols::{BuildId, Error, LinkAddr, Module, SearchPath, SectionKind, VariableKind};

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct pixel { unsigned char red, green, blue; };
struct inner { int x; struct { short deep; char pad; } y[2]; };
struct flags { unsigned a : 3, b : 5, c : 1; int after; };
union number { long whole; float real; short parts[4]; };
struct list { struct list *next; int value; };
struct frame {
    int width, height;
    struct pixel pixels[8];
    struct inner inner;
    struct flags flags;
    union number number;
    struct { int in_unnamed; };
    struct list list;
};
typedef struct { int width, height; float data[]; } F2D;
struct frame frame = { 3, 4 };
struct frame frames[3];
int matrix[3][5];
static volatile int hidden = 7;
const int constant = 9;
long big[100000];
char *text = "text";
__thread int per_thread = 1;
F2D *image;
static int next(void) { static int counter = 5; return counter++; }
int other(void) { static int counter; return ++counter; }
__attribute__((noinline)) int func1(int n) { return n + next() + other() + hidden; }
int main(int argc, char **argv) {
    image = malloc(sizeof(F2D) + 520);
    printf("%d %d %ld\n", func1(argc), constant, big[argc]);
    return per_thread - 1;
}
"#;

fn line_of(source: &str, text: &str) -> u32 {
    source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1
}

/// Checks the names of C data in a program with symbols.
fn check_c_names(built: &Built, with_types: bool) {
    let (mut resolver, bias) = mapped(&built.path);
    let mut check =
        |symbol: &str, offset: u64, size: u32, name: &str, path: Option<&str>, region: RegionKind| {
            let addr = VirtAddr(bias + nm(&built.path, symbol) + offset);
            let found = resolver.resolve_data(addr);
            assert_eq!(resolver.resolve_data(addr), found, "the cache says the same");
            let variable = resolver.names().variable(found.variable).unwrap();
            assert_eq!(
                (&*variable.name, found.offset, variable.region),
                (name, offset, region),
                "{symbol}+{offset}"
            );
            assert_eq!(variable.kind, VariableKind::Static);
            assert_eq!(
                resolver.field_path(addr, size).as_deref(),
                path.filter(|_| with_types),
                "{symbol}+{offset}"
            );
        };
    use RegionKind::{Bss, Data, Rodata};
    check("frame", 0, 4, "frame", Some(".width"), Data);
    check("frame", 8 + 9, 1, "frame", Some(".pixels[3].red"), Data);
    check("frame", 32, 4, "frame", Some(".inner.x"), Data);
    check("frame", 36 + 4, 2, "frame", Some(".inner.y[1].deep"), Data);
    check("frame", 36 + 4 + 3, 1, "frame", Some(".inner.y[1]+3"), Data);
    check("frame", 44, 1, "frame", Some(".flags.a|b"), Data);
    check("frame", 45, 1, "frame", Some(".flags.c"), Data);
    check("frame", 48, 4, "frame", Some(".flags.after"), Data);
    check("frame", 56, 8, "frame", Some(".number.whole"), Data);
    check("frame", 56, 4, "frame", Some(".number.real"), Data);
    check("frame", 58, 2, "frame", Some(".number.parts[1]"), Data);
    check("frame", 64, 4, "frame", Some(".in_unnamed"), Data);
    check("frame", 72, 8, "frame", Some(".list.next"), Data);
    check("frame", 80, 4, "frame", Some(".list.value"), Data);
    check("frames", 2 * 88 + 4, 4, "frames", Some("[2].height"), Bss);
    check("matrix", 4 * (5 + 2), 4, "matrix", Some("[1][2]"), Bss);
    check("hidden", 0, 4, "hidden", Some(""), Data);
    check("constant", 0, 4, "constant", Some(""), Rodata);
    check("big", 799_992, 8, "big", Some("[99999]"), Bss);
    check("text", 0, 8, "text", Some(""), Data);
}

#[test]
fn c_with_debug_information_in_all_layouts() {
    for flags in [
        ["-g", "-O0", "-pie", "-fPIE"].as_slice(),
        &["-g", "-O0", "-no-pie", "-fno-pie"],
        &["-g", "-O2"],
        &["-gdwarf-4", "-O1"],
        &["-gdwarf-5", "-gz", "-O0"],
    ] {
        check_c_names(&build("gcc", C, flags), true);
    }
}

#[test]
fn c_without_debug_information() {
    check_c_names(&build("gcc", C, &["-O0"]), false);
    check_c_names(&build("gcc", C, &["-O2", "-no-pie", "-fno-pie"]), false);
}

#[test]
fn static_variables_of_functions() {
    let built = build("gcc", C, &["-g", "-O0"]);
    let module = open(&built.path);
    let objects = module.data_objects();
    let mut names: Vec<&str> =
        objects.iter().map(|object| object.name.as_str()).filter(|name| name.contains("counter")).collect();
    names.sort_unstable();
    assert_eq!(names, ["next::counter", "other::counter"]);
    assert_eq!(module.find_variable("counter").unwrap().len(), 2);
    let next = module.find_variable("next::counter").unwrap();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].len, 4);
    assert_eq!(module.section_at(next[0].addr).unwrap().kind, SectionKind::Data);
    // Without debug information the compiler's number is all there is.
    let plain = build("gcc", C, &["-O0"]);
    let plain = open(&plain.path);
    assert_eq!(plain.find_variable("counter").unwrap().len(), 2);
    assert!(plain.find_variable("counter").unwrap().iter().all(|place| place.name.starts_with("counter.")));
}

#[test]
fn lines_and_functions() {
    for flags in [["-g", "-O0"].as_slice(), &["-g", "-O0", "-no-pie"], &["-gdwarf-4", "-O0"]] {
        let built = build("gcc", C, flags);
        let (mut resolver, bias) = mapped(&built.path);
        let ip = VirtAddr(bias + nm(&built.path, "func1") + 4);
        let code = resolver.code_name(ip).unwrap();
        assert_eq!(code.to_string(), "func1+4");
        assert_eq!(code.module.as_deref(), Some("program"));
        let (file, line) = code.line().unwrap();
        assert!(file.ends_with("program.c"), "{file}");
        assert_eq!(line, Some(line_of(C, "int func1")));
        assert_eq!(code.frames()[0].function.as_deref(), Some("func1"));
        let other = resolver.code_name(VirtAddr(ip.0 + 1)).unwrap();
        assert_eq!(other.function_id, code.function_id);
    }
}

#[test]
fn inlined_functions_come_innermost_first() {
    let built = build("gcc", C, &["-g", "-O2"]);
    let module = open(&built.path);
    let start = nm(&built.path, "func1");
    let symbol = module.function_at(LinkAddr(start)).unwrap();
    let chains: Vec<Vec<String>> = (start..start + symbol.bytes)
        .map(|at| {
            module
                .frames(LinkAddr(at))
                .iter()
                .filter_map(|frame| frame.function.as_deref().map(String::from))
                .collect()
        })
        .collect();
    assert!(chains.contains(&vec!["next".to_owned(), "func1".to_owned()]), "{chains:?}");
    assert!(chains.contains(&vec!["func1".to_owned()]));
}

#[test]
fn procedure_linkage() {
    for flags in
        [["-O1"].as_slice(), &["-O1", "-no-pie"], &["-fcf-protection", "-O1"], &["-Wl,-z,lazy", "-O1"]]
    {
        let built = build("gcc", C, flags);
        let module = open(&built.path);
        let found = module.find_function("printf@plt").unwrap();
        let text = run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&built.path));
        let expect: Vec<u64> = text
            .lines()
            .filter_map(|line| line.strip_suffix(" <printf@plt>:"))
            .map(|address| u64::from_str_radix(address, 16).unwrap())
            .collect();
        assert_eq!(found.iter().map(|symbol| symbol.address.0).collect::<Vec<_>>(), expect);
    }
}

#[test]
fn slots_of_functions() {
    for flags in [["-O1"].as_slice(), &["-O1", "-fno-plt"], &["-Wl,-z,lazy", "-O1"]] {
        let built = build("gcc", C, flags);
        let module = open(&built.path);
        let text = run(Command::new("objdump").arg("-R").arg(&built.path));
        let line = text.lines().find(|line| line.contains(" printf@")).unwrap();
        let slot = u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap();
        assert_eq!(module.slot_function(LinkAddr(slot)), Some("printf"), "{flags:?}");
        assert_eq!(module.slot_function(LinkAddr(slot + 1)), None);
        assert_eq!(module.slot_function(LinkAddr(nm(&built.path, "text"))), None);
    }
}

#[test]
fn stripped_programs_name_sections_and_modules() {
    let built = build("gcc", C, &["-O0"]);
    let (matrix, func1) = (nm(&built.path, "matrix"), nm(&built.path, "func1"));
    run(Command::new("strip").arg(&built.path));
    let (mut resolver, bias) = mapped(&built.path);
    let module = open(&built.path);
    let bss = module.sections().iter().find(|section| &*section.name == ".bss").unwrap();
    let addr = VirtAddr(bias + matrix);
    assert_eq!(resolver.data_text(addr, 4), format!("program:.bss+{}", matrix - bss.address.0));
    let found = resolver.resolve_data(addr);
    assert_eq!(resolver.names().variable(found.variable).unwrap().region, RegionKind::Bss);
    let code = resolver.code_name(VirtAddr(bias + func1)).unwrap();
    assert_eq!(code.to_string(), format!("program+{func1:#x}"));
    assert!(code.line().is_none());
}

#[test]
fn separate_debug_file_by_build_id_and_by_link() {
    for flags in [["-g", "-O0", "-Wl,--build-id"].as_slice(), &["-g", "-O0", "-Wl,--build-id=none"]] {
        let built = build("gcc", C, flags);
        let with_symbols = built.dir.path().join("with_symbols");
        std::fs::copy(&built.path, &with_symbols).unwrap();
        let debug = built.dir.path().join("program.debug");
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&built.path).arg(&debug));
        run(Command::new("strip").arg(&built.path));
        let mut search =
            SearchPath { debug_roots: vec![built.dir.path().join("debug")], ..SearchPath::default() };
        if let Some(id) = open(&built.path).build_id().map(BuildId::to_string) {
            let place = search.debug_roots[0].join(".build-id").join(&id[..2]);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::rename(&debug, place.join(format!("{}.debug", &id[2..]))).unwrap();
        } else {
            let link = format!("--add-gnu-debuglink={}", debug.display());
            run(Command::new("objcopy").arg(link).arg(&built.path));
            search.debug_roots.clear();
        }
        let module = Module::open(&built.path, None, &search).unwrap();
        assert!(module.has_debug_info());
        let place = module.find_variable("frame.pixels[3].red").unwrap();
        assert_eq!(place[0].addr.0, nm(&with_symbols, "frame") + 17);
        assert_eq!((place[0].len, place[0].name.as_str()), (1, "frame.pixels[3].red"));
        let func1 = LinkAddr(nm(&with_symbols, "func1"));
        assert_eq!(module.function_at(func1.offset(4)).unwrap().name(), "func1");
        assert_eq!(
            module.frames(func1.offset(4))[0].line.as_ref().unwrap().line,
            Some(line_of(C, "int func1"))
        );
    }
}

#[test]
fn debug_file_of_another_build_is_not_taken() {
    let built = build("gcc", C, &["-g", "-O0", "-Wl,--build-id=none"]);
    let debug = built.dir.path().join("program.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&built.path).arg(&debug));
    run(Command::new("strip").arg(&built.path));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&built.path));
    let mut bytes = std::fs::read(&debug).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&debug, bytes).unwrap();
    assert!(!open(&built.path).has_debug_info());
}

#[test]
fn another_build_is_refused() {
    let built = build("gcc", C, &["-O0", "-Wl,--build-id"]);
    let other: BuildId = "0011223344".parse().unwrap();
    let right = open(&built.path).build_id().unwrap().clone();
    assert!(Module::open(&built.path, Some(&right), &SearchPath::default()).is_ok());
    let refused = Module::open(&built.path, Some(&other), &SearchPath::default());
    assert!(matches!(refused, Err(Error::BuildIdMismatch { .. })));
    // In a session: addresses stay module+offset, and the reason is told.
    let mut resolver = support::resolver(SearchPath::default());
    let path = built.path.to_str().unwrap();
    resolver.image().store().expect(path, other);
    for event in support::mappings(&open(&built.path), 0x10000) {
        resolver.apply_region(&event);
    }
    let func1 = nm(&built.path, "func1");
    let code = resolver.code_name(VirtAddr(0x10000 + func1)).unwrap();
    assert_eq!(code.to_string(), format!("program+{func1:#x}"));
    let problems = resolver.image().store().take_problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(matches!(*problems[0], Error::BuildIdMismatch { .. }), "{problems:?}");
    assert!(problems[0].to_string().contains("0011223344"));
}

#[test]
fn forged_names_tell_the_call() {
    let built = build("gcc", C, &["-g", "-O0"]);
    let (mut resolver, bias) = mapped(&built.path);
    let ip = bias + nm(&built.path, "func1") + 7;
    let heap = region(2, RegionChange::Map, RegionKind::Heap, 0x6000_0000, 0x10000);
    resolver.apply_region(&memref::RegionEvent { name: "[heap]".into(), ..heap });
    resolver.apply_allocation(&allocation(AllocationKind::Malloc, ip, 0x6000_0010, 100));
    resolver.apply_allocation(&allocation(AllocationKind::Calloc, ip, 0x6000_0100, 100));
    let text = |resolver: &mut symbols::Resolver, addr| resolver.data_text(VirtAddr(addr), 4);
    assert_eq!(text(&mut resolver, 0x6000_0018), "<malloc0001@func1+7>+8");
    assert_eq!(text(&mut resolver, 0x6000_0100), "<calloc0002@func1+7>+0");
    assert_eq!(text(&mut resolver, 0x6000_0200), "[heap]+512");
    resolver.apply_allocation(&allocation(AllocationKind::Free, ip, 0x6000_0010, 0));
    assert_eq!(text(&mut resolver, 0x6000_0018), "<freed:0001@func1+7>+8");
    let name = resolver.resolve_data(VirtAddr(0x6000_0018));
    let variable = resolver.names().variable(name.variable).unwrap();
    assert_eq!((variable.bytes, variable.region), (100, RegionKind::Heap));
    // The child goes on counting, and keeps its own account.
    let mut child = resolver.fork(memref::ProcessId(1));
    child.apply_allocation(&allocation(AllocationKind::Malloc, ip, 0x6000_0010, 8));
    assert_eq!(text(&mut child, 0x6000_0010), "<malloc0003@func1+7>+0");
    // Of 8 bytes that are asked for, 24 can be used; the freed block begins again after them.
    assert_eq!(text(&mut child, 0x6000_0018), "<malloc0003@func1+7>+8");
    assert_eq!(text(&mut child, 0x6000_0030), "<freed:0001@func1+7>+32");
    assert_eq!(text(&mut resolver, 0x6000_0010), "<freed:0001@func1+7>+0");
}

#[test]
fn a_type_by_name_describes_a_heap_block() {
    let built = build("gcc", C, &["-g", "-O0"]);
    let module = open(&built.path);
    let image = module.type_named("F2D").unwrap();
    assert_eq!(image.path(524, Some(4)).as_deref(), Some(".data[129]"));
    assert_eq!(image.path(0, Some(4)).as_deref(), Some(".width"));
    assert_eq!(module.type_named("struct frame").unwrap().bytes, 88);
    assert_eq!(module.type_named("struct nothing"), None);
}

#[test]
fn names_that_are_not_there_bring_suggestions() {
    let built = build("gcc", C, &["-g", "-O0"]);
    let module = open(&built.path);
    match module.find_function("func2") {
        Err(Error::NoFunction { suggestions, .. }) => assert_eq!(suggestions, ["func1"]),
        other => panic!("{other:?}"),
    }
    match module.find_variable("matrx[1]") {
        Err(Error::NoVariable { suggestions, .. }) => {
            assert!(suggestions.is_empty() || suggestions[0] == "matrix")
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(module.find_variable("frame.nothing"), Err(Error::BadExpression { .. })));
    assert!(matches!(module.find_variable("hidden+4"), Err(Error::BadExpression { .. })));
    let part = module.find_variable("matrix+20:8").unwrap();
    assert_eq!((part[0].addr.0, part[0].len), (nm(&built.path, "matrix") + 20, 8));
    let part = module.find_variable("matrix[1]").unwrap();
    assert_eq!((part[0].addr.0, part[0].len), (nm(&built.path, "matrix") + 20, 20));
}

#[test]
fn thread_local_variables_are_found_by_their_place_in_the_template() {
    let source = "struct point { int x, y; };\n\
        __thread int first = 1;\n\
        static __thread struct point own = { 2, 3 };\n\
        int main(void) { return first + own.y - 4; }\n";
    for flags in [&["-g", "-O0"][..], &["-O0"]] {
        let built = build("gcc", source, flags);
        let module = open(&built.path);
        let place = |expression: &str| {
            let found = module.find_thread_local(expression).unwrap();
            (found[0].addr.0, found[0].len)
        };
        assert_eq!(place("first"), (nm(&built.path, "first"), 4));
        assert_eq!(place("own+4:4"), (nm(&built.path, "own") + 4, 4));
        match module.find_variable("frst") {
            Err(Error::NoVariable { suggestions, .. }) => assert_eq!(suggestions, ["first"]),
            other => panic!("{other:?}"),
        }
        assert!(matches!(module.find_thread_local("main"), Err(Error::NoVariable { .. })));
        if flags.contains(&"-g") {
            assert_eq!(place("own.y"), (nm(&built.path, "own") + 4, 4));
            assert!(matches!(module.find_thread_local("own.z"), Err(Error::BadExpression { .. })));
        }
    }
}

const CPP: &str = r#"
namespace geo {
struct Base { int id; virtual ~Base() {} };
struct Shape : Base { double area; static int count; };
int Shape::count = 3;
Shape shape;
namespace { volatile int hidden = 4; }
template <typename T> struct Box { T value; T twice() const; };
template <typename T> T Box<T>::twice() const { static int calls = 1; return value * calls * 2 + hidden; }
template struct Box<int>;
Box<int> box;
__attribute__((noinline)) int grow(int by) { Shape::count += by; return Shape::count; }
}
int main(int argc, char **) { return geo::grow(argc) + geo::box.twice() == 0; }
"#;

#[test]
fn c_plus_plus() {
    for flags in [["-g", "-O0"].as_slice(), &["-gdwarf-4", "-O2"]] {
        let built = build("g++", CPP, flags);
        let (mut resolver, bias) = mapped(&built.path);
        let mut text = |mangled: &str, offset, size| {
            resolver.data_text(VirtAddr(bias + nm(&built.path, mangled) + offset), size)
        };
        assert_eq!(text("_ZN3geo5Shape5countE", 0, 4), "geo::Shape::count");
        assert_eq!(text("_ZN3geo5shapeE", 8, 4), "geo::shape.id");
        assert_eq!(text("_ZN3geo5shapeE", 16, 8), "geo::shape.area");
        assert_eq!(text("_ZN3geo5shapeE", 0, 8), "geo::shape._vptr.Base");
        assert_eq!(text("_ZN3geo12_GLOBAL__N_16hiddenE", 0, 4), "geo::(anonymous namespace)::hidden");
        assert_eq!(text("_ZN3geo3boxE", 0, 4), "geo::box.value");
        let calls = text("_ZZNK3geo3BoxIiE5twiceEvE5calls", 0, 4);
        assert!(calls.starts_with("geo::Box<int>::twice() const::calls"), "{calls}");
        let module = open(&built.path);
        let grow = nm(&built.path, "_ZN3geo4growEi");
        for name in ["geo::grow", "geo::grow(int)", "_ZN3geo4growEi"] {
            assert_eq!(module.find_function(name).unwrap()[0].address.0, grow, "{name}");
        }
        assert_eq!(module.find_variable("geo::shape.area").unwrap()[0].len, 8);
        assert_eq!(resolver.code_name(VirtAddr(bias + grow + 2)).unwrap().to_string(), "geo::grow(int)+2");
    }
}

const RUST: &str = r#"
#![allow(static_mut_refs)]
mod shapes {
    pub struct Point { pub x: u32, pub y: u64 }
    pub enum Shape { Empty, Circle { radius: u64 }, Line(u64, u64) }
    pub static mut POINTS: [Point; 4] = [const { Point { x: 1, y: 2 } }; 4];
    pub static mut SHAPE: Shape = Shape::Line(1, 2);
    pub static mut OTHER: Shape = Shape::Empty;
    #[inline(never)]
    pub fn touch(n: usize) -> u64 {
        unsafe {
            POINTS[n].x += 1;
            if n == 3 { SHAPE = Shape::Circle { radius: 4 }; OTHER = Shape::Empty; }
            match (&SHAPE, &OTHER) { (Shape::Line(a, b), _) => a + b, (_, Shape::Circle { radius }) => *radius, _ => 0 }
        }
    }
}
fn main() { let n = std::env::args().count(); assert!(shapes::touch(n) != 1 || n == 77); }
"#;

#[test]
fn rust() {
    check_rust(&build("rustc", RUST, &["-g", "-Csymbol-mangling-version=v0"]));
    check_rust(&build("rustc", RUST, &["-g"]));
}

fn check_rust(built: &Built) {
    let module = open(&built.path);
    let (mut resolver, bias) = mapped(&built.path);
    let points = module.find_variable("program::shapes::POINTS").unwrap();
    assert_eq!(points.len(), 1);
    let at = points[0].addr.0 + bias;
    let x = module.find_variable("program::shapes::POINTS[2].x").unwrap()[0].addr.0 + bias;
    assert_eq!((x - at) / 16, 2);
    assert_eq!(resolver.data_text(VirtAddr(x), 4), "program::shapes::POINTS[2].x");
    let shape = module.find_variable("program::shapes::SHAPE").unwrap()[0].addr.0 + bias;
    assert_eq!(resolver.data_text(VirtAddr(shape + 16), 8), "program::shapes::SHAPE.Line.1");
    let touch = module.find_function("program::shapes::touch").unwrap()[0].address.0;
    let code = resolver.code_name(VirtAddr(bias + touch + 3)).unwrap();
    assert_eq!(code.to_string(), "program::shapes::touch+3");
    assert_eq!(code.line().unwrap().1, Some(line_of(RUST, "pub fn touch")));
}

#[test]
fn shared_library_loaded_and_unloaded() {
    let library = build(
        "gcc",
        "int exported[4]; static int inside; int *f(void) { return inside++ + exported; }",
        &["-g", "-shared", "-fPIC"],
    );
    let other =
        build("gcc", "long elsewhere[64]; long *g(void) { return elsewhere; }", &["-shared", "-fPIC"]);
    let exported = nm(&library.path, "exported");
    let mut resolver = support::resolver(SearchPath::default());
    let bias = 0x7f00_0000_0000;
    let first = support::mappings(&open(&library.path), bias);
    for event in &first {
        resolver.apply_region(event);
    }
    let addr = VirtAddr(bias + exported + 4);
    assert_eq!(resolver.data_text(addr, 4), "exported[1]");
    let ip = VirtAddr(bias + nm(&library.path, "f"));
    assert_eq!(resolver.code_name(ip).unwrap().to_string(), "f+0");
    assert_eq!(resolver.image().variables().iter().filter(|v| v.name == "inside").count(), 1);
    // dlclose
    for event in &first {
        resolver.apply_region(&memref::RegionEvent { change: RegionChange::Unmap, ..event.clone() });
    }
    assert_eq!(resolver.data_text(addr, 4), format!("[unknown]+{}", addr.0));
    assert_eq!(resolver.code_name(ip).unwrap().to_string(), format!("{ip}"));
    assert!(resolver.image().variables().is_empty());
    // dlopen of another at the same place
    for event in support::mappings(&open(&other.path), bias) {
        resolver.apply_region(&event);
    }
    let elsewhere = nm(&other.path, "elsewhere");
    assert_eq!(resolver.data_text(VirtAddr(bias + elsewhere + 9), 1), "elsewhere+9");
    assert_eq!(resolver.code_name(VirtAddr(bias + nm(&other.path, "g") + 1)).unwrap().to_string(), "g+1");
    assert_eq!(resolver.image().find_function("g").unwrap()[0].addr.0, bias + nm(&other.path, "g"));
}

#[test]
fn assembly_labels_without_sizes() {
    let source = r#"__asm__(".data\nfirst: .long 1, 2\nsecond: .quad 3\n.text\nentry_a: nop\nnop\nentry_b: ret\n");
int main(void) { return 0; }"#;
    let built = build("gcc", source, &["-O0"]);
    let (mut resolver, bias) = mapped(&built.path);
    let first = nm(&built.path, "first");
    assert_eq!(resolver.data_text(VirtAddr(bias + first + 7), 1), "first+7");
    assert_eq!(resolver.data_text(VirtAddr(bias + first + 8), 1), "second+0");
    let entry = nm(&built.path, "entry_a");
    assert_eq!(resolver.code_name(VirtAddr(bias + entry + 1)).unwrap().to_string(), "entry_a+1");
    assert_eq!(resolver.code_name(VirtAddr(bias + entry + 2)).unwrap().to_string(), "entry_b+0");
}

#[test]
fn files_of_the_system() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc.so"));
    for path in [libc, Some("/usr/bin/python3")].into_iter().flatten() {
        let path = std::path::Path::new(path);
        if !path.exists() {
            continue;
        }
        let module = open(path);
        let name = if path.ends_with("python3") { "Py_BytesMain" } else { "malloc" };
        let symbol = module.find_function(name).unwrap()[0];
        assert_eq!(module.function_at(symbol.address).unwrap().name(), name);
        if module.has_debug_info() && name == "malloc" {
            let frames = module.frames(symbol.address);
            assert!(frames[0].line.as_ref().unwrap().file.ends_with("malloc.c"), "{frames:?}");
            let state = module.find_variable("main_arena.mutex").unwrap();
            assert_eq!(state[0].len, 4);
        }
    }
    for path in ["/dev/zero", "/proc/self/maps", "/etc/passwd"] {
        let refused = Module::open(std::path::Path::new(path), None, &SearchPath::default());
        assert!(matches!(refused, Err(Error::NotElf { .. })), "{path}");
    }
    let missing = Module::open(std::path::Path::new("/nonexistent"), None, &SearchPath::default());
    assert!(matches!(missing, Err(Error::Io { .. })));
}

#[test]
fn can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Module>();
    check::<symbols::ModuleStore>();
    check::<symbols::Names>();
    check::<symbols::Resolver>();
}

#[test]
fn shards_agree_on_numbers() {
    let built = build("gcc", C, &["-g", "-O0"]);
    let (resolver, bias) = mapped(&built.path);
    let symbols = ["frame", "matrix", "hidden", "constant", "text"].map(|name| bias + nm(&built.path, name));
    let ask = |first: usize| {
        let mut shard = resolver.clone();
        let order = (0..symbols.len()).map(|n| (first + n) % symbols.len());
        let mut found: Vec<_> = order
            .map(|n| {
                (
                    n,
                    shard.resolve_data(VirtAddr(symbols[n])).variable,
                    shard.data_text(VirtAddr(symbols[n]), 1),
                )
            })
            .collect();
        found.sort();
        found
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|first| {
                scope.spawn({
                    let ask = &ask;
                    move || ask(first)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(resolver.names().variable_count(), symbols.len());
}
