//! `memtap layout`: the types of heap blocks, inferred from the instructions that access them, and the use of each field.

use e2e::{Recording, TestProgram, tool};
use serde_json::Value;

fn layouts(recording: &Recording) -> Vec<Value> {
    let outcome = recording.trace.ask("layout", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("layout --json is an array")
}

fn named<'a>(all: &'a [Value], key: &str, name: &str) -> &'a Value {
    all.iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("no {name} in {all:#?}"))
}

/// How often a field was read and written; a modify does both.
fn used(layout: &Value, field: &str) -> (u64, u64) {
    let field = named(layout["fields"].as_array().expect("fields"), "name", field);
    let number = |key: &str| field[key].as_u64().expect("a number");
    (number("loads") + number("modifies"), number("stores") + number("modifies"))
}

#[test]
fn fields_of_cells_and_nodes() {
    for flags in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"]] {
        let recording = TestProgram::built("layout/cells.c", flags).record_by("translate");
        let all = layouts(&recording);
        let cell = named(&all, "type", "cell");
        let number = |one: &Value, key: &str| one[key].as_u64().expect("a number");
        assert_eq!(
            (number(cell, "bytes"), number(cell, "blocks"), number(cell, "objects")),
            (88, 1, 100),
            "{flags:?}"
        );
        assert_eq!(used(cell, "alive"), (1000, 100), "{flags:?}");
        assert_eq!(used(cell, "age"), (1000, 1100), "{flags:?}");
        assert_eq!((used(cell, "temperature"), used(cell, "next")), ((0, 100), (0, 100)), "{flags:?}");
        assert_eq!((used(cell, "label"), used(cell, "births")), ((0, 0), (0, 0)), "{flags:?}");
        assert_eq!(cell["holes"], serde_json::json!([{"offset": 82, "size": 2}]));
        let node = named(&all, "type", "node");
        assert_eq!((number(node, "bytes"), number(node, "blocks")), (32, 50), "{flags:?}");
        assert_eq!((used(node, "next"), used(node, "value")), ((250, 50), (250, 50)), "{flags:?}");
        assert!(
            cell["confidence"].as_f64() > Some(0.99) && node["confidence"].as_f64() > Some(0.99),
            "{all:#?}"
        );
    }
}

/// As Lua has it: one call allocates everything; strings are shorter than their structure, which ends in `char contents[1]`; and an array
/// of numbers has the size of other objects.
const ONE_ALLOCATOR: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct object { struct object *next; unsigned char kind, mark; };
struct string { struct object *next; unsigned char kind, mark; unsigned hash; char contents[1]; };
struct node { union { void *p; double n; } value; unsigned char kind; int next; struct object *key; };
struct closure { struct object *next; unsigned char kind, mark; void *code; struct object *upvalues[1]; };
static struct object *all;
__attribute__((noinline)) static void *allocate(size_t bytes) { return malloc(bytes); }
__attribute__((noinline)) static void *object(size_t bytes, int kind)
{
    struct object *made = allocate(bytes);
    made->kind = kind, made->mark = 0;
    made->next = all, all = made;
    return made;
}
int main(int argc, char **argv)
{
    unsigned sum = 0;
    for (int i = 0; i < 20; i++) {
        struct string *string = object(offsetof(struct string, contents) + 3, 1);
        string->hash = i * argc, string->contents[0] = 'a' + i, string->contents[1] = 0;
        struct closure *closure = object(offsetof(struct closure, upvalues), 2);
        closure->code = main;
        struct node *nodes = allocate(2 * sizeof *nodes);
        for (int n = 0; n < 2; n++)
            nodes[n].value.n = n, nodes[n].kind = 3, nodes[n].next = n, nodes[n].key = all;
        sum += string->hash + nodes[argc].next + (closure->code != 0);
    }
    unsigned *code = allocate(2 * sizeof(struct node));
    for (int i = 0; i < 1000; i++)
        code[i % 12] += i;
    for (struct object *one = all; one; one = one->next)
        sum += one->kind;
    printf("%u\n", sum + code[5]);
    return 0;
}
"#;

#[test]
fn blocks_of_one_allocator_keep_their_types() {
    for level in ["-O0", "-O1", "-O2"] {
        let source = ONE_ALLOCATOR.replace("#include <stdlib.h>", "#include <stddef.h>\n#include <stdlib.h>");
        let program = TestProgram::from_source("one_allocator.c", &source, &[level]);
        let recording = e2e::record(&[], &program.command_line(), b"");
        let all = layouts(&recording);
        let blocks = |name: &str| named(&all, "type", name)["blocks"].as_u64().expect("a number");
        assert_eq!((blocks("string"), blocks("closure"), blocks("node")), (20, 20, 20), "{level}: {all:#?}");
        assert!(!all.iter().any(|one| one["type"] == "object"), "{level}: {all:#?}");
        assert_eq!(blocks("unsigned int"), 1, "{level}");
    }
}

