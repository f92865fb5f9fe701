//! `tracemill record` of chosen calls and of values: as uftrace records them.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use recorded::*;
use util::Folder;

#[test]
fn calls_are_selected_as_uftrace_does() {
    let folder = Folder::new();
    // The number of calls of `leaf` that are left.
    let cases = [
        ("-F busy", 30, true),
        ("-N busy", 15, true),
        ("-F busy -N both", 24, true),
        ("-C leaf", 45, true),
        ("-C both", 0, true),
        ("-D 2", 0, true),
        ("-F busy -D 2", 0, true),
        ("-T busy@depth=1", 15, true),
        ("-T both@depth=1", 37, true),
        ("--match glob -N b*", 13, true),
        ("-F ^(all|deep)$", 42, true),
        ("-F all -T busy@notrace", 8, true),
        ("-F deep -D 2", 30, true),
        ("-F all@depth=2", 2, true),
        ("-T off@trace_off -T on@trace_on", 41, true),
        ("--disable -T on@trace_on", 33, true),
        ("-T on@finish", 12, true),
        ("-t 5ms -T deep@trace", 0, true),
        ("-t 5ms", 0, true),
        // With calls to libraries, uftrace guesses ends after them too late.
        ("-e --no-libcall", 45, true),
        // Sizes are the compiler's matter.
        ("-Z 30", 45, false),
        ("-T busy@size=30", 45, false),
    ];
    let has_uftrace = is_there("uftrace");
    for way in WAYS {
        let flags = format!("-O1 -fno-inline -fno-optimize-sibling-calls {way}");
        let Some(_) = compile(&folder, "selected.c", &flags, "program") else { return };
        for (options, leaves, is_known) in cases {
            let what = format!("{way}: {options}");
            // A machine that stops for some ms makes long calls of short ones, though not each time.
            let mut tries = if options.starts_with("-t") { 50 } else { 1 };
            loop {
                let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
                let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
                assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{what}");
                let found = if is_known { entries(&folder, "leaf") } else { leaves };
                let nestings = has_uftrace.then(|| {
                    let mut theirs = Command::new("uftrace");
                    theirs.args(["record", "--no-event", "-d", "u"]).args(options.split(' '));
                    let output = theirs.arg("./program").current_dir(folder.path("")).output().expect("it runs");
                    assert!(output.status.success(), "{what}");
                    [nesting(&folder, "o"), nesting(&folder, "u")]
                });
                let is_same = found == leaves && nestings.as_ref().is_none_or(|[ours, theirs]| ours == theirs);
                tries -= 1;
                assert!(is_same || tries > 0, "{what}: {found} of {leaves} leaves, {nestings:#?}");
                if is_same {
                    break;
                }
            }
            if !has_uftrace {
                continue;
            }
            // Ends without a beginning are reported.
            if !options.starts_with("--disable") {
                is_read_alike(&folder, &["replay", "graph", "dump"], &what);
            }
        }
    }
    // uftrace 0.13 takes what follows it for the program.
    folder.run("record -o o --trace=off -T on@trace_on ./program").ends(0, &[]);
    assert_eq!(entries(&folder, "leaf"), 33);
    folder.run("record -o r -T leaf@read=proc/statm ./program").ends(125, &["no counters are read"]);
    folder.run("record -o r -H leaf ./program").ends(125, &["`replay -H` hides them"]);
    folder.run("record -o r -N nothing ./program").ends(0, &["`!nothing` matches no function"]);
}

