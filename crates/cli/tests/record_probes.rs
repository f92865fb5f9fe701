//! `tracemill record -P sdt:..`: probes of `sys/sdt.h`, listed and recorded, each time that the program comes to one.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "util/recorded.rs"]
mod recorded;
mod util;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use recorded::*;
use util::Folder;

/// The number of events of the folder `o`, by name.
fn events(folder: &Folder) -> BTreeMap<String, u64> {
    let output = ours(folder, &["dump", "-d", "o"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((_, rest)) = line.split_once("[event] ") {
            *counts.entry(rest.split('(').next().unwrap_or_default().to_string()).or_default() += 1;
        }
    }
    counts
}

/// The numbers that a program prints of what it counted itself.
fn counted(text: &str) -> BTreeMap<String, u64> {
    let count = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_string(), count.parse().ok().filter(|count| *count > 0)?))
    };
    text.lines().filter_map(count).collect()
}

/// The number that stands in a message before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.lines().find_map(|line| line.split_once(words)).map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn events_are_as_many_as_the_program_counts() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "probes_plugin.c", "-O2 -shared -fPIC", "plug.so") else { return };
    let ways = ["-O2", "-O0", "-O2 -no-pie", "-O2 -pg", "-O1 -pg -mfentry", "-O1 -finstrument-functions", "-O2 -pg -t"];
    for way in ways {
        let (flags, is_timed) = way.strip_suffix(" -t").map_or((way, false), |flags| (flags, true));
        compile(&folder, "probes.c", flags, "program");
        let time: &[&str] = if is_timed { &["-t", "100us"] } else { &[] };
        let words = ["record", "-v", "-o", "o", "-P", "sdt:app", "-P", "sdt:plug:r?n"];
        let output = ours(&folder, &[&words[..], time, &["./program", "./plug.so"]].concat());
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{way}: {stdout} {stderr}");
        let mut counts = counted(&stdout);
        assert!(counts["app:asked"] > 4000 && counts["plug:run"] == 60, "{way}: {stdout}");
        // Handlers of signals may come while their thread is in the recorder: those events are counted, too.
        let missed = number_before(&stderr, " events of probes were not recorded");
        counts.entry("app:handled".into()).and_modify(|count| *count -= missed);
        assert_eq!(events(&folder), counts, "{way}: {stderr}");
        let traps = number_before(&stderr, " of them by traps");
        assert!(traps >= 5, "{way}: {stderr}");
        let names = fs::read_to_string(folder.path("o/events.txt")).expect("it is there");
        let mut names: Vec<_> = names.lines().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
        names.sort_unstable();
        assert_eq!(names, counts.keys().map(String::as_str).collect::<Vec<_>>(), "{way}");
        if way.contains("-pg") {
            is_read_alike(&folder, &["replay", "dump"], way);
        }
        // Hidden files of questions and answers are gone.
        let is_left = |name: String| name.starts_with('.');
        let left = fs::read_dir(folder.path("o")).expect("a folder").flatten();
        assert!(!left.map(|file| file.file_name().to_string_lossy().into_owned()).any(is_left), "{way}");
    }
}

