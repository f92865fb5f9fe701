//! Metadata: its two framings, how it grows, what is refused and where.

use tracemill_model::schema::ByteOrder;

use super::super::parse;
use super::Folder;
use super::build::{DRAFTS, Draft, METADATA_11, METADATA_16, Packet, SESSION, UUID, two, two_shown};

/// Strings as packets of metadata.
fn packets(draft: Draft, strings: &[&str]) -> Vec<Vec<u8>> {
    let packet = |text: &&str| {
        let content = [text.as_bytes(), b"\0"].concat();
        match draft {
            Draft::V11 => Packet::new(0, content).bytes(draft),
            Draft::V16 => [&0xC1FC_1FC1u32.to_le_bytes()[..], &UUID, &[0; 4], &content].concat(),
        }
    };
    strings.iter().map(packet).collect()
}

/// A metadata text in two parts: the second declares the event.
fn parts(draft: Draft) -> (&'static str, &'static str) {
    let text = draft.metadata();
    text.split_at(text.rfind("\nevent {").expect("it declares an event") + 1)
}

#[test]
fn metadata_grows_packet_by_packet() {
    for draft in DRAFTS {
        let (first, second) = parts(draft);
        let packets = packets(draft, &[first, second]);
        let stream = Packet::new(10, two(10)).bytes(draft);
        // Before the event is declared its events stop their packet.
        let read = Folder::new(&packets[0], draft.file(), &stream).read();
        assert!(read.events.is_empty() && read.faults[0].contains("no event class has the id 1"), "{read:?}");
        // Cut in the middle, the last packet is not there yet, or what there is of it cannot be read.
        let read = Folder::new(packets.concat(), draft.file(), &stream).read();
        assert_eq!((read.events, read.faults), (two_shown(draft, 10).to_vec(), vec![]), "{draft:?}");
        // The same strings once more add nothing.
        let twice = [packets.concat(), packets.concat()].concat();
        let read = Folder::new(twice, draft.file(), &stream).read();
        assert_eq!((read.events, read.faults), (two_shown(draft, 10).to_vec(), vec![]), "{draft:?}");
    }
}

#[test]
fn text_grows_too_and_events_may_stand_before_what_they_need() {
    for draft in DRAFTS {
        let (first, second) = parts(draft);
        let stream = Packet::new(10, two(10)).bytes(draft);
        let read = Folder::new(first, draft.file(), &stream).read();
        assert!(read.events.is_empty() && read.faults.len() == 1);
        let read = Folder::new(format!("{first}{second}"), draft.file(), &stream).read();
        assert_eq!(read.events, two_shown(draft, 10));
    }
    // v1.1: the event first, types and sections after it.
    let (first, second) = parts(Draft::V11);
    let stream = Packet::new(10, two(10)).bytes(Draft::V11);
    let read = Folder::new(format!("{second}{first}"), "main_0", &stream).read();
    assert_eq!(read.events, two_shown(Draft::V11, 10));
}

#[test]
fn a_last_packet_of_metadata_that_is_cut_is_a_fault() {
    let (first, second) = parts(Draft::V11);
    let packets = packets(Draft::V11, &[&format!("{first}{second}"), "type t { parent = integer; size = 3; }"]);
    let all = packets.concat();
    let stream = Packet::new(10, two(10)).bytes(Draft::V11);
    for cut in [packets[0].len() + 20, packets[0].len() + 48] {
        let read = Folder::new(&all[..cut], "main_0", &stream).read();
        assert_eq!(read.events, two_shown(Draft::V11, 10));
        assert!(read.faults.len() == 1 && read.faults[0].contains("the metadata ends inside"), "{:?}", read.faults);
    }
}