/// Functions of other files are left out, and what they call is not.
#[test]
fn files_are_selected_as_uftrace_does() {
    let folder = Folder::new();
    for way in WAYS {
        let flags = format!("{way} -g -O1 -fno-inline -fno-optimize-sibling-calls");
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/files.h");
        fs::copy(header, folder.path("files.h")).expect("a copy");
        let Some(_) = compile(&folder, "files.c", &flags, "program") else { return };
        let cases = [
            ("-L files.c", "main { amid { aleaf; aleaf; } amid { aleaf; aleaf; } aleaf; } "),
            ("-L files.h", "bmid { bleaf; } bleaf; bmid { bleaf; } bleaf; bmid { bleaf; } "),
            ("-L files.c@hide", "bmid { bleaf; } bleaf; bmid { bleaf; } bleaf; bmid { bleaf; } "),
            ("-L files.c -D 2", "main { amid; amid; aleaf; } "),
            ("-L files.c -t 1ns", "main { amid { aleaf; aleaf; } amid { aleaf; aleaf; } aleaf; } "),
        ];
        // uftrace goes on to leave out what stands after.
        let own = [
            ("-L files.c -N bmid", "main { amid { aleaf; } amid { aleaf; } } "),
            ("-L files.h -N bleaf -N amid", "bmid; "),
        ];
        for (at, (options, calls)) in cases.into_iter().chain(own).enumerate() {
            let arguments: Vec<_> =
                ["record", "--no-libcall", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}: {options}");
            let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
            let text = String::from_utf8_lossy(&replay.stdout).replace("()", "");
            let words: String = text.split_whitespace().flat_map(|word| [word, " "]).collect();
            assert_eq!(words, calls, "{way}: {options}");
            is_read_alike(&folder, &["replay", "graph", "dump"], options);
            if at < cases.len() && is_there("uftrace") {
                let mut theirs = Command::new("uftrace");
                theirs.args(["record", "--no-libcall", "--no-event", "-d", "u"]).args(options.split(' '));
                theirs.arg("./program").current_dir(folder.path("")).output().expect("it runs");
                assert_eq!(nesting(&folder, "o"), nesting(&folder, "u"), "{way}: {options}");
            }
        }
    }
    folder.run("record -o r -L nowhere.c ./program").ends(0, &["`nowhere.c` matches no function"]);
}

