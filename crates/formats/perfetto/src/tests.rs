//! Whole files: what they become, and what is reported of damaged ones.

use std::io::Write;

use tracemill_format::OpenTrace;
use tracemill_format::perfetto::ProtoWriter;
use tracemill_format::testing::{OneFile, events_of, shown};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Error;
use tracemill_model::schema::Scope;

/// Writes packets.
#[derive(Default)]
struct TraceBuilder(ProtoWriter);

impl TraceBuilder {
    fn packet(&mut self, fields: impl FnOnce(&mut ProtoWriter)) {
        self.0.begin(1);
        fields(&mut self.0);
        self.0.end();
    }

    /// A packet of a sequence at a time.
    fn at(&mut self, ns: u64, sequence: u64, fields: impl FnOnce(&mut ProtoWriter)) {
        self.packet(|out| {
            out.unsigned(8, ns);
            out.unsigned(10, sequence);
            fields(out);
        });
    }

    /// A track event of the sequence 1.
    fn event(&mut self, ns: u64, kind: u64, track: u64, fields: impl FnOnce(&mut ProtoWriter)) {
        self.at(ns, 1, |out| {
            message(out, 11, |out| {
                out.unsigned(9, kind);
                out.unsigned(11, track);
                fields(out);
            });
        });
    }

    /// Tracks: 1 is the process 12, 2 its thread 13, 3 a lane of it, 4 a counter of the thread, 5 belongs to nobody.
    fn tracks(&mut self) {
        self.packet(|out| {
            message(out, 60, |out| {
                out.unsigned(1, 1);
                message(out, 3, |out| {
                    out.signed(1, 12);
                    out.bytes(6, b"mill");
                });
            });
        });
        self.packet(|out| {
            message(out, 60, |out| {
                out.unsigned(1, 2);
                message(out, 4, |out| {
                    out.signed(1, 12);
                    out.signed(2, 13);
                    out.bytes(5, b"grinder");
                });
            });
        });
        for (uuid, parent, name) in [(3, 1, "lane"), (4, 2, "grams"), (5, 0, "sky")] {
            self.packet(|out| {
                message(out, 60, |out| {
                    out.unsigned(1, uuid);
                    out.unsigned(5, parent);
                    out.bytes(2, name.as_bytes());
                    if uuid == 4 {
                        message(out, 8, |out| out.unsigned(5, 1));
                    }
                });
            });
        }
    }

    /// A bundle of a CPU.
    fn bundle(&mut self, cpu: u64, fields: impl FnOnce(&mut ProtoWriter)) {
        self.packet(|out| {
            message(out, 1, |out| {
                out.unsigned(1, cpu);
                fields(out);
            });
        });
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.written().to_vec()
    }
}

fn message(out: &mut ProtoWriter, field: u32, fields: impl FnOnce(&mut ProtoWriter)) {
    out.begin(field);
    fields(out);
    out.end();
}

/// An event of the kernel: its time, thread, message and fields.
fn kernel_event(out: &mut ProtoWriter, (ns, pid): (u64, i64), number: u32, fields: impl FnOnce(&mut ProtoWriter)) {
    message(out, 2, |out| {
        out.unsigned(1, ns);
        out.signed(2, pid);
        message(out, number, fields);
    });
}

fn packed(out: &mut ProtoWriter, field: u32, values: &[u64]) {
    let mut list = ProtoWriter::default();
    // Its tag is one byte.
    values.iter().for_each(|value| list.unsigned(1, *value));
    let mut bytes = Vec::new();
    let mut rest = list.written();
    while let Some((_, after)) = rest.split_first() {
        let (_, next) = tracemill_format::perfetto::varint(after).expect("a number");
        bytes.extend_from_slice(&after[..after.len() - next.len()]);
        rest = next;
    }
    out.bytes(field, &bytes);
}

fn open(bytes: &[u8]) -> OpenTrace {
    let file = OneFile::new(bytes);
    assert!(file.is_of(&super::FORMAT), "{:?}", &bytes[..bytes.len().min(40)]);
    file.open_as(&super::FORMAT).expect("a trace")
}

/// The result of reading: the lines of each stream, the name of the stream before them.
struct Read {
    lines: Vec<String>,
    gaps: Vec<String>,
    faults: Vec<String>,
    warnings: Vec<String>,
}