/// What one call allocates, as in Lua and SQLite: objects that are longer than their type (an array of one at the end, a name behind it),
/// and a table of pointers of their size, of which nobody knows a type.
const LONGER_OBJECTS: &str = r#"
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
struct object { struct object *next; unsigned char kind, mark; };
struct text { struct object *next; unsigned char kind, mark; unsigned hash; char contents[1]; };
struct closure { struct object *next; unsigned char kind, mark; void *code; struct object *upvalues[1]; };
struct record { long id, count; char *name; };
static struct object *all;
#define APART __attribute__((noipa)) static
APART void *allocate(size_t bytes) { return malloc(bytes); }
APART void *object(size_t bytes, int kind)
{
    struct object *made = allocate(bytes);
    made->kind = kind, made->mark = 0;
    made->next = all, all = made;
    return made;
}
APART void fill(struct text *text, int n) { for (int i = 0; i < n; i++) text->contents[i] = 'a' + i; }
APART void bind(struct closure *closure, int n) { for (int i = 0; i < n; i++) closure->upvalues[i] = all; }
APART void name(struct record *record, int n)
{
    record->name = (char *)(record + 1);
    for (int i = 0; i < n; i++)
        record->name[i] = 'a' + i;
    record->name[n] = 0;
}
APART long id(struct record *record) { return record->id; }
APART long spell(struct record *record)
{
    long sum = 0;
    for (char *at = record->name; *at; at++)
        sum += *at;
    return sum;
}
APART void turn(void **table, int n)
{
    for (int i = 0; i < 1000; i++) {
        void *first = table[i % n];
        table[i % n] = table[(i + 1) % n];
        table[(i + 1) % n] = first;
    }
}
int main(int argc, char **argv)
{
    long sum = 0;
    for (int i = 0; i < 10; i++) {
        struct text *text = object(offsetof(struct text, contents) + 41, 1);
        text->hash = i * argc;
        fill(text, 40);
        struct closure *closure = object(offsetof(struct closure, upvalues) + 3 * sizeof(void *), 2);
        closure->code = main;
        bind(closure, 3);
        // One has a name as long as itself.
        int letters = i == 5 ? sizeof(struct record) - 1 : 5 + i;
        struct record *record = allocate(sizeof(struct record) + letters + 1);
        record->id = i + argc;
        name(record, letters);
        for (int n = 0; n < 10; n++)
            sum += id(record) + spell(record);
    }
    void **table = allocate(offsetof(struct closure, upvalues) + 3 * sizeof(void *));
    for (int i = 0; i < 6; i++)
        table[i] = all;
    turn(table, 5 + argc);
    for (struct object *one = all; one; one = one->next)
        sum += one->kind;
    printf("%ld\n", sum);
    return 0;
}
"#;

#[test]
fn what_follows_an_object_is_no_other_one() {
    for level in ["-O0", "-O1", "-O2"] {
        let flags = [level, "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns", "-fno-unroll-loops"];
        let program = TestProgram::from_source("longer_objects.c", LONGER_OBJECTS, &flags);
        let all = layouts(&e2e::record(&[], &program.command_line(), b""));
        let check = |type_: &str, field: &str, expect: (u64, u64)| {
            let layout = named(&all, "type", type_);
            assert_eq!(
                (&layout["blocks"], &layout["objects"]),
                (&10.into(), &10.into()),
                "{level}: {layout:#}"
            );
            assert_eq!(used(layout, field), expect, "{level}: {type_}.{field}: {all:#?}");
        };
        check("text", "next", (10, 10));
        check("text", "kind", (10, 10));
        check("text", "contents", (0, 400));
        check("closure", "next", (10, 10));
        check("closure", "code", (0, 10));
        check("closure", "upvalues", (0, 30));
        check("record", "id", (100, 10));
        check("record", "count", (0, 0));
    }
}

/// As SQLite has it: what an array did not need of its block is given to other objects, and a word with the size precedes all.
const TWO_ARRAYS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct op { unsigned short code, flags; int a, b, c; };
struct value { double number; char *text; long len, flags, owner; };
#define APART __attribute__((noipa)) static
APART long *sized(size_t bytes) { long *block = malloc(bytes + sizeof(long)); *block = bytes; return block + 1; }
APART void code(struct op *ops, int n) { for (int i = 0; i < n; i++) ops[i].code = i; }
APART long run(struct op *ops, int n)
{
    long sum = 0;
    for (struct op *op = ops; op < ops + n; op++)
        sum += op->code;
    return sum;
}
APART void set(struct value *value, long len) { value->len = len; }
APART long len(struct value *value) { return value->len; }
int main(int argc, char **argv)
{
    struct op *ops = (struct op *)sized(1024);
    code(ops, 19 + argc);
    struct value *values = (struct value *)(ops + 19 + argc);
    long sum = 0;
    for (int i = 0; i < 10; i++) {
        set(values + i, i);
        sum += run(ops, 19 + argc) + len(values + i) + len(values + i);
    }
    printf("%ld\n", sum);
    return 0;
}
"#;