#[test]
fn values_are_those_that_uftrace_records() {
    let folder = Folder::new();
    let lists: [&[&str]; 4] = [
        &[
            "-A",
            "ten@arg1/i32,arg2/i32,arg3/u32,arg7/i32,arg8/x32,arg9/i32,arg10/u32",
            "-A",
            "floats@fparg1/32,fparg2,fparg8",
            "-A",
            "text@arg1/s,arg2/c;half@fparg1/32;address@arg1/p;narrow@arg1/i16,arg2/u8",
            "-A",
            "mixed@arg1/i32,fparg1,arg2/s,fparg2/64,arg3",
            "-A",
            "length@arg1/S;Thing::get@arg2/i32;again@arg1%rdi",
            "-R",
            "text@retval/s;ten@retval/i32;half@retval/f32;address@retval/x",
            "-R",
            "narrow@retval/i16;Thing::get@retval/i32",
        ],
        // Functions of the standard library may be shorter than a step of the clock.
        &["-A", "te@arg1/s", "-A", "^ten@arg2/i32", "-R", "ai@retval/i32", "-N", "^std::", "-t", "1ns"],
        &["--match", "glob", "-A", "*t*@arg1/x8", "-F", "te*", "-b", "4K"],
        &["-A", "wide@fparg1/80%stack+1", "-R", "wide@retval/f80"],
    ];
    for way in ["-pg -O0", "-pg -mfentry -O1 -fno-inline -fno-ipa-cp -fno-ipa-sra"] {
        let Some(_) = compile(&folder, "arguments.cc", way, "program") else { return };
        for (at, list) in lists.iter().enumerate() {
            let traced = ours(&folder, &[&["record", "--no-libcall", "-o", "o"], *list, &["./program"]].concat());
            assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{way}: {list:?}");
            let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
            let text = String::from_utf8_lossy(&replay.stdout).into_owned();
            if at == 0 && way.ends_with("-O0") {
                for call in [
                    "ten(1, -2, 3, 7, 0x8, -9, 10) = -19;",
                    "floats(1.500000, 2.250000, 8.500000);",
                    "text(\"hello\", 'c') = \"ello\";",
                    "text(\"<0x10>\", 'c') = \"NULL\";",
                    "narrow(-3, 200) = -203;",
                    "mixed(1, 2.500000, \"abc\", 3.500000, 0x10000000000);",
                    "length(\"short\"s);",
                ] {
                    assert!(text.contains(call), "{call}: {text}");
                }
            }
            // Floats of 80 bits end uftrace's `dump`.
            is_read_alike(&folder, if at == 3 { &["replay"] } else { &["replay", "report", "graph", "dump"] }, way);
            if !is_there("uftrace") {
                continue;
            }
            let mut theirs = Command::new("uftrace");
            theirs.args(["record", "--no-libcall", "--no-event", "-d", "u"]).args(*list).arg("./program");
            assert!(theirs.current_dir(folder.path("")).output().expect("it runs").status.success(), "{list:?}");
            assert_eq!(nesting(&folder, "o"), nesting(&folder, "u"), "{way}: {list:?}");
        }
    }
    let registers = ["text@arg1%rax", "text@arg1/t24", "text@arg6/t16", "text@arg1/t17%rdi", "text@arg1/t8%rdi+rsi"];
    for wrong in ["text@", "text@arg1/q", "text@arg1/o", "text@arg0", "text@retval"].iter().chain(&registers) {
        let output = ours(&folder, &["record", "-o", "r", "-A", wrong, "./program"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(125) && message.contains("names no value"), "{wrong}: {message}");
    }
}

#[test]
fn types_come_from_debugging_information() {
    let folder = Folder::new();
    for way in ["-pg", "-pg -mfentry"] {
        let flags = format!("{way} -g -O0");
        let Some(_) = compile(&folder, "types.cc", &flags, "program") else { return };
        let traced = ours(&folder, &["record", "--no-libcall", "-o", "o", "-a", "--srcline", "./program"]);
        assert_eq!((traced.status.code(), &*String::from_utf8_lossy(&traced.stderr)), (Some(0), ""), "{way}");
        is_read_alike(&folder, &["replay", "report", "graph"], way);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        let known = [
            "many(-1, -2, 200, 1, -5, 6, 7, -8) = 198;",
            "floats(1.500000, 2.000000, 3.000000, 4.000000, 5.000000, 6.000000, 7.000000, 8.000000, 9.500000) = 46.000000;",
            "wide(1, 2.500000, 3.500000, 4.500000, \"e\") = 112.500000;",
            "next(RED, 1) = GREEN;",
            "next(BLUE, 0) = BLUE;",
            "text(\"name\", 'y') = \"name\";",
            "text(\"name\", 'x') = \"NULL\";",
            "is_even(4) = 1;",
            "narrow(-7) = -8;",
            "nothing();",
            "by_value(1, Pair{...}, 4) = 10;",
            "large(7) = Large{...};",
            "in_memory(Large{...}, 4) = 7;",
            "by_reference(Owner{...}, 6) = 11;",
            "made(12) {",
            "} = Owner{...};",
            "moved(Movable{...}, 13) {",
            "joined(\"one\"s, 2) {",
            "through(1, {...}, 1) = 2;",
            "size(\"text\"s, 1) = 5;",
            "call(&twice, 21) {",
            "twice(21) = 42;",
            "half(3.000000) = 1.500000;",
        ];
        for call in known {
            assert!(text.contains(call), "{call}: {text}");
        }
        let lines = ours(&folder, &["replay", "-d", "o", "-f", "none", "--srcline", "-F", "nothing"]);
        let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
        assert!(lines.contains("types.cc:30"), "{lines}");
        // A specification by name wins over those of `--auto-args`, and the rest is as before.
        ours(&folder, &["record", "--no-libcall", "-o", "o", "--auto-args", "-A", "twice@arg1/x", "./program"]);
        is_read_alike(&folder, &["replay", "report"], way);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        assert!(text.contains("twice(0x15)") && text.contains("half(3.000000)"), "{text}");
    }
    // Of functions that are named without values, alone or with some; uftrace records the same.
    let lists = [
        (["-A", "twice", "-R", "twice;half"], ["twice(21) = 42;", "half() = 1.500000;", "narrow();"]),
        (
            ["-A", "narrow;^t;half@fparg1/32", "-R", "twice@retval/x"],
            ["twice(21) = 0x2a;", "half(3.000000);", "narrow(-7);"],
        ),
    ];
    for (list, wanted) in lists {
        let traced = ours(&folder, &[&["record", "--no-libcall", "-o", "o"], &list[..], &["./program"]].concat());
        assert_eq!((traced.status.code(), &*String::from_utf8_lossy(&traced.stderr)), (Some(0), ""), "{list:?}");
        is_read_alike(&folder, &["replay", "report", "graph"], list[1]);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        wanted.iter().for_each(|call| assert!(text.contains(call), "{list:?}: {call}: {text}"));
    }
    // Without debugging information nothing is known.
    compile(&folder, "types.cc", "-pg", "program");
    folder.run("record -o o -A twice ./program").ends(0, &[]);
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "a name without types");
    folder.run("record -o o -a ./program").ends(0, &[]);
    is_read_alike(&folder, &["replay", "report", "graph", "dump"], "without types");
}