fn read(bytes: &[u8]) -> Read {
    let trace = open(bytes);
    let messages = |errors: &[Error]| errors.iter().map(|error| error.message().to_string()).collect();
    let (faults, warnings) = (messages(&trace.faults), messages(&trace.warnings));
    let mut read = Read { lines: Vec::new(), gaps: Vec::new(), faults, warnings };
    for stream in &trace.streams {
        let clock = trace.schema.stream(stream.class).default_clock.expect("a clock");
        let map = ClockMap::new(trace.schema.clock(clock), 0);
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            assert!(opened.faults.is_empty(), "{:?}", opened.faults);
            let times = |gap: &tracemill_model::packet::Gap| {
                [gap.begin_cycles, gap.end_cycles].map(|at| at.map(|at| map.ns(at)))
            };
            read.gaps
                .extend(opened.gaps.iter().map(|gap| format!("{} {:?}", stream.name, times(gap).map(Option::unwrap))));
            let chunk = events_of(opened.data);
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let name = trace.schema.event(event.class()).name.clone().unwrap_or_default();
                let scopes = [Scope::EventHeader, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
                let values =
                    scopes.map(|scope| event.values(scope).expect("whole").map_or(String::new(), |of| shown(&of)));
                let values: Vec<String> = values.into_iter().filter(|text| !text.is_empty()).collect();
                read.lines.push(format!("{} {} {name} | {}", stream.name, map.ns(event.cycles()), values.join(" | ")));
            }
        }
    }
    read
}

#[test]
fn slices_counters_and_instants_are_on_their_tracks() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    trace.event(100, 1, 2, |out| out.bytes(23, b"grind"));
    trace.event(150, 4, 4, |out| out.signed(30, 38));
    trace.event(160, 4, 4, |out| out.signed(30, -3));
    trace.event(300, 2, 2, |_| {});
    trace.event(250, 1, 3, |out| out.bytes(23, b"wait"));
    trace.event(260, 3, 5, |out| out.bytes(23, b"rain"));
    let read = read(&trace.bytes());
    assert_eq!(
        read.lines,
        [
            "others 260 rain | track=5 track_name=\"sky\"",
            "processes 250 wait_entry | pid=12 process_name=\"mill\" | track=3 track_name=\"lane\"",
            "threads 100 grind_entry | pid=12 tid=13 comm=\"grinder\" process_name=\"mill\"",
            "threads 150 grams_counter | pid=12 tid=13 comm=\"grinder\" process_name=\"mill\" | value=38",
            "threads 160 grams_counter | pid=12 tid=13 comm=\"grinder\" process_name=\"mill\" | value=35",
            "threads 300 slice_exit | pid=12 tid=13 comm=\"grinder\" process_name=\"mill\"",
        ]
    );
    assert_eq!((read.faults.len(), read.warnings.len()), (0, 0));
}

#[test]
fn texts_are_those_of_their_state() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    let interned = |out: &mut ProtoWriter, name: &str| {
        message(out, 12, |out| {
            for (kind, text) in [(1, "cat"), (2, name), (3, "key"), (29, "value")] {
                message(out, kind, |out| {
                    out.unsigned(1, 7);
                    out.bytes(2, text.as_bytes());
                });
            }
            message(out, 4, |out| {
                out.unsigned(1, 7);
                out.bytes(2, b"mill.c");
                out.unsigned(4, 99);
            });
        });
    };
    let event = |out: &mut ProtoWriter| {
        message(out, 11, |out| {
            out.unsigned(9, 3);
            out.unsigned(10, 7);
            out.unsigned(3, 7);
            out.unsigned(34, 7);
            out.fixed64(47, 1 << 40);
            message(out, 4, |out| {
                out.unsigned(1, 7);
                out.unsigned(17, 7);
            });
        });
    };
    // The track is a default, and holds for the state.
    let defaults = |out: &mut ProtoWriter| message(out, 59, |out| message(out, 11, |out| out.unsigned(11, 2)));
    trace.at(1, 9, |out| {
        out.unsigned(13, 1);
        defaults(out);
        interned(out, "first");
        event(out);
    });
    trace.at(2, 9, event);
    // A later text replaces the one before.
    trace.at(3, 9, |out| {
        interned(out, "second");
        event(out);
    });
    trace.at(4, 9, |out| {
        out.unsigned(41, 1);
        event(out);
    });
    let read = read(&trace.bytes());
    let own = |ns: u64, name: &str| {
        format!(
            "threads {ns} {name} | pid=12 tid=13 comm=\"grinder\" process_name=\"mill\" | category=\"cat\" \
             flow_id=1099511627776 source_location=file_name=\"mill.c\" line_number=99 | key=\"value\""
        )
    };
    let want = [
        "others 4 #7 | track=0 track_name=\"\" category=\"#7\" flow_id=1099511627776 | #7=\"#7\"".to_string(),
        own(1, "first"),
        own(2, "first"),
        own(3, "second"),
    ];
    assert_eq!(read.lines, want);
    assert_eq!(read.warnings, ["numbers of texts that the file does not hold: 5"]);
}