#[test]
fn what_is_complete_of_growing_metadata_is_used_and_the_tail_told() {
    for draft in DRAFTS {
        let more = match draft {
            Draft::V11 => "event { name = more; id = 2; section = main; fields = type { parent = struct; }; }",
            Draft::V16 => "event { name = more; id = 2; stream = 0; fields = struct { string x; }; };",
        };
        let stream = Packet::new(10, two(10)).bytes(draft);
        // In v1.6 `;` after the last brace is optional.
        let last = more.trim_end_matches(';').len();
        for cut in 0..=more.len() {
            let text = format!("{}{}", draft.metadata(), &more[..cut]);
            let packed = packets(draft, &[draft.metadata(), &more[..cut]]).concat();
            for metadata in [text.clone().into_bytes(), packed] {
                let read = Folder::new(&metadata, draft.file(), &stream).read();
                assert_eq!(read.events, two_shown(draft, 10), "{draft:?} {cut}");
                let is_open = 0 < cut && cut < last;
                assert_eq!(read.faults.len(), usize::from(is_open), "{draft:?} {cut} {:?}", read.faults);
                if is_open {
                    let line = draft.metadata().lines().count() + 1;
                    // The ends of the first string and of its packet stand before it.
                    let column = if metadata.starts_with(&0xC1FC_1FC1u32.to_le_bytes()) { 3 } else { 1 };
                    assert!(read.faults[0].contains("the metadata ends inside a declaration"), "{:?}", read.faults);
                    assert!(read.faults[0].contains(&format!("line {line}, column {column}:")), "{:?}", read.faults);
                }
            }
        }
        // Something wrong further up is no tail.
        let wrong = draft.metadata().replacen("size = 16", "size = 99", 1) + &more[..20];
        let error = Folder::new(wrong, draft.file(), &stream).refused();
        assert!(error.message().contains("99"), "{error}");
    }
}

#[test]
fn a_packet_of_metadata_whose_padding_is_missing_is_told() {
    let content = [METADATA_11.as_bytes(), b"\0"].concat();
    let mut bytes = Packet { padding: 20, ..Packet::new(0, content) }.bytes(Draft::V11);
    bytes.truncate(bytes.len() - 5);
    let stream = Packet::new(10, two(10)).bytes(Draft::V11);
    let read = Folder::new(bytes, "main_0", &stream).read();
    assert_eq!(read.events, two_shown(Draft::V11, 10));
    assert!(read.faults.len() == 1 && read.faults[0].contains("only padding is missing"), "{:?}", read.faults);
}

#[test]
fn long_chains_of_parents_are_no_circles() {
    let stream = Packet::new(10, two(10)).bytes(Draft::V11);
    for len in [5_000, 50_000] {
        let mut chain = format!("type c{len} {{ parent = uint32_t; }}\n");
        for at in (0..len).rev() {
            chain += &format!("type c{at} {{ parent = c{}; }}\n", at + 1);
        }
        // Both ways: the first that is asked for may be at either end.
        for is_reversed in [false, true] {
            let mut lines: Vec<&str> = chain.lines().collect();
            if is_reversed {
                lines.reverse();
            }
            let metadata = METADATA_11.replace("{ uint32_t, a }", "{ c0, a }") + &lines.join("\n");
            let read = Folder::new(metadata, "main_0", &stream).read();
            assert_eq!((read.events.len(), read.faults), (2, vec![]), "{len}");
        }
        let circle = chain.replace("parent = uint32_t", "parent = c7");
        let error = Folder::new(format!("{METADATA_11}{circle}"), "main_0", &stream).refused();
        assert!(error.message().contains("the parents go round in a circle: c7 -> c8 -> "), "{error}");
        assert!(error.message().len() < 300, "{error}");
    }
}

#[test]
fn types_without_declaration_are_refused_when_the_user_is_strict() {
    for draft in DRAFTS {
        let metadata = match draft {
            Draft::V11 => METADATA_11.replace("{ uint32_t, a }", "{ uint32_t, a }, { uint7_t, b }"),
            Draft::V16 => METADATA_16.replace("uint32_t a;", "uint32_t a; unsigned long b;"),
        };
        let folder = Folder::new(&metadata, draft.file(), b"");
        let trace = folder.open(&[]).expect("it opens");
        let place = trace.warnings[0].place().text.clone().expect("a place");
        assert!(
            place
                .excerpt
                .get(place.caret..)
                .is_some_and(|at| at.starts_with("uint7_t") || at.starts_with("unsigned long"))
        );
        let Err(error) = folder.open_strictly() else { panic!("it is not refused") };
        assert!(error.message().contains("is not declared") && error.place().text.is_some(), "{error}");
        assert!(Folder::new(draft.metadata(), draft.file(), b"").open_strictly().is_ok());
    }
}

#[test]
fn packets_of_metadata_have_sizes_and_checksums() {
    let content = [METADATA_11.as_bytes(), b"\0"].concat();
    let checksum = crc32fast::hash(&content);
    let packet = Packet { schemes: [0, 0, 3], checksum, padding: 7, ..Packet::new(0, content.clone()) };
    let stream = Packet::new(10, two(10)).bytes(Draft::V11);
    let read = Folder::new(packet.bytes(Draft::V11), "main_0", &stream).read();
    assert_eq!((read.events.len(), read.faults), (2, vec![]));
    let wrong = Packet { checksum: checksum ^ 1, ..packet.clone() };
    let read = Folder::new(wrong.bytes(Draft::V11), "main_0", &stream).read();
    assert!(read.events.len() == 2 && read.faults[0].contains("crc32"), "{:?}", read.faults);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, &content).expect("memory");
    let packed = Packet { schemes: [2, 0, 0], ..Packet::new(0, encoder.finish().expect("memory")) };
    let read = Folder::new(packed.bytes(Draft::V11), "main_0", &stream).read();
    assert_eq!((read.events.len(), read.faults), (2, vec![]));
}