#[test]
fn two_arrays_of_one_block_have_their_types() {
    for level in ["-O0", "-O1", "-O2"] {
        let flags = [level, "-fno-tree-vectorize", "-fno-unroll-loops"];
        let program = TestProgram::from_source("two_arrays.c", TWO_ARRAYS, &flags);
        let all = layouts(&e2e::record(&[], &program.command_line(), b""));
        let check = |type_: &str, objects: u64, field: &str, expect: (u64, u64)| {
            let layout = named(&all, "type", type_);
            assert_eq!(
                (&layout["blocks"], &layout["objects"]),
                (&1.into(), &objects.into()),
                "{level}: {all:#?}"
            );
            assert_eq!(layout["conflicts"], serde_json::json!([]), "{level}");
            assert_eq!(used(layout, field), expect, "{level}: {type_}.{field}: {all:#?}");
        };
        check("op", 20, "code", (200, 20));
        check("op", 20, "flags", (0, 0));
        check("value", 10, "len", (20, 10));
        check("value", 10, "number", (0, 0));
    }
}

/// Each access is to the object that lies there, whatever else the block has, also where another one lay there before.
#[test]
fn objects_of_several_types_in_one_block_have_their_fields() {
    for [level, mapped] in
        [["-O0", "-DMAPPED"], ["-O1", "-UMAPPED"], ["-O2", "-DMAPPED"], ["-O2", "-UMAPPED"]]
    {
        let flags = [level, mapped, "-fno-tree-vectorize", "-fno-unroll-loops"];
        let recording = TestProgram::built("layout/pools.c", &flags).record_by("translate");
        let all = layouts(&recording);
        let check = |type_: &str, blocks: u64, objects: u64, fields: &[(&str, (u64, u64))]| {
            let layout = named(&all, "type", type_);
            let expect = (&blocks.into(), &objects.into());
            assert_eq!((&layout["blocks"], &layout["objects"]), expect, "{level}: {layout:#}");
            assert_eq!(layout["conflicts"], serde_json::json!([]), "{level}: {layout:#}");
            for (field, expect) in fields {
                assert_eq!(used(layout, field), *expect, "{level}: {type_}.{field}: {layout:#}");
            }
        };
        check("node", 1, 50, &[("next", (600, 60)), ("value", (600, 60)), ("hits", (600, 660))]);
        let edge = [("from", (150, 30)), ("to", (0, 30)), ("weight", (150, 30)), ("seen", (0, 30))];
        check("edge", 1, 20, &edge);
        check("edge", 1, 20, &[("marks", (0, 0))]);
        check("sorter", 3, 3, &[("count", (30, 3)), ("name", (0, 0))]);
        check("keys", 3, 3, &[("first", (30, 3)), ("second", (0, 3))]);
        let fields = rows(&recording, "field");
        let count = |name: &str| named(&fields, "name", name)["stores"].clone();
        assert_eq!((count("edge.to"), count("keys.second")), (30.into(), 3.into()), "{level}: {fields:#?}");
        let types = rows(&recording, "type");
        assert_eq!(named(&types, "name", "edge")["loads"], 300, "{level}: {types:#?}");
        // Those have types, each of its own: there is no block without one.
        let outcome = recording.trace.ask("layout", &["--offsets", "--json"]);
        let offsets: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
        assert!(offsets.iter().all(|one| one["bytes"] != 48), "{level}: {offsets:#?}");
    }
}