#[test]
fn annotations_are_values() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    let annotation = |out: &mut ProtoWriter, field: u32, name: &str, value: &dyn Fn(&mut ProtoWriter)| {
        message(out, field, |out| {
            if !name.is_empty() {
                out.bytes(10, name.as_bytes());
            }
            value(out);
        });
    };
    trace.event(1, 3, 2, |out| {
        out.bytes(23, b"all");
        annotation(out, 4, "yes", &|out| out.unsigned(2, 1));
        annotation(out, 4, "n", &|out| out.unsigned(3, u64::MAX));
        annotation(out, 4, "n", &|out| out.signed(4, -5));
        annotation(out, 4, "real", &|out| out.double(5, 0.25));
        annotation(out, 4, "text", &|out| out.bytes(6, b"a\0b"));
        annotation(out, 4, "json", &|out| out.bytes(9, b"{\"x\": [1, 2]}"));
        annotation(out, 4, "bad", &|out| out.bytes(9, b"{\"x\": "));
        annotation(out, 4, "list", &|out| {
            annotation(out, 12, "", &|out| out.unsigned(3, 1));
            annotation(out, 12, "", &|out| out.unsigned(3, 2));
        });
        annotation(out, 4, "dict", &|out| {
            annotation(out, 11, "a", &|out| out.bytes(6, b"b"));
        });
    });
    let read = read(&trace.bytes());
    let [line] = &read.lines[..] else { panic!("{:?}", read.lines) };
    assert!(
        line.ends_with(
            "| yes=true n=18446744073709551615 n_2=-5 real=Real(0.25) text=\"a\u{fffd}b\" json=x=[1 2] \
             bad=\"{\\\"x\\\": \" list=[1 2] dict=a=\"b\""
        ),
        "{line}"
    );
    assert_eq!(read.warnings, ["texts that hold the character U+0000: 1"]);
}