#[test]
fn the_session_of_the_metadata_is_that_of_the_packets() {
    let metadata = packets(Draft::V11, &[METADATA_11]).concat();
    let mut stream = Packet::new(10, two(10)).bytes(Draft::V11);
    stream[4] ^= 1;
    let read = Folder::new(metadata, "main_0", &stream).read();
    assert!(read.events.is_empty());
    assert!(read.faults[0].contains(&format!("the trace has {SESSION:#010x}")), "{:?}", read.faults);
}

#[test]
fn the_framing_is_found_whichever_it_is() {
    // Bytes 8 to 15 of this uuid make sound sizes of a v1.1 header, and the text has what its schemes may be.
    let mut bytes = 0xC1FC_1FC1u32.to_le_bytes().to_vec();
    bytes.extend([1, 2, 3, 4, 0x30, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0; 4]);
    bytes.extend(b" ");
    bytes.resize(24 + 24, 0);
    let metadata = METADATA_16.replace("01020304-0506-0708-090a-0b0c0d0e0f10", "01020304-3000-0000-3000-000000000000");
    bytes.extend(metadata.as_bytes());
    let schema = parse(&bytes, ByteOrder::Little).expect("it is v1.6");
    assert_eq!((schema.format, schema.version), ("ctf1.6", (1, 6)));
}

#[test]
fn errors_have_lines_and_columns() {
    // The text after the metadata of a draft; what is said; line below the metadata, and column.
    let cases_11 = [
        ("type t { parent = integer; size = 65; }", "between 1 and 64", 1, 35),
        ("type t { parent = integer; size = 8; align = 3; }", "power of two", 1, 46),
        ("type t { parent = integer; size = 8; signed = maybe; }", "`true` or `false`", 1, 47),
        ("type t { parent = gcc_bitfield; size = 9; unit_size = 8; }", "in a unit of 8", 1, 6),
        ("type t { parent = enum; size = 2; map = { { 4, four } } }", "outside of 0 to 3", 1, 48),
        ("type t { parent = enum; size = 2; }", "no `map`", 1, 6),
        ("type t { parent = array; length = 2; }", "no `elem_type`", 1, 6),
        ("type t { parent = sequence; length_type = string; elem_type = uint8_t; }", "must be an integer", 1, 6),
        ("type t { parent = floating_point; exp_dig = 7; mant_dig = 9; }", "no floating point numbers", 1, 45),
        ("type t { parent = string; encoding = latin1; }", "not an encoding", 1, 38),
        ("type string { parent = struct; }", "built-in", 1, 6),
        ("\nsection { event { header_type = type1; } }", "no `name`", 2, 1),
        ("section { name = x; event { header_type = type3; } }", "`type1` or `type2`", 1, 43),
        ("event { name = x; id = 4294967296; section = main; fields = ctx; }", "between 0 and", 1, 24),
        (
            "event { name = x; id = 1; section = main; fields = type { parent = struct; } }",
            "is that of the event `ev`",
            1,
            24,
        ),
        ("event { name = x; id = 2; section = main; fields = uint8_t; }", "must be a struct", 1, 52),
        ("nonsense { }", "unknown declaration", 1, 1),
        ("type t { parent = integer; size = 08; }", "not an octal number", 1, 35),
        ("/* open", "never closed", 1, 1),
        ("event { name = \"a\\q\"; }", "unknown escape", 1, 18),
        ("%", "unexpected character `%`", 1, 1),
    ];
    let cases_16 = [
        ("typedef integer { size = 8; size = 9; } x;", "twice", 1, 29),
        ("typedef integer { signed = true; } x;", "no `size`", 1, 9),
        ("typedef uint8_t;", "no type", 1, 9),
        ("typedef uint8_t *;", "after `*`", 1, 17),
        ("struct s { uint8_t };", "no type", 1, 12),
        ("struct s { string x:3; };", "unit of a bit-field", 1, 19),
        ("struct s { uint8_t x[string]; };", "must be an integer", 1, 20),
        ("struct s { uint8_t x:0; };", "between 1 and 8", 1, 22),
        ("enum { A };", "without a tag", 1, 1),
        ("enum e { };", "a label", 1, 10),
        ("enum <string> e { A };", "must be an integer", 1, 6),
        ("stream { id = 1; event { header_type = event_header_3; }; };", "not a built-in event header", 1, 40),
        ("stream { id = 1; event { header_type = event_header_1; }; };", "no `packet`", 1, 1),
        ("event { name = x; id = 2; stream = 0; fields = uint8_t; };", "must be a struct", 1, 48),
        ("struct s { uint8_t checksum; uint8_t checksum; };\nstruct t { struct s x; };", "`checksum`", 2, 21),
        ("struct a { uint8_t x; };\nstruct a { uint8_t y; };", "a second time", 2, 1),
        ("struct unit9_t;", "a declaration with a body", 1, 1),
        ("}", "expected `trace`", 1, 1),
    ];
    let of = |text: &str| text.lines().count() as u32;
    let all = cases_11.iter().map(|case| (METADATA_11, case)).chain(cases_16.iter().map(|case| (METADATA_16, case)));
    for (metadata, (tail, what, line, column)) in all {
        let error = match parse(format!("{metadata}{tail}").as_bytes(), ByteOrder::Little) {
            Err(error) => error,
            // A declaration without end may grow.
            Ok(_) => {
                let trace = Folder::new(format!("{metadata}{tail}"), "main_0", b"").open(&[]).expect("it opens");
                trace.faults.into_iter().next().unwrap_or_else(|| panic!("`{tail}` is accepted"))
            }
        };
        let place = error.place().text.clone().unwrap_or_else(|| panic!("`{tail}`: no place: {error}"));
        let found = (place.line - of(metadata), place.column);
        assert!(error.message().contains(what), "`{tail}`: {error}");
        assert_eq!(found, (*line, *column), "`{tail}`: {error}");
    }
}