/// A stripped program's blocks are used as those of the same program with types are.
#[test]
fn places_of_blocks_without_a_type_are_used_as_the_fields_there() {
    let typed = TestProgram::built("layout/cells.c", &["-O1"]).record_by("translate");
    let fields = layouts(&typed);
    let node = named(&fields, "type", "node");
    let nameless = TestProgram::built("layout/cells.c", &["-O1", "-s"]).record_by("translate");
    let outcome = nameless.trace.ask("layout", &["--offsets", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let sites: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
    let site = sites
        .iter()
        .find(|one| (&one["bytes"], &one["blocks"]) == (&node["bytes"], &node["blocks"]))
        .unwrap_or_else(|| panic!("no {node:#} in {sites:#?}"));
    let number = |place: &Value, key: &str| place[key].as_u64().expect("a number");
    for field in node["fields"].as_array().expect("fields") {
        let (begin, end) = (number(field, "offset"), number(field, "offset") + number(field, "size"));
        for key in ["loads", "stores", "modifies"] {
            let inside = site["offsets"].as_array().expect("places").iter();
            let inside = inside.filter(|place| (begin..end).contains(&number(place, "offset")));
            let sum: u64 = inside.map(|place| number(place, key)).sum();
            assert_eq!(sum, number(field, key), "{key} of {field}");
        }
    }
    assert_eq!(site["accesses"], node["accesses"]);
    let table = nameless.trace.ask("layout", &[]);
    assert!(table.out().contains("50 blocks of 32 bytes"), "people are shown it: {}", table.out());
}

/// All rows of a report.
fn rows(recording: &Recording, by: &str) -> Vec<Value> {
    let outcome = recording.trace.ask("report", &["--by", by, "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("report --json is an array")
}

#[test]
fn reports_name_fields_and_types_of_blocks() {
    let recording = TestProgram::built("layout/cells.c", &["-O2"]).record_by("translate");
    let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    let counts = |row: &Value| ["loads", "stores", "modifies"].map(|key| number(row, key));
    let sum = |rows: &[Value]| rows.iter().map(|row| counts(row).iter().sum::<u64>()).sum::<u64>();
    let stat = recording.trace.stat();
    let (fields, types) = (rows(&recording, "field"), rows(&recording, "type"));
    assert_eq!(sum(&types), number(&stat, "accesses"));
    // One access of the C library's may be to two fields of a local variable, and counts to each.
    let on_stacks = |rows: &[Value]| -> Vec<Value> {
        rows.iter().filter(|row| row["region"] == "stack").cloned().collect()
    };
    let locals = rows(&recording, "local");
    assert_eq!(sum(&fields) - sum(&on_stacks(&fields)), number(&stat, "accesses") - sum(&on_stacks(&locals)));
    // The figures of `layout`, by another command.
    for layout in layouts(&recording) {
        let type_ = layout["type"].as_str().expect("a name");
        let of_type = named(&types, "name", type_);
        for key in ["loads", "stores", "modifies", "bytes"] {
            let fields = layout["fields"].as_array().expect("fields").iter();
            let sum: u64 = fields.filter_map(|field| field[key].as_u64()).sum();
            assert!(key == "bytes" || sum == number(of_type, key), "{type_} {key}");
        }
        for field in layout["fields"].as_array().expect("fields") {
            let name = format!("{type_}.{}", field["name"].as_str().expect("a name"));
            match counts(field) {
                [0, 0, 0] => assert!(!fields.iter().any(|row| row["name"] == name.as_str()), "{name}"),
                used => assert_eq!(counts(named(&fields, "name", &name)), used, "{name}"),
            }
        }
    }
    let node = named(&types, "name", "node");
    assert_eq!((number(node, "things"), number(node, "size"), &node["region"]), (50, 1600, &"heap".into()));
    // Static variables have types, too: an array those of its elements.
    assert_eq!(counts(named(&types, "name", "long int")), counts(named(&fields, "name", "sum")));
    // Who accesses a field.
    let pairs = rows(&recording, "field,function");
    let by = |field: &str| -> Vec<&str> {
        let of = pairs.iter().filter(|pair| pair["field"] == field);
        of.map(|pair| pair["function"].as_str().expect("a name")).collect()
    };
    assert_eq!((by("cell.temperature"), by("node.value").len()), (vec!["fill"], 2), "{pairs:#?}");
    // Of a part of a run the types are those of the whole.
    let part = recording
        .trace
        .ask("report", &["--by", "field", "--json", "--cycles", "0..1000000", "--name", "node.*"]);
    let part: Vec<Value> = serde_json::from_slice(&part.stdout).expect("an array");
    assert!(!part.is_empty() && part.iter().all(|row| row["region"] == "heap"), "{part:#?}");
    let misses = recording.trace.ask("cache", &["--by", "field", "--json"]).out();
    assert!(misses.contains("\"cell.age\"") || misses.contains("\"cell.alive\""), "{misses}");
}

#[test]
fn advice_and_limits() {
    let recording = TestProgram::built("layout/cells.c", &["-O2"]).record_by("translate");
    let text = recording.trace.ask("layout", &["--type", "cell"]).out();
    assert!(text.contains("5 of 88 bytes take") && text.contains("instead of 9"), "{text}");
    assert!(text.contains("`temperature`, `next` are written and never read (9 of 88 bytes)"), "{text}");
    let ask = |limit: &str| recording.trace.ask("layout", &["--type", "cell", "--fail-if", limit]);
    assert_eq!(ask("bytes>88").status, 0);
    let passed = ask("cell.bytes>64");
    assert!(
        passed.status == 3 && passed.err().contains("bytes is 88, which cell.bytes>64 forbids"),
        "{}",
        passed.err()
    );
    assert_eq!(ask("weight>1").status, 2);
    let none = recording.trace.ask("layout", &["--type", "nothing"]);
    assert!(
        none.status == 1 && none.err().contains("no accessed heap block or variable has the type nothing"),
        "{}",
        none.err()
    );
}

/// The program whose findings are about fields of heap blocks.
fn findings() -> TestProgram {
    TestProgram::built("layout/findings.c", &["-Wno-use-after-free"])
}

#[test]
fn findings_name_fields_of_blocks() {
    let recording = findings().record_by("translate");
    let ask = |command: &str| {
        let outcome = recording.trace.ask(command, &["--json"]);
        assert_eq!(outcome.status, 0, "{command}: {}", outcome.err());
        serde_json::from_slice::<Value>(&outcome.stdout).expect("JSON")
    };
    let ends = |value: &Value, end: &str| value.as_str().is_some_and(|text| text.ends_with(end));
    let errors = ask("errors");
    let stale = named(errors.as_array().expect("an array"), "kind", "use_after_free");
    assert_eq!((&stale["type"], &stale["field"]), (&"cell".into(), &"cell.alive".into()), "{stale:#}");
    assert!(ends(&stale["name"], ".alive") && stale["conflicts"] == serde_json::json!([]), "{stale:#}");
    let text = recording.trace.ask("errors", &[]).out();
    assert!(text.contains("of a block of 40 that was released (`cell.alive`)"), "{text}");
    assert!(
        text.contains("32 bytes in 1 block of token (agreed by 61 %, others say value 39 %), allocated"),
        "{text}"
    );
    let merged = ask("determinism");
    let conflicts: Vec<&Value> = merged["regions"]
        .as_array()
        .expect("an array")
        .iter()
        .filter(|region| region["rolls_back"]["byte"] == true)
        .collect();
    let [second] = conflicts.as_slice() else { panic!("{merged:#}") };
    assert!(ends(&second["variable"], ".births"), "{second:#}");
}

#[test]
fn watched_blocks_have_fields() {
    for tracer in ["protect", "translate"] {
        let mut command = std::process::Command::new(e2e::memtap());
        command.args(["watch", "--json", "--tracer", tracer, "--write", "malloc@make", "--"]);
        let outcome = e2e::run(command.args(findings().command_line()), b"");
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let hits: Vec<Value> = outcome
            .err()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        let mut fields: Vec<&str> = hits
            .iter()
            .map(|hit| hit["variable"].as_str().expect("a name"))
            .map(|name| name.split_once("+").expect("a forged name").1)
            .map(|name| name.split_once('>').expect("a forged name").1)
            .collect();
        fields.sort();
        assert_eq!(fields, [".age", ".alive", ".births", ".births", ".births"], "{tracer}: {hits:#?}");
    }
}

#[test]
fn types_that_accesses_disagree_on_are_told_with_their_shares() {
    let recording = findings().record_by("translate");
    let expect = serde_json::json!([{ "type": "value", "share": 0.39 }]);
    assert_eq!(named(&layouts(&recording), "type", "token")["conflicts"], expect);
    assert_eq!(named(&rows(&recording, "type"), "name", "token")["conflicts"], expect);
    let fields = rows(&recording, "field");
    for field in ["token.line", "token.kind", "token.start"] {
        let row = fields.iter().find(|row| row["name"] == field);
        assert!(row.is_none_or(|row| row["conflicts"] == expect), "{row:#?}");
    }
    assert!(named(&fields, "name", "cell.births").get("conflicts").is_none(), "{fields:#?}");
    for by in ["type", "field"] {
        let text = recording.trace.ask("report", &["--by", by, "--wide"]).out();
        assert!(text.contains("(agreed by 61 %, others say value 39 %)"), "{text}");
    }
}

#[test]
fn boxes_in_a_vector_of_rust() {
    for level in ["-Copt-level=1", "-Copt-level=2", "-Copt-level=3"] {
        let recording = TestProgram::built("layout/particles.rs", &[level]).record_by("translate");
        let all = layouts(&recording);
        let particle = named(&all, "type", "Particle");
        assert_eq!((&particle["bytes"], &particle["blocks"]), (&40.into(), &30.into()), "{level}");
        let id = used(particle, "id");
        assert!(id.0 == 30 && id.1 >= 1, "{level}: {id:?}");
        let vel = used(particle, "vel");
        assert!(vel.0 >= 300 && vel.1 >= 30, "{level}: {vel:?}");
    }
}

/// A type's blocks, and how often fields of it are read, whatever the level of optimisation.
fn check_reads(all: &[Value], type_: &str, blocks: u64, reads: &[(&str, u64)], level: &str) {
    let layout = named(all, "type", type_);
    assert_eq!(layout["blocks"], blocks, "{level}: {layout:#}");
    assert!(layout["confidence"].as_f64() > Some(0.99), "{level}: {layout:#}");
    for (field, expect) in reads {
        assert_eq!(used(layout, field).0, *expect, "{level}: {type_}.{field}");
    }
}

#[test]
fn containers_and_classes_of_cpp() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let all = layouts(&TestProgram::built("layout/containers.cpp", &[level]).record_by("translate"));
        let check =
            |type_: &str, blocks, reads: &[(&str, u64)]| check_reads(&all, type_, blocks, reads, level);
        let node = "_Rb_tree_node<std::pair<int const, Account> >";
        check(node, 50, &[("_M_storage._M_storage.second.balance", 20 * 50)]);
        let node = "_Hash_node<std::pair<long int const, Account>, false>";
        check(node, 40, &[("_M_storage._M_storage.second.visits", 5 * 40)]);
        check("Point", 1, &[("weight", 10 * 60), ("x", 0)]);
        check("Circle", 5, &[("radius", 10 * 5), ("id", 5)]);
        check("Square", 5, &[("side", 10 * 5), ("id", 5), ("unused", 0)]);
        // Bases and what is built in nodes do not count apart.
        let apart = ["_Rb_tree_node_base", "_Hash_node_base", "Shape", "Account"];
        let is_apart = |one: &&Value| one["type"].as_str().is_some_and(|name| apart.contains(&name));
        assert_eq!(all.iter().find(is_apart), None, "{level}");
    }
}

#[test]
fn boxes_lists_and_maps_of_rust() {
    for level in ["0", "1", "2", "3"] {
        let flag = format!("-Copt-level={level}");
        let all = layouts(&TestProgram::built("layout/collections.rs", &[&flag]).record_by("translate"));
        let check =
            |type_: &str, blocks, reads: &[(&str, u64)]| check_reads(&all, type_, blocks, reads, level);
        check("Particle", 30, &[("pos", 600), ("vel", 600), ("id", 30)]);
        check("Cell", 1, &[("alive", 500), ("age", 500)]);
        check("Node", 40, &[("value", 10 * 40)]);
        if level != "0" {
            let shared = "RcInner<core::cell::RefCell<collections::Account>>";
            check(shared, 20, &[("value.value.value.balance", 200), ("value.value.value.visits", 201)]);
            assert_eq!(named(&all, "type", "(u64, collections::Account)")["blocks"], 1, "{level}");
        }
    }
}

#[test]
fn vectors_that_grew_and_objects_of_a_trait() {
    for level in ["1", "2", "3"] {
        let flag = format!("-Copt-level={level}");
        let all = layouts(&TestProgram::built("layout/shapes.rs", &[&flag]).record_by("translate"));
        let reads = |type_: &str, field: &str| used(named(&all, "type", type_), field).0;
        assert_eq!((reads("Item", "price"), reads("Item", "count")), (10_000, 10_000), "{level}");
        assert_eq!((reads("Item", "flags"), reads("Item", "kind")), (2000, 10_000), "{level}");
        check_reads(&all, "Circle", 20, &[("radius", 200), ("id", 0)], level);
        check_reads(&all, "Square", 20, &[("side", 200), ("id", 0), ("hits", 0)], level);
        assert_eq!((reads("Event", "Key.code"), reads("Event", "Move.y")), (1000, 1000), "{level}");
        assert_eq!(reads("Event", "Key.at|Move.x"), 2000, "{level}");
    }
}

#[test]
fn accesses_of_several_fields_count_to_each() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let recording = TestProgram::built("layout/merged.c", &[level]).record_by("translate");
        let all = layouts(&recording);
        let point = named(&all, "type", "point");
        assert_eq!((&point["blocks"], &point["complete"]), (&10.into(), &true.into()), "{level}: {point:#}");
        let expect = [("x", 1000, 1000), ("y", 1000, 1000), ("z", 1000, 0), ("w", 1000, 0)];
        for (field, reads, writes) in expect {
            assert_eq!(used(point, field), (reads, writes), "{level}: {field}");
        }
        assert_eq!((used(point, "kind"), used(point, "unused")), ((0, 10), (0, 0)), "{level}");
        let label = named(point["fields"].as_array().expect("fields"), "name", "label");
        assert_eq!((used(point, "label"), &label["block_writes"]), ((0, 0), &10.into()), "{level}");
        let text = recording.trace.ask("layout", &["--type", "point"]).out();
        for (field, note) in
            [("kind", "(never read)"), ("unused", "(never used)"), ("label", "(by block operations)")]
        {
            let row = text.lines().find(|line| line.contains(&format!("  {field}  ")));
            assert!(row.is_some_and(|row| row.ends_with(note)), "{level}: {text}");
        }
        // The same of heap blocks and of static variables, by another command.
        let fields = rows(&recording, "field");
        let reads = |name: &str| {
            let row = named(&fields, "name", name);
            ["loads", "modifies"].iter().filter_map(|key| row[*key].as_u64()).sum::<u64>()
        };
        assert_eq!((reads("point.y"), reads("point.w")), (1000, 1000), "{level}");
        assert_eq!((reads("total.up"), reads("total.down")), (100, 101), "{level}");
        // Totals count each access once, and so does a function that touches several fields by one.
        let line = |by: &str, name: &str| {
            let text = recording.trace.ask("report", &["--by", by, "--wide", "--all"]).out();
            let is_of =
                |line: &&str| line.trim_end().ends_with(name) || line.contains(&format!("  {name}  ("));
            let line = text.lines().find(is_of).unwrap_or_else(|| panic!("{level}: no {name} in {text}"));
            line.chars().filter(char::is_ascii_digit).collect::<String>()
        };
        let figures = |of: &Value| format!("{}{}", of["loads"], of["stores"]);
        let stat = recording.trace.stat();
        assert!(line("field", "total").contains(&figures(&stat)), "{level}");
        assert!(line("function,field", "total").contains(&figures(&stat)), "{level}");
        let functions = rows(&recording, "function");
        let alone = figures(named(&functions, "name", "move"));
        assert!(line("function,field", "move").contains(&alone), "{level}: {alone}");
    }
}

