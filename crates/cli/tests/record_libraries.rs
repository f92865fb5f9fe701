//! `tracemill record` of calls to libraries: they are those of uftrace, and programs run as without it.
//!
//! Programs are compiled by gcc and g++. Without those, or without uftrace, what needs them is left out, and said so.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::fs;
use std::process::Command;

use recorded::*;
use util::Folder;

/// The forms of code through which functions of libraries are called.
const FORMS: [&str; 6] = [
    "-Wl,-z,lazy",
    "-Wl,-z,now",
    "-no-pie -Wl,-z,lazy",
    "-no-pie -Wl,-z,now",
    "-Wl,-z,ibtplt -Wl,-z,lazy -fcf-protection=full",
    "-fno-plt",
];

/// The calls that uftrace records with these options and arguments; `None` without uftrace.
fn of_uftrace(folder: &Folder, options: &str, arguments: &[&str]) -> Option<String> {
    let mut theirs = Command::new("uftrace");
    theirs.args(["record", "--no-event", "-d", "u"]).args(options.split_whitespace()).arg("./program").args(arguments);
    is_there("uftrace").then(|| {
        theirs.current_dir(folder.path("")).output().expect("it runs");
        nesting(folder, "u")
    })
}

/// The calls that are recorded here. The program does the same as without the recorder.
fn of_ours(folder: &Folder, options: &str, arguments: &[&str], what: &str) -> String {
    let plain = Command::new("./program").args(arguments).current_dir(folder.path("")).output().expect("it runs");
    let words = ["record", "-o", "o"].into_iter().chain(options.split_whitespace()).chain(["./program"]);
    let traced = ours(folder, &words.chain(arguments.iter().copied()).collect::<Vec<_>>());
    assert_eq!(String::from_utf8_lossy(&traced.stderr), "", "{what}");
    assert_eq!(String::from_utf8_lossy(&traced.stdout), String::from_utf8_lossy(&plain.stdout), "{what}");
    assert_eq!(traced.status.code(), plain.status.code(), "{what}");
    is_read_alike(folder, &["replay", "graph", "dump"], what);
    let replay = ours(folder, &["replay", "-d", "o", "-f", "none"]);
    String::from_utf8_lossy(&replay.stdout).into_owned()
}

/// The features that `info` names.
fn features(folder: &Folder, data: &str) -> u64 {
    let info = fs::read(folder.path(data).join("info")).expect("the file");
    info[16..24].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[test]
fn library_calls_are_those_of_uftrace() {
    let folder = Folder::new();
    for way in WAYS {
        for form in FORMS {
            for arguments in [&[][..], &["jump"]] {
                let what = format!("{way} {form} {arguments:?}");
                let flags = format!("-O1 -fno-builtin {way} {form}");
                let Some(_) = compile(&folder, "libraries.c", &flags, "program") else { return };
                let text = of_ours(&folder, "", arguments, &what);
                assert!(text.contains("plain() {\n    qsort() {\n      smaller();\n"), "{what}: {text}");
                assert!(text.contains("    strdup();\n    strlen();\n    printf();\n    free();\n"), "{what}: {text}");
                let end = "          longjmp() {\n      } /* _setjmp */\n      puts();\n    } /* outer */\n";
                assert_eq!(text.contains(end), !arguments.is_empty(), "{what}: {text}");
                // uftrace does not see calls without a table of code where there is one for others, as that of `-pg`.
                let has_theirs = form != "-fno-plt" || way == "-finstrument-functions";
                if let Some(theirs) = of_uftrace(&folder, "", arguments).filter(|_| has_theirs) {
                    assert_eq!(nesting(&folder, "o"), theirs, "{what}");
                    assert_eq!(features(&folder, "o"), features(&folder, "u"), "{what}");
                }
            }
        }
    }
}

#[test]
fn library_calls_are_selected_as_uftrace_does() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "libraries.c", "-pg -O1 -fno-builtin", "program") else { return };
    for options in [
        "--no-libcall",
        "--nest-libcall",
        "-F qsort",
        "-F plain",
        "-F ^str",
        "-N ^str",
        "-N qsort -N printf",
        "-D 2",
        "-D 1 -F qsort",
        "-C smaller",
        "-Z 20",
        "-T qsort@trace_off",
        "-T strlen@finish",
        "--disable -T strdup@trace_on",
        "-A strlen@arg1/s -R strlen@retval -A strdup@arg1/s -R qsort@retval",
    ] {
        let plain = Command::new("./program").current_dir(folder.path("")).output().expect("it runs");
        let words = ["record", "-o", "o"].into_iter().chain(options.split(' ')).chain(["./program"]);
        let traced = ours(&folder, &words.collect::<Vec<_>>());
        assert_eq!((traced.status.code(), traced.stdout), (plain.status.code(), plain.stdout), "{options}");
        let Some(theirs) = of_uftrace(&folder, options, &[]) else { return };
        assert_eq!(nesting(&folder, "o"), theirs, "{options}");
    }
}