/// A handler of a signal may be the first of its thread that comes to a probe, while the thread begins: it has one ring, and
/// nothing is lost that is not counted.
#[test]
fn threads_that_signals_interrupt_from_their_first_instruction_lose_nothing() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "probes_storm.c", "-O2", "program") else { return };
    let output = ours(&folder, &["record", "-o", "o", "-P", "sdt:app", "./program"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let (counted, recorded) = (counted(&stdout), events(&folder));
    let missed = number_before(&stderr, " events of probes were not recorded") + number_before(&stderr, " were lost");
    let [counted, recorded] = [counted, recorded].map(|events| events.values().sum::<u64>());
    // A handler that counts a loss while its thread does leaves one of the two.
    assert!((recorded..=recorded + 5).contains(&(counted - missed)), "{counted} {recorded} {missed}: {stderr}");
}

/// Times and order are those of uftrace, whose events these are.
#[test]
fn events_stand_where_uftrace_has_them() {
    let folder = Folder::new();
    for way in WAYS {
        let flags = format!("-O1 -fno-inline -fno-optimize-sibling-calls {way}");
        let Some(_) = compile(&folder, "probes_order.c", &flags, "program") else { return };
        let output = ours(&folder, &["record", "--no-libcall", "-o", "o", "-P", "sdt:", "./program", "more"]);
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""), "{way}");
        is_read_alike(&folder, &["replay", "graph", "dump"], way);
        let replay = ours(&folder, &["replay", "-d", "o", "-f", "none", "--no-comment"]);
        let text = String::from_utf8_lossy(&replay.stdout).replace("()", "");
        let words: Vec<_> = text.split_whitespace().filter(|word| !["/*", "*/"].contains(word)).collect();
        let round = "both { app:first leaf { app:leaf } app:second app:third } ";
        let end = "caught { jumps { app:before } app:after }";
        // A function that reports its own end is known to have been left only when another one is.
        let end = if way == WAYS[2] { "caught { jumps { app:before app:after } }" } else { end };
        assert_eq!(words.join(" "), round.repeat(3) + end, "{way}: {text}");
        // Events outside of all functions are there as well.
        let all = ours(&folder, &["replay", "-d", "o", "-f", "none", "--event-full"]);
        let text = String::from_utf8_lossy(&all.stdout);
        assert!(text.contains("outside:late"), "{way}: {text}");
        assert!(text.contains("outside:early") && events(&folder)["outside:early"] == 1, "{way}: {text}");
        if is_there("uftrace") {
            let output = ours(&folder, &["record", "--no-libcall", "-o", "o", "-P", "sdt:app", "./program"]);
            assert!(output.status.success());
            let mut theirs = Command::new("uftrace");
            theirs.args(["record", "--no-libcall", "-d", "u", "-E", "app:.*", "./program"]);
            assert!(theirs.current_dir(folder.path("")).output().expect("it runs").status.success(), "{way}");
            assert_eq!(nesting(&folder, "o"), nesting(&folder, "u"), "{way}");
        }
    }
}

#[test]
fn probes_are_chosen_by_name() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "probes_order.c", "-O2", "program") else { return };
    let record = |options: &str| folder.run(&format!("record -o o {options} ./program"));
    let names = || events(&folder).into_iter().collect::<Vec<_>>();
    let of = |list: &[(&str, u64)]| list.iter().map(|(name, count)| (name.to_string(), *count)).collect::<Vec<_>>();
    assert_eq!(record("-P sdt:app:*d").ends(0, &[]).stderr, "");
    assert_eq!(names(), of(&[("app:second", 3), ("app:third", 3)]));
    assert_eq!(record("-P sdt:*:l* -U sdt:app:leaf").ends(0, &[]).stderr, "");
    assert_eq!(names(), of(&[("outside:late", 1)]));
    record("-P sdt:app:first -P sdt:app:nothing")
        .ends(0, &["o: no probe matches `sdt:app:nothing`: there are app:first"]);
    assert_eq!(names(), of(&[("app:first", 3)]));
    record("-P sdt:none").ends(
        0,
        &[
            "o: no probe matches `sdt:none`: there are app:after, app:before",
            "o: nothing was recorded: no probe was switched on",
        ],
    );
    record("-P sdt:app:after").ends(0, &["o: nothing was recorded: the program came to none of the probes"]);
    folder.run("record -o o ./program").ends(125, &["it is neither instrumented nor linked"]);
    // As uftrace takes names of probes.
    record("-E app:l.*").ends(125, &["`app:l.*` is a probe of the program, which `-P 'sdt:app:l*'` records"]);
}