#[test]
fn fields_of_a_part_of_a_run_are_not_called_unused() {
    let program = TestProgram::built("layout/merged.c", &["-O2"]);
    let recording = program.record_with("translate", &["--stop", "add"]);
    let text = recording.trace.ask("layout", &["--type", "point"]).out();
    assert!(text.contains("(not seen)") && !text.contains("never"), "{text}");
}

#[test]
fn unions_headers_and_trailing_arrays_of_objects_in_c() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let all = layouts(&TestProgram::built("layout/objects.c", &[level]).record_by("translate"));
        let slot = named(&all, "type", "slot");
        assert_eq!(used(slot, "value"), (6400, 6400), "{level}");
        assert_eq!(used(slot, "tag").1, 6400, "{level}");
        // Who reads `slot.value` and who reads `entry.value` reads the same bytes.
        let node = named(&all, "type", "node");
        assert_eq!(used(node, "entry.value|slot.value"), (200, 200), "{level}");
        assert_eq!(used(node, "entry.tag|slot.tag").1, 200, "{level}");
        assert_eq!(
            (used(node, "entry.key_tag"), used(node, "entry.key")),
            ((200, 200), (200, 200)),
            "{level}"
        );
        assert_eq!(used(node, "entry.unused"), (0, 0), "{level}");
        // All that is known of an object by those who walk the list is its header.
        let string = named(&all, "type", "string");
        assert_eq!((&string["blocks"], &string["objects"]), (&2.into(), &2.into()), "{level}");
        assert_eq!(string["conflicts"], serde_json::json!([]), "{level}");
        assert_eq!(used(string, "next").0, 200, "{level}");
        assert_eq!((used(string, "marked").1, used(string, "hash").0), (202, 400), "{level}");
        let table = named(&all, "type", "table");
        assert_eq!((&table["blocks"], &table["conflicts"]), (&1.into(), &serde_json::json!([])), "{level}");
    }
}

