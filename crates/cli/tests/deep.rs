//! Metadata whose types are nested deeply: read and converted up to a limit, refused beyond it, on any stack.

mod util;

use util::Folder;

/// A trace of CTF 1.8 with a byte inside so many structures.
fn structures(folder: &Folder, name: &str, levels: usize) {
    let (open, close) = ("struct { ".repeat(levels), "} x; ".repeat(levels));
    let metadata = format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }};\n\
         typealias integer {{ size = 8; align = 8; signed = false; }} := u8;\nstream {{ }};\n\
         event {{ name = e; id = 0; fields := struct {{ {open}u8 v; {close}}}; }};\n"
    );
    folder.file(&format!("{name}/metadata"), metadata).file(&format!("{name}/stream"), [7, 8]);
}

/// A trace of CTF 2 with a byte inside so many field classes, of all kinds that hold others.
fn field_classes(folder: &Folder, name: &str, levels: usize) {
    let byte = |kind: &str| format!(r#"{{"type":"{kind}","length":8,"byte-order":"little-endian"}}"#);
    let number = byte("fixed-length-unsigned-integer");
    let path =
        |name: &str| format!(r#""selector-field-location":{{"origin":"event-record-payload","path":["{name}"]}}"#);
    let class = (0..levels).fold(number.clone(), |inside, at| match at % 4 {
        0 => format!(r#"{{"type":"structure","member-classes":[{{"name":"x","field-class":{inside}}}]}}"#),
        1 => format!(r#"{{"type":"static-length-array","length":1,"element-field-class":{inside}}}"#),
        2 => format!(r#"{{"type":"optional",{},"field-class":{inside}}}"#, path("has")),
        _ => format!(
            r#"{{"type":"variant",{},"options":[{{"name":"o","selector-field-ranges":[[7,7]],"field-class":{inside}}}]}}"#,
            path("which")
        ),
    });
    let metadata = format!(
        "\u{1e}{{\"type\":\"preamble\",\"version\":2}}\n\u{1e}{{\"type\":\"data-stream-class\"}}\n\u{1e}{{\
         \"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[\
         {{\"name\":\"has\",\"field-class\":{}}},{{\"name\":\"which\",\"field-class\":{number}}},\
         {{\"name\":\"c\",\"field-class\":{class}}}]}}}}\n",
        byte("fixed-length-boolean")
    );
    folder.file(&format!("{name}/metadata"), metadata).file(&format!("{name}/stream"), [1, 7, 8]);
}

#[test]
fn types_are_read_a_thousand_levels_deep() {
    let folder = Folder::new();
    structures(&folder, "old", 990);
    field_classes(&folder, "new", 990);
    let events = folder.run("print old").ends(0, &[]).stdout;
    let braces = |count: usize| "x = { ".repeat(count);
    assert!(events.starts_with(&format!("e: {{ {}v = 7 ", braces(990))), "{events}");
    assert_eq!(events.lines().count(), 2);
    let lines = folder.run("print --format jsonl new").ends(0, &[]).stdout;
    assert!(lines.contains(r#""c":{"o":"#) || lines.contains(r#""c":{"x":"#) || lines.contains(r#""c":["#), "{lines}");
    for trace in ["old", "new"] {
        let events = folder.run(&format!("print {trace}")).ends(0, &[]).stdout;
        for command in ["info", "info --count", "check", "print --format csv", "print --filter id==0"] {
            folder.run(&format!("{command} {trace}")).ends(0, &[]);
        }
        for form in ["ctf2", "ctf2 --limit 9", "ctf2 --byte-order big"] {
            let to = format!("{trace}.{}", form.len());
            folder.run(&format!("convert -q --to {form} -o {to} {trace}")).ends(0, &[]);
            assert_eq!(folder.run(&format!("print {to}")).ends(0, &[]).stdout, events, "{form}");
        }
        if cfg!(feature = "columnar") {
            let run = folder.run(&format!("convert -q --to parquet -o {trace}.parquet {trace}"));
            run.ends(1, &["levels deep, tables hold up to 64"]);
        }
        for form in ["ctf1.8", "ctf1.6", "jsonl", "perfetto", "chrome", "cpel", "lttng-legacy"] {
            let run = folder.run(&format!("convert -q --to {form} -o {trace}.{form} {trace}"));
            // Some hold no such types; none ends in another way.
            assert!(matches!(run.code, Some(0 | 1 | 3)), "{form}: {:?} {}", run.code, run.stderr);
        }
    }
}

#[test]
fn deeper_types_are_refused_and_not_read_until_the_stack_ends() {
    let folder = Folder::new();
    for (levels, of_classes) in [(1_005, 1_005), (100_000, 4_000)] {
        structures(&folder, "old", levels);
        field_classes(&folder, "new", of_classes);
        folder.run("print old").ends(1, &["line 4, column", "nests more than 10"]);
        folder.run("print new").ends(1, &["line 3, column", "nested more than"]);
    }
}