/// Functions that return twice, that never do, or that look at who calls them.
#[test]
fn functions_that_do_not_simply_return() {
    let folder = Folder::new();
    for (way, forms) in WAYS.into_iter().zip(FORMS.chunks(2)) {
        for form in forms {
            let flags = format!("-O1 -fno-builtin {way} {form}");
            let Some(_) = compile(&folder, "libraries.c", &flags, "program") else { return };
            for (argument, functions) in [
                ("vfork", &[("vfork", 3), ("execl", 1), ("_exit", 2), ("waitpid", 3)][..]),
                ("fork", &[("fork", 1), ("puts", 1), ("exit", 1), ("waitpid", 1)]),
                ("threads", &[("rand_r", 8000), ("pthread_exit", 1), ("pthread_create", 9)]),
                ("versions", &[("realpath", 2), ("dlsym", 2), ("main_of_nothing", 0)]),
                ("context", &[("getcontext", 1), ("swapcontext", 4), ("puts", 4)]),
            ] {
                for options in ["", "-N _start", "--nest-libcall"] {
                    let what = format!("{way} {form} {argument} {options}");
                    of_ours(&folder, options, &[argument], &what);
                    for (function, count) in functions {
                        assert_eq!(entries(&folder, function), *count, "{what}: {function}");
                    }
                }
            }
        }
    }
}

#[test]
fn exceptions_pass_through_libraries() {
    let folder = Folder::new();
    for way in WAYS {
        let Some(_) = compile(&folder, "throws.cc", &format!("-O0 {way}"), "program") else { return };
        compile(&folder, "plug.cc", &format!("-O0 -fPIC -shared {way}"), "plug.so");
        for (options, own, of_library) in [("--no-libcall", 0, 0), ("", 1, 0), ("--nest-libcall", 1, 5)] {
            let what = format!("{way} {options}");
            of_ours(&folder, options, &[], &what);
            assert_eq!((entries(&folder, "callback"), entries(&folder, "plug_run")), (5, 5), "{what}");
            // `dlopen` is called by the program, `atoi` by the library that is loaded.
            assert_eq!((entries(&folder, "dlopen"), entries(&folder, "atoi")), (own, of_library), "{what}");
        }
    }
}

/// Library calls need no preparation; those of a shell that runs the program are not wanted.
#[test]
fn programs_that_are_not_instrumented_have_library_calls_when_forced() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "libraries.c", "-O1 -fno-builtin", "program") else { return };
    folder.run("record -o o ./program").ends(125, &["--force"]);
    let text = of_ours(&folder, "--force", &["jump"], "forced");
    assert!(text.contains("qsort();\nstrdup();\nstrlen();\nprintf();\nfree();\n"), "{text}");
    let Some(_) = compile(&folder, "libraries.c", "-O1 -fno-builtin -pg", "program") else { return };
    of_ours(&folder, "", &[], "alone");
    let alone = calls(&folder, "o");
    let traced = ours(&folder, &["record", "-o", "o", "sh", "-c", "./program; true"]);
    assert_eq!((traced.status.code(), &*String::from_utf8_lossy(&traced.stderr)), (Some(0), ""));
    assert_eq!((entries(&folder, "qsort"), calls(&folder, "o")), (1, alone));
}