#[test]
fn probes_of_a_program_and_of_its_libraries_are_listed() {
    let folder = Folder::new();
    let Some(_) = compile(&folder, "probes_plugin.c", "-O2 -shared -fPIC", "libplug.so") else { return };
    compile(&folder, "probes.c", "-O2", "program");
    let linked = "-O2 -Wl,--no-as-needed -Wl,-rpath,$ORIGIN";
    compile(&folder, "probes_order.c", &format!("{linked} {}", folder.path("libplug.so").display()), "linked");
    let lines = |target: &str| {
        let run = folder.run(&format!("record --list {target}")).ends(0, &[]);
        let is_ours = |line: &&str| ["sdt:app", "sdt:outside", "sdt:plug"].iter().any(|name| line.starts_with(name));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        run.stdout.lines().filter(is_ours).map(words).collect::<Vec<_>>()
    };
    let program = lines("./program");
    for line in ["sdt:app:asked 1 semaphore ./program", "sdt:app:trapped 1 ./program", "sdt:app:handled 2 ./program"] {
        assert!(program.iter().any(|known| known == line), "{line}: {program:#?}");
    }
    let step = program.iter().find(|line| line.starts_with("sdt:app:step ")).expect("it is listed");
    assert!(step.starts_with("sdt:app:step 1 ./program -4@"), "{step}");
    let linked = lines("./linked");
    assert!(linked.iter().any(|line| line.starts_with("sdt:outside:late 1 ./linked")), "{linked:#?}");
    let plug: Vec<_> = linked.iter().filter(|line| line.starts_with("sdt:plug:run 1 semaphore")).collect();
    assert!(plug.len() == 2 && plug.iter().all(|line| line.contains("/libplug.so")), "{linked:#?}");
    // They are recorded there as well, of a library that nobody loads later.
    folder.run("record -o o -P sdt:plug ./linked").ends(0, &["the program came to none of the probes"]);
    // Without probes, and what is no program.
    compile(&folder, "counter.c", "-O2 -static", "static");
    let none = folder.run("record --list ./static");
    assert!(none.code == Some(0) && (none.stdout.contains("sdt:libc:") || none.stderr.contains("there are no probes")));
    folder.file("text", "no program");
    folder
        .run("record --list ./text")
        .ends(1, &["no probes can be listed: it is not an ELF file", "--list takes a program"]);
    folder.run("record --list ./nowhere").ends(2, &["no recorder takes commands there"]);
}

#[test]
fn damaged_notes_are_reported() {
    let folder = Folder::new();
    let Some(program) = compile(&folder, "probes_order.c", "-O2", "program") else { return };
    let bytes = fs::read(&program).expect("it can be read");
    let owners: Vec<_> =
        bytes.windows(8).enumerate().filter(|(_, text)| text == b"stapsdt\0").map(|(at, _)| at).collect();
    let note = owners[2];
    // One that is longer than its section: those before it are listed and recorded, the others are not.
    let mut longer = bytes.clone();
    longer[note - 8..note - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&program, &longer).expect("it can be written");
    let listed = folder.run("record --list ./program").ends(3, &["a note is longer than its section"]);
    let own = |line: &&str| line.ends_with("./program") || line.contains("./program ");
    assert_eq!(listed.stdout.lines().filter(own).count(), 2, "{}", listed.stdout);
    folder.run("record -o o -P sdt:app ./program").ends(0, &["not all probes of", "a note is longer than its section"]);
    // Addresses that are none of code, or of another instruction: the program is left as it is.
    let mut moved = bytes.clone();
    let address = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    for (number, owner) in owners.iter().enumerate() {
        let wrong = [u64::MAX, address(owner + 8) + 1, 0, 1 << 40][number % 4];
        moved[owner + 8..owner + 16].copy_from_slice(&wrong.to_le_bytes());
    }
    fs::write(&program, &moved).expect("it can be written");
    let run = folder.run("record -o o -P sdt:app -P sdt:outside ./program").ends(0, &["nothing was recorded"]);
    assert!(run.stderr.contains("were not recorded: what stands there is not what their notes say"), "{}", run.stderr);
    // A semaphore in code is never written.
    let mut semaphore = bytes.clone();
    for owner in owners {
        semaphore[owner + 24..owner + 32].copy_from_slice(&address(owner + 8).to_le_bytes());
    }
    fs::write(&program, &semaphore).expect("it can be written");
    folder.run("record -o o -P sdt:app ./program").ends(0, &["nothing was recorded"]);
}