#[test]
fn old_events_are_those_of_trace_json() {
    let mut trace = TraceBuilder::default();
    trace.packet(|out| {
        out.unsigned(10, 1);
        out.unsigned(13, 1);
        message(out, 44, |out| {
            out.signed(1, 5);
            out.signed(2, 6);
        });
    });
    let legacy = |trace: &mut TraceBuilder, phase: u8, name: &str, fields: &dyn Fn(&mut ProtoWriter)| {
        trace.packet(|out| {
            out.unsigned(10, 1);
            message(out, 11, |out| {
                out.signed(1, 10);
                out.bytes(23, name.as_bytes());
                message(out, 6, |out| {
                    out.unsigned(2, phase.into());
                    fields(out);
                });
            });
        });
    };
    legacy(&mut trace, b'X', "whole", &|out| out.signed(3, 15));
    legacy(&mut trace, b'b', "span", &|out| out.unsigned(6, 77));
    legacy(&mut trace, b'e', "span", &|out| out.unsigned(6, 77));
    legacy(&mut trace, b'I', "other", &|out| out.signed(19, 9));
    let read = read(&trace.bytes());
    let names: Vec<String> =
        read.lines.iter().map(|line| line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(names, ["10000 whole_entry", "20000 span_entry", "25000 whole_exit", "30000 span_close", "40000 other"]);
    let span = |line: &str| line.split("span_id=").nth(1).map(str::to_string);
    assert!(span(&read.lines[1]).is_some() && span(&read.lines[1]) == span(&read.lines[3]), "{:?}", read.lines);
    assert!(read.lines[0].contains("pid=5 tid=6") && read.lines[4].contains("pid=5 tid=9"), "{:?}", read.lines);
}

#[test]
fn events_of_the_kernel_have_its_names_and_fields() {
    let mut trace = TraceBuilder::default();
    trace.bundle(1, |out| {
        kernel_event(out, (100, 7), 4, |out| {
            out.bytes(1, b"a");
            out.signed(2, 7);
            out.signed(6, 8);
        });
        kernel_event(out, (90, 7), 329, |out| {
            out.signed(1, 1);
            packed(out, 2, &[3, 300]);
        });
        kernel_event(out, (110, 8), 327, |out| {
            out.bytes(1, b"my_event");
            for (name, field, value) in [("depth", 5, 4), ("left", 4, u64::MAX)] {
                message(out, 2, |out| {
                    out.bytes(1, name.as_bytes());
                    out.unsigned(field, value);
                });
            }
        });
        kernel_event(out, (120, 8), 60_000, |out| out.unsigned(2, 5));
    });
    trace.bundle(1, |out| {
        out.unsigned(3, 1);
        kernel_event(out, (200, 8), 70_000, |out| {
            out.unsigned(1, 9);
            out.bytes(2, b"x");
        });
        message(out, 11, |out| {
            out.unsigned(1, 70_000);
            message(out, 2, |out| {
                out.bytes(1, b"described");
                for (number, name, kind) in [(1, "speed", 13), (2, "who", 9)] {
                    message(out, 2, |out| {
                        out.bytes(1, name.as_bytes());
                        out.unsigned(3, number);
                        out.unsigned(5, kind);
                    });
                }
            });
        });
    });
    let read = read(&trace.bytes());
    assert_eq!(
        read.lines,
        [
            "cpu1 90 sys_enter | common_pid=7 | id=1 args=[3 300]",
            "cpu1 100 sched_switch | common_pid=7 | prev_comm=\"a\" prev_pid=7 next_pid=8",
            "cpu1 110 my_event | common_pid=8 | depth=4 left=-1",
            "cpu1 120 ftrace_event_60000 | common_pid=8 | field_2=5",
            "cpu1 200 described | common_pid=8 | speed=9 who=\"x\"",
        ]
    );
    assert_eq!(read.gaps, ["cpu1 [120, 200]"]);
    assert_eq!(read.warnings, ["events of the kernel of the unknown kind 60000: 1"]);
}

#[test]
fn the_compact_form_is_taken_apart() {
    let mut trace = TraceBuilder::default();
    let compact = |out: &mut ProtoWriter, states: &[u64]| {
        message(out, 4, |out| {
            out.bytes(5, b"mill");
            out.bytes(5, b"swapper");
            packed(out, 1, &[1000, 50]);
            packed(out, 2, states);
            packed(out, 3, &[13, 0]);
            packed(out, 4, &[120, 120]);
            packed(out, 6, &[0, 1]);
            packed(out, 7, &[1020]);
            packed(out, 8, &[14]);
            packed(out, 9, &[2]);
            packed(out, 10, &[100]);
            packed(out, 11, &[0]);
        });
    };
    trace.bundle(0, |out| compact(out, &[1, 256]));
    trace.bundle(0, |out| compact(out, &[1]));
    let read = read(&trace.bytes());
    assert_eq!(
        read.lines,
        [
            "cpu0 1000 sched_switch | common_pid=-1 | prev_state=1 next_comm=\"mill\" next_pid=13 next_prio=120",
            "cpu0 1020 sched_waking | common_pid=13 | comm=\"mill\" pid=14 prio=100 target_cpu=2",
            "cpu0 1020 sched_waking | common_pid=0 | comm=\"mill\" pid=14 prio=100 target_cpu=2",
            "cpu0 1050 sched_switch | common_pid=13 | prev_state=256 next_comm=\"swapper\" next_pid=0 next_prio=120",
        ]
    );
    assert_eq!(read.warnings, ["events of the compact form whose columns do not fit together; they are skipped: 2"]);
}

#[test]
fn processes_and_their_sizes_are_events() {
    let mut trace = TraceBuilder::default();
    // Without a time: at that of the first packet that has one.
    trace.packet(|out| {
        message(out, 2, |out| {
            message(out, 1, |out| {
                out.signed(1, 12);
                out.signed(2, 1);
                out.bytes(3, b"/bin/mill");
                out.bytes(3, b"-f");
            });
            message(out, 2, |out| {
                out.signed(1, 13);
                out.bytes(2, b"grinder");
                out.signed(3, 12);
            });
        });
    });
    trace.at(50, 1, |out| {
        message(out, 9, |out| {
            message(out, 1, |out| {
                out.signed(1, 12);
                out.unsigned(3, 640);
            });
        });
    });
    trace.at(60, 1, |out| {
        message(out, 7, |out| {
            message(out, 1, |out| {
                out.unsigned(1, 2);
                out.unsigned(2, 999);
            });
        });
    });
    trace.at(70, 1, |out| message(out, 61, |out| out.unsigned(1, 1)));
    trace.at(80, 1, |out| message(out, 1999, |out| out.unsigned(1, 1)));
    let read = read(&trace.bytes());
    assert_eq!(
        read.lines[..3],
        [
            "others 50 process_tree_process | pid=12 ppid=1 cmdline=[\"/bin/mill\" \"-f\"] name=\"/bin/mill\"",
            "others 50 process_tree_thread | tid=13 name=\"grinder\" tgid=12",
            "others 50 process_stats | pid=12 vm_rss_kb=640",
        ]
    );
    assert!(read.lines[3].starts_with("others 60 sys_stats | meminfo=["), "{}", read.lines[3]);
    assert!(read.lines[3].contains("value=999"), "{}", read.lines[3]);
    assert_eq!(
        read.warnings,
        ["packets `module_symbols` that are not shown: 1", "packets of the unknown kind 1999: 1"]
    );
}

#[test]
fn samples_have_their_call_chains() {
    let mut trace = TraceBuilder::default();
    trace.at(5, 3, |out| {
        out.unsigned(13, 1);
        message(out, 12, |out| {
            for (iid, text) in [(1, "main"), (2, "grind")] {
                message(out, 5, |out| {
                    out.unsigned(1, iid);
                    out.bytes(2, text.as_bytes());
                });
                message(out, 6, |out| {
                    out.unsigned(1, iid);
                    out.unsigned(2, iid);
                });
            }
            message(out, 7, |out| {
                out.unsigned(1, 1);
                out.unsigned(2, 1);
                out.unsigned(2, 2);
            });
        });
        message(out, 66, |out| {
            out.unsigned(1, 0);
            out.unsigned(2, 12);
            out.unsigned(3, 13);
            out.unsigned(4, 1);
        });
    });
    assert_eq!(
        read(&trace.bytes()).lines,
        ["threads 5 perf_sample | pid=12 tid=13 | cpu=0 pid=12 tid=13 callstack_iid=1 callchain=[\"grind\" \"main\"]"]
    );
}

#[test]
fn times_are_those_of_the_clock_of_the_trace() {
    let mut trace = TraceBuilder::default();
    trace.packet(|out| {
        message(out, 6, |out| {
            for (id, time) in [(6, 1_000), (3, 400), (1, 1_700_000_000_000_000_000)] {
                message(out, 1, |out| {
                    out.unsigned(1, id);
                    out.unsigned(2, time);
                });
            }
        });
    });
    trace.tracks();
    for (clock, ns) in [(0, 1_100), (3, 450), (9, 1_050)] {
        trace.at(ns, 1, |out| {
            if clock != 0 {
                out.unsigned(58, clock);
            }
            message(out, 11, |out| {
                out.unsigned(9, 3);
                out.unsigned(11, 2);
                out.bytes(23, b"now");
            });
        });
    }
    // The clock of a bundle, and its clock at one time.
    trace.bundle(0, |out| {
        out.unsigned(5, 2);
        out.unsigned(6, 10);
        out.unsigned(7, 1_010);
        kernel_event(out, (30, 1), 24, |out| out.unsigned(1, 3));
    });
    let read = read(&trace.bytes());
    let times: Vec<i128> = read
        .lines
        .iter()
        .map(|line| {
            line.split(' ').nth(1).expect("a time").parse::<i128>().expect("a number") - 1_699_999_999_999_999_000
        })
        .collect();
    assert_eq!(times, [1_030, 1_050, 1_050, 1_100]);
    assert_eq!(read.warnings, ["no snapshot relates the clock tsc to that of the trace"]);
}

#[test]
fn packed_packets_are_read() {
    let mut inner = TraceBuilder::default();
    inner.tracks();
    inner.event(5, 3, 2, |out| out.bytes(23, b"packed"));
    let inner = inner.bytes();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&inner).expect("memory");
    let zlib = encoder.finish().expect("memory");
    // A zstd frame of one block that is not packed (RFC 8878, 3.1.1).
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, u8::try_from(inner.len()).expect("a short text")];
    zstd.extend(&((inner.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    zstd.extend(&inner);
    for (field, packed) in [(50, &zlib), (133, &zstd)] {
        let mut trace = TraceBuilder::default();
        trace.packet(|out| out.bytes(field, packed));
        trace.event(6, 3, 2, |out| out.bytes(23, b"plain"));
        let names = |read: &Read| {
            read.lines.iter().map(|line| line.split(' ').nth(2).expect("a name").to_string()).collect::<Vec<_>>()
        };
        let whole = read(&trace.bytes());
        assert_eq!((names(&whole), whole.faults), (vec!["packed".into(), "plain".into()], vec![]), "{field}");
        let mut trace = TraceBuilder::default();
        trace.packet(|out| out.bytes(field, &packed[..packed.len() - 12]));
        trace.event(6, 3, 2, |out| out.bytes(23, b"plain"));
        let cut = read(&trace.bytes());
        assert!(names(&cut).contains(&"plain".into()), "{:?}", cut.lines);
        assert_eq!(cut.faults.len(), 1, "{:?}", cut.faults);
    }
}

#[test]
fn lost_packets_are_gaps() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    for (ns, is_after_loss) in [(10, true), (20, false), (30, true)] {
        trace.at(ns, 1, |out| {
            out.unsigned(42, is_after_loss.into());
            message(out, 11, |out| {
                out.unsigned(9, 3);
                out.unsigned(11, 2);
            });
        });
    }
    // The first packet of a sequence is always marked.
    assert_eq!(read(&trace.bytes()).gaps, ["threads [20, 30]"]);
}

#[test]
fn damage_costs_what_it_hits() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    let begin = trace.bytes().len();
    trace.event(10, 3, 2, |out| out.bytes(23, b"hit"));
    let end = trace.bytes().len();
    trace.event(20, 3, 2, |out| out.bytes(23, b"kept"));
    trace.event(30, 3, 2, |out| out.bytes(23, b"last"));
    let names = |read: &Read| {
        read.lines.iter().map(|line| line.split(' ').nth(2).expect("a name").to_string()).collect::<Vec<_>>()
    };
    let mut bytes = trace.bytes();
    bytes[begin + 2] = 0x0f;
    let hit = read(&bytes);
    assert_eq!(
        (names(&hit), &hit.faults[..]),
        (vec!["kept".into(), "last".into()], &["a field of a packet cannot be read".into()][..])
    );
    let mut bytes = trace.bytes();
    bytes[begin + 1] = 0x7f;
    assert_eq!(names(&read(&bytes)), ["kept", "last"]);
    let cut = &trace.bytes()[..trace.bytes().len() - 3];
    let cut = read(cut);
    assert_eq!(names(&cut), ["hit", "kept"]);
    assert!(cut.faults[0].starts_with("a packet of "), "{:?}", cut.faults);
    let mut bytes = trace.bytes();
    bytes.splice(end..end, b"garbage of any kind".iter().copied());
    assert_eq!(names(&read(&bytes)), ["hit", "kept", "last"]);
    // Any byte may be wrong.
    let whole = trace.bytes();
    for at in 6..whole.len() {
        for value in [0, 0x0a, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if OneFile::new(bytes.clone()).is_of(&super::FORMAT) {
                read(&bytes);
            }
        }
    }
}