#[test]
fn names_that_are_not_declared_offer_the_nearest() {
    let error = parse(format!("{METADATA_16}struct s {{ uint23_t x; }};").as_bytes(), ByteOrder::Little);
    assert_eq!(error.err().map(|error| error.message().to_string()), None, "a number of bits needs no declaration");
    for (metadata, tail, near) in [
        (METADATA_16, "struct s { unit32_t x; };", "uint32_t"),
        (METADATA_16, "struct page { }; struct s { struct pag x; };", "struct page"),
        (METADATA_11, "type t { parent = intger; }", "integer"),
        (METADATA_11, "type t { parent = struct; fields = { { unit32_t, x } } }", "uint32_t"),
    ] {
        let error = parse(format!("{metadata}{tail}").as_bytes(), ByteOrder::Little).expect_err(tail);
        assert!(error.help().is_some_and(|help| help.contains(&format!("`{near}`"))), "{tail}: {error:?}");
    }
}

#[test]
fn deep_and_wide_types_are_bounded() {
    let deep = |levels: usize| "struct { ".repeat(levels) + "uint8_t x; " + &"} x; ".repeat(levels);
    let text = |levels: usize| format!("{METADATA_16}struct s {{ {} }};", deep(levels));
    assert!(parse(text(200).as_bytes(), ByteOrder::Little).is_ok());
    let error = parse(text(5000).as_bytes(), ByteOrder::Little).expect_err("too deep");
    assert!(error.message().contains("nested deeper than 256"), "{error}");
    let chain: String = (1..400).map(|at| format!("typedef t{} t{at}[1];\n", at - 1)).collect();
    let error = parse(format!("{METADATA_16}typedef uint8_t t0;\n{chain}").as_bytes(), ByteOrder::Little);
    assert!(error.expect_err("too deep").message().contains("nested deeper than 256"));
    let doubled: String =
        (1..64).map(|at| format!("struct s{at} {{ struct s{0} a; struct s{0} b; }};\n", at - 1)).collect();
    let event = "event { name = big; id = 9; stream = 0; fields = struct s63; };";
    let error =
        parse(format!("{METADATA_16}struct s0 {{ uint8_t x; }};\n{doubled}{event}").as_bytes(), ByteOrder::Little);
    assert!(error.expect_err("too large").message().contains("more than the limit"));
    // Children share what they inherit: this would take gigabytes otherwise.
    let map: String = (0..2000).map(|at| format!("{{ {at}, l{at} }},")).collect();
    let children: String = (0..2000).map(|at| format!("type c{at} {{ parent = e; }}\n")).collect();
    let text = format!("{METADATA_11}type e {{ parent = enum; size = 16; map = {{ {map} }} }}\n{children}");
    assert!(parse(text.as_bytes(), ByteOrder::Little).is_ok());
}