#[test]
fn values_of_well_known_functions_are_those_that_uftrace_records() {
    let folder = Folder::new();
    if compile(&folder, "known.c", "-O0 -fno-builtin -pg", "program").is_none() || !is_there("uftrace") {
        return;
    }
    ours(&folder, &["record", "-a", "-o", "o", "./program"]);
    is_read_alike(&folder, &["replay", "report", "dump"], "well-known functions");
    // An event of the scheduler in a call would keep it from being one line, and comes when the machine is busy.
    let options = ["record", "-a", "--no-event", "-d", "t", "./program"];
    let theirs = Command::new("uftrace").args(options).current_dir(folder.path("")).output();
    assert!(theirs.is_ok_and(|output| output.status.success()));
    let calls = |data: &str| -> Vec<String> {
        let replay = ours(&folder, &["replay", "-d", data, "-f", "none", "--no-comment", "--no-event"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        // Addresses differ from run to run.
        let plain = |word: &str| {
            let at = word.find("0x").unwrap_or(word.len());
            let rest = word[at..].trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
            format!("{}{}{rest}", &word[..at], if at < word.len() { "POINTER" } else { "" })
        };
        text.lines().map(|line| line.split(' ').map(plain).collect::<Vec<_>>().join(" ")).collect()
    };
    let found = calls("o");
    assert_eq!(found, calls("t"));
    for call in
        ["malloc(10) = POINTER;", "realloc(POINTER, 50) = POINTER;", "calloc(3, 7) = POINTER;", "free(POINTER);"]
    {
        assert!(found.iter().any(|line| line.trim() == call), "{call}: {found:?}");
    }
    // A function that is named without values has those of its prototype.
    ours(&folder, &["record", "-A", "calloc", "-R", "calloc", "-o", "o", "./program"]);
    is_read_alike(&folder, &["replay"], "a well-known function");
    assert!(calls("o").iter().any(|line| line.trim() == "calloc(3, 7) = POINTER;"));
}

/// The bytes of values of structures in a recording, by function and place: the number of an argument, or `r`.
fn structures(folder: &Folder, data: &str) -> BTreeMap<(String, String), String> {
    let dump = ours(folder, &["dump", "-d", data]);
    let (mut found, mut function, mut place) = (BTreeMap::new(), String::new(), None);
    for line in String::from_utf8_lossy(&dump.stdout).lines() {
        if let Some((_, call)) = line.split_once("[entry] ").or(line.split_once("[exit ] ")) {
            function = call.split('(').next().unwrap_or_default().to_string();
            place = None;
        } else if let Some((number, _)) =
            line.trim().strip_prefix("args[").and_then(|rest| rest.split_once("] struct "))
        {
            place = Some(number.to_string());
        } else if line.trim().starts_with("retval struct ") {
            place = Some("r".to_string());
        } else if let Some(place) = place.as_ref().filter(|_| line.starts_with('\t')) {
            let bytes: &mut String = found.entry((function.clone(), place.clone())).or_default();
            bytes.extend(line.split_whitespace());
        }
    }
    found
}

#[test]
fn structures_are_recorded_by_value() {
    let folder = Folder::new();
    // Where uftrace 0.13 has them right: on the stack.
    let on_stack =
        ["same_large 0", "same_wide 0", "many 5", "many 8", "many 9", "spilled 5", "spilled 7", "spilled_floats 7"];
    for way in ["-pg -O0", "-pg -mfentry -O1 -fno-inline -fno-ipa-cp -fno-ipa-sra"] {
        let Some(_) = compile(&folder, "structures.c", &format!("-g {way}"), "program") else { return };
        let traced = ours(&folder, &["record", "--no-libcall", "-o", "o", "-a", "-N", "^put$", "./program"]);
        assert_eq!((traced.status.code(), &*String::from_utf8_lossy(&traced.stderr)), (Some(0), ""), "{way}");
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], way);
        let recorded = structures(&folder, "o");
        let truth = String::from_utf8_lossy(&traced.stdout).into_owned();
        let truth: Vec<[&str; 3]> = truth
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>().try_into().expect("a function, a place and bytes"))
            .collect();
        assert_eq!(truth.len(), 52, "{way}");
        for [function, place, bytes] in &truth {
            let known = recorded.get(&(function.to_string(), place.to_string()));
            // The bytes after the 10 of an extended float have no meaning.
            let known = known.map(|known| &known[..bytes.len().min(known.len())]);
            assert_eq!(known, Some(*bytes), "{way}: {function} {place}");
        }
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
        let text = String::from_utf8_lossy(&replay.stdout).into_owned();
        let known = [
            "most(longest{...}) = 0;",
            // More than uftrace records.
            "more() = 1;",
            "same_unnamed(unnamed{...}) = unnamed{...};",
            "many(1, point{...}, pair{...}, 6.500000, mixed{...}, large{...}, doubles{...}, 14, pair{...}, point{...}) = 21;",
            "spilled(1, 2, 3, 4, 5, pair{...}, 8, wide{...}, small{...}) = 23;",
            "spilled_floats(1.000000, 2.000000, 3.000000, 4.000000, 5.000000, 6.000000, 7.000000, doubles{...}, 10.000000) = 38;",
            "odd(1, 2, 3, 4, 5, 6, 7, fixed{...}, 9, large{...}) = 37;",
            "unknown(1, 2, 3, 4, 5, 6, 7) = 45;",
        ];
        known.iter().for_each(|call| assert!(text.contains(call), "{way}: {call}: {text}"));
        if is_there("uftrace") {
            let mut theirs = Command::new("uftrace");
            theirs.args(["record", "--no-libcall", "--no-event", "-d", "u", "-a", "-N", "^put$", "./program"]);
            assert!(theirs.current_dir(folder.path("")).output().expect("it runs").status.success(), "{way}");
            let theirs = structures(&folder, "u");
            for name in on_stack {
                let (function, place) = name.split_once(' ').expect("two words");
                let key = (function.to_string(), place.to_string());
                let [.., known] =
                    truth.iter().find(|[of, at, _]| (*of, *at) == (function, place)).expect("it was called");
                assert!(theirs[&key].starts_with(known), "{way}: {name}: {}", theirs[&key]);
            }
        }
        // Named by hand, in registers and on the stack.
        let arguments =
            "same_pair@arg1/t16;same_turned@arg1/t16:turned%xmm0+rdi;spilled@arg6/t16%stack+1,arg8/t16%stack+3";
        let results =
            "same_pair@retval/t16;same_large@retval/t24;same_mixed@retval/t16%int+float;same_wide@retval/t16%long";
        let listed = ours(&folder, &["record", "--no-libcall", "-o", "o", "-A", arguments, "-R", results, "./program"]);
        assert_eq!(String::from_utf8_lossy(&listed.stderr), "", "{way}");
        is_read_alike(&folder, &["replay", "report", "graph", "dump"], way);
        let named = structures(&folder, "o");
        assert_eq!(named.len(), 8, "{way}: {named:?}");
        for ((function, place), bytes) in named {
            // The second one that is named is the eighth argument.
            let place = match (&*function, &*place) {
                ("spilled", "0") => "5",
                ("spilled", "1") => "7",
                (_, place) => place,
            };
            let [.., known] =
                truth.iter().find(|[of, at, _]| (*of, *at) == (&*function, place)).expect("it was called");
            assert!(bytes.starts_with(known), "{way}: {function} {place}: {bytes}");
        }
    }
}