#[test]
fn many_events_are_in_the_order_of_time() {
    let mut trace = TraceBuilder::default();
    trace.tracks();
    for at in (0..20_000u64).rev() {
        trace.event(at, 3, 2, |out| out.bytes(23, format!("n{}", at % 9).as_bytes()));
    }
    for part in 0..100u64 {
        trace.bundle(part % 2, |out| {
            for at in 0..300 {
                kernel_event(out, (1000 + part * 300 + at, 1), 24, |out| out.unsigned(1, at));
            }
        });
    }
    let read = read(&trace.bytes());
    let of = |stream: &str| {
        let own = read.lines.iter().filter(|line| line.split(' ').next() == Some(stream));
        own.map(|line| line.split(' ').nth(1).expect("a time").parse::<u64>().expect("a number")).collect::<Vec<_>>()
    };
    assert!(of("threads").into_iter().eq(0..20_000));
    assert_eq!((of("cpu0").len(), of("cpu1").len()), (15_000, 15_000));
    assert!(of("cpu0").is_sorted() && of("cpu1").is_sorted());
}

#[test]
fn other_files_are_not_taken() {
    for text in ["", "\n", "\nhello 1\n", "{}", "# tracer: nop"] {
        assert!(!OneFile::new(text).is_of(&super::FORMAT), "{text}");
    }
}