/// A member that is a structure is one field; what reads two of its members reads it once.
#[test]
fn flat_layouts_have_members_alone() {
    for level in ["-O0", "-O2"] {
        let recording = TestProgram::built("layout/nested.c", &[level]).record_by("translate");
        let deep = layouts(&recording);
        let body = named(&deep, "type", "body");
        assert_eq!((used(body, "at.x"), used(body, "at.y")), ((2000, 1001), (1000, 1)), "{level}");
        let outcome = recording.trace.ask("layout", &["--flat", "--json"]);
        let flat: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
        let body = named(&flat, "type", "body");
        assert_eq!((used(body, "at"), used(body, "id")), ((2000, 1002), (1, 1)), "{level}");
        assert_eq!(body["fields"].as_array().map(Vec::len), Some(2), "{level}: {body:#}");
    }
}

#[test]
fn blocks_are_what_the_code_that_allocates_them_was_made_for() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let all = layouts(&TestProgram::built("layout/game.cpp", &[level]).record_by("translate"));
        check_reads(&all, "Player", 20, &[("gold", 2000), ("rank", 0)], level);
        check_reads(&all, "Session", 20, &[("hits", 2000), ("misses", 0), ("level", 2000)], level);
        let is_shared = |one: &&Value| {
            one["type"].as_str().is_some_and(|name| name.starts_with("_Sp_counted_ptr_inplace<Item,"))
        };
        let shared = all.iter().find(is_shared).unwrap_or_else(|| panic!("{level}: {all:#?}"));
        assert!(shared["confidence"].as_f64() > Some(0.99), "{level}: {shared:#}");
        let fields = shared["fields"].as_array().expect("fields").iter();
        let ends = |end: &str| {
            fields.clone().find(|one| one["name"].as_str().is_some_and(|name| name.ends_with(end)))
        };
        for (end, reads) in [(".count", 2000), (".weight", 0)] {
            assert_eq!(ends(end).map(|field| &field["loads"]), Some(&reads.into()), "{level}: {shared:#}");
        }
    }
    for level in ["1", "2", "3"] {
        let flag = format!("-Copt-level={level}");
        let all = layouts(&TestProgram::built("layout/bank.rs", &[&flag]).record_by("translate"));
        // The map's control bytes are no entries.
        check_reads(&all, "(u64, bank::Account)", 1, &[("1.balance", 3000), ("1.flags", 0)], level);
        assert_eq!(named(&all, "type", "(u64, bank::Account)")["objects"], 128, "{level}");
        let shared = "RcInner<core::cell::RefCell<bank::Account>>";
        check_reads(&all, shared, 40, &[("value.value.value.balance", 4000)], level);
        let transfer = named(&all, "type", "Transfer");
        assert_eq!((used(transfer, "amount").0, used(transfer, "day").0), (3000, 0), "{level}");
        let is_inner = |one: &&Value| {
            one["type"].as_str().is_some_and(|name| name.contains("InternalNode<u64, bank::Account>"))
        };
        assert_eq!(all.iter().find(is_inner).map(|one| &one["blocks"]), Some(&1.into()), "{level}");
    }
}