#[test]
fn entries_are_patched() {
    let folder = Folder::new();
    let levels = "-O1 -fno-inline -fno-optimize-sibling-calls";
    let ways = ["=5", "=5 -fcf-protection -no-pie", "=9", "=5 -fcf-protection -fPIE -pie"];
    for way in ways {
        let flags = format!("{levels} -fpatchable-function-entry{way}");
        let Some(_) = compile(&folder, "selected.c", &flags, "program") else { return };
        let cases =
            [("-P .", 45), ("-P ^.*[fn]$ -U on", 45), ("-P . -U leaf", 0), ("-P . -N busy", 15), ("-P . -e", 45)];
        for (options, leaves) in cases {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let output = ours(&folder, &[&arguments[..], &["./program"]].concat());
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{way}: {options}");
            assert_eq!(entries(&folder, "leaf"), leaves, "{way}: {options}");
            assert_eq!(entries(&folder, "on"), if options.contains("-U on") { 0 } else { 3 }, "{way}: {options}");
            is_read_alike(&folder, &["replay", "report", "graph", "dump"], options);
        }
    }
    if is_there("clang") {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/selected.c");
        for room in [5, 6, 7, 8, 9, 11, 16] {
            let mut clang = Command::new("clang");
            clang.args(["-O1", "-fno-inline", "-o"]).arg(folder.path("program")).arg(&source);
            clang.arg(format!("-fpatchable-function-entry={room}"));
            assert!(clang.output().expect("it runs").status.success());
            folder.run("record -o o -P . ./program").ends(0, &[]);
            assert_eq!((entries(&folder, "leaf"), entries(&folder, "on")), (45, 3), "{room}");
        }
    }
}

#[test]
fn selection_works_where_rings_are_small_and_threads_many() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(program) = compile(&folder, "threads.c", way, "program") else { return };
        let plain = Command::new(&program).current_dir(folder.path("")).output().expect("it runs");
        for options in ["-b 4K -t 1ns", "-b 4K -N main@depth=9", "-e -b 4K", "-C . -b 4K"] {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let traced = ours(&folder, &[&arguments[..], &["./program"]].concat());
            let what = format!("{way}: {options}");
            assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
            assert_eq!(traced.status.code(), plain.status.code(), "{what}");
        }
        let Some(program) = compile(&folder, "exceptions.cc", way, "program") else { return };
        let plain = Command::new(&program).current_dir(folder.path("")).output().expect("it runs");
        for options in ["-t 1us", "-F main", "-N nothing", "-e"] {
            let arguments: Vec<_> = ["record", "-o", "o"].into_iter().chain(options.split(' ')).collect();
            let traced = ours(&folder, &[&arguments[..], &["./program"]].concat());
            assert_eq!(traced.stdout, plain.stdout, "{way}: {options}");
            is_read_alike(&folder, &["replay", "graph", "dump"], options);
        }
    }
}