#[test]
fn code_without_debug_information_has_no_types() {
    let recording = TestProgram::built("layout/cells.c", &["-g0"]).record_by("translate");
    let outcome = recording.trace.ask("layout", &["--json"]);
    assert_eq!((outcome.status, outcome.out().trim()), (0, "[]"));
    assert!(outcome.err().contains("no debug information"), "{}", outcome.err());
    let empty = e2e::record(&[], &[tool("true").display().to_string()], b"");
    assert_eq!(empty.trace.ask("layout", &[]).status, 0);
}

/// Particles in an array of each kind of memory: the heap's are counted apart from those in variables.
#[test]
fn variables_have_a_table_of_their_own() {
    for level in ["-O0", "-O2"] {
        let recording = TestProgram::built("report/particles.c", &[level, "-pthread"]).record_by("translate");
        let all = layouts(&recording);
        let tables: Vec<&Value> = all.iter().filter(|one| one["type"] == "particle").collect();
        let [variables, blocks] = tables[..] else { panic!("{level}: {all:#?}") };
        assert_eq!((&blocks["blocks"], &blocks["objects"]), (&1.into(), &30.into()), "{level}");
        assert_eq!(
            (used(blocks, "place"), used(blocks, "alive"), used(blocks, "id")),
            ((0, 30), (30, 0), (0, 0))
        );
        assert_eq!((&blocks["variables"], &blocks["complete"]), (&0.into(), &true.into()), "{level}");
        // 50 in a static array, 20 in one of main's, 10 in a thread's.
        assert_eq!((&variables["blocks"], &variables["objects"]), (&0.into(), &80.into()), "{level}");
        assert_eq!((&variables["variables"], &variables["complete"]), (&3.into(), &false.into()), "{level}");
        assert_eq!(used(variables, "place"), (0, 80), "{level}");
        assert_eq!((used(variables, "alive"), used(variables, "id")), ((80, 30), (0, 10)), "{level}");
        let text = recording.trace.ask("layout", &["--type", "particle"]);
        assert!(text.out().contains("particle: 16 bytes, 80 in 3 variables, 200 accesses"), "{}", text.out());
        assert!(text.err().contains("200 accesses to static and local variables"), "{}", text.err());
    }
}

/// Variables of different blocks, and of functions made part of another, share their place in its frame.
const SHARED_PLACES: &str = r#"
struct first { volatile long a, b[7]; };
struct second { volatile long c[8]; };
static inline __attribute__((always_inline)) long one(int n)
{
    struct first first;
    for (int i = 0; i < n; i++)
        first.a = i, first.b[3] = i;
    return first.a;
}
static inline __attribute__((always_inline)) long other(int n)
{
    struct second second;
    for (int i = 0; i < n; i++)
        second.c[0] = i;
    return second.c[0];
}
__attribute__((noipa)) static long all(int n)
{
    long sum = one(10 + n) + other(100 + n);
    {
        struct first again;
        again.b[0] = n;
        sum += again.b[0];
    }
    return sum;
}
int main(int argc, char **argv)
{
    return all(argc) != 110 + 1;
}
"#;

#[test]
fn variables_that_share_a_place_are_told_apart() {
    for level in ["-O0", "-O1", "-O2"] {
        let program = TestProgram::from_source("shared_places.c", SHARED_PLACES, &[level]);
        let all = layouts(&e2e::record(&[], &program.command_line(), b""));
        let (first, second) = (named(&all, "type", "first"), named(&all, "type", "second"));
        assert_eq!((used(first, "a"), used(first, "b")), ((1, 11), (1, 12)), "{level}: {first:#}");
        assert_eq!(used(second, "c"), (1, 101), "{level}: {second:#}");
    }
}
