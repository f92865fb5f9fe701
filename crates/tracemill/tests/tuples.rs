//! Structures whose members have no names: lists for programs, reached by index, and texts that people read otherwise.
#![cfg(unix)]

mod folder;

use std::ops::ControlFlow;
use std::sync::Arc;

use folder::Folder;
use tracemill_codec::text::out::Out;
use tracemill_engine::filter::{Expression, TimeContext};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::{Selection, merger};
use tracemill_render::lines::{LineFormat, LinePlan};
use tracemill_render::print::{PrintOutput, print};
use tracemill_render::text::{Before, TextOptions};

/// One call with two arguments, recorded.
fn folder() -> Folder {
    let folder = Folder::new("tuples");
    let mut info = b"Ftrace!\0".to_vec();
    info.extend([4, 0, 0, 0, 40, 0, 1, 2]);
    info.extend(0x37bu64.to_le_bytes());
    info.extend(0x3fffu64.to_le_bytes());
    info.extend([0, 4, 0, 0, 0, 0, 0, 0]);
    info.extend(b"taskinfo:tids=7\nargspec:A::f@arg1/i32,arg2/s\n");
    let mut record = 100u64.to_le_bytes().to_vec();
    record.extend((1u64 << 2 | 5 << 3 | 0x1004 << 16).to_le_bytes());
    record.extend((-5i32).to_le_bytes());
    record.extend([2, 0, b'h', b'i']);
    folder.write("info", &info);
    folder.write(
        "task.txt",
        b"SESS timestamp=0.0 pid=7 sid=0123456789abcdef exename=\"/a\"\nTASK timestamp=0.0 tid=7 pid=7\n",
    );
    folder.write("sid-0123456789abcdef.map", b"00001000-00002000 r-xp 0 0:0 0 /a\n");
    folder.write("a.sym", b"0 T _ZN1A1fEi\n100 ? __sym_end\n");
    folder.write("7.dat", &record);
    folder
}

fn lines(format: LineFormat, filter: Option<&str>) -> String {
    let folder = folder();
    let session = Session::open(&FileSystem, &[folder.path()], &OpenOptions::new(tracemill_formats::FORMATS))
        .expect("the options are right");
    let times = TimeContext { gmt: true, ..TimeContext::default() };
    let filter = filter.map(|text| {
        let expression = Expression::parse(text).expect("the expression is right");
        expression.bind(&session, &times).expect("its fields are there")
    });
    let streams = streams(&session, &[]).expect("all streams are wanted");
    let mut merger = merger(&session, &streams, &Selection::default());
    let plan = LinePlan { format, streams, filter, many_traces: false, with_ends: false };
    let mut text = Vec::new();
    print(&session, &mut merger, &Arc::new(plan), 1, |output| {
        match output {
            PrintOutput::Lines(rendered) => {
                let (options, mut middle) = (TextOptions::default(), Out::default());
                text.extend(rendered.parts(Before::Nothing, Some(&options), &mut middle).concat());
            }
            PrintOutput::Fault(error) => panic!("{error}"),
            PrintOutput::Note(_) => {}
        }
        ControlFlow::Continue(())
    });
    String::from_utf8(text).expect("lines are text")
}

#[test]
fn programs_see_a_list_and_people_a_name() {
    let json = lines(LineFormat::Jsonl, None);
    assert!(json.contains("\"symbol\":\"_ZN1A1fEi\",\"lib\":\"a\",\"args\":[-5,\"hi\"]}"), "{json}");
    let text = lines(LineFormat::Text(Arc::new(TextOptions::default())), None);
    assert!(text.ends_with("symbol = \"A::f\", lib = \"a\", args = [ [0] = -5, [1] = \"hi\" ] }\n"), "{text}");
}

#[test]
fn members_are_reached_by_their_index() {
    let count = |filter| lines(LineFormat::Jsonl, Some(filter)).lines().count();
    assert_eq!((count("payload.args[0] == -5"), count("args[1] == \"h*\""), count("args[0] > 0")), (1, 1, 0));
    assert_eq!(count("symbol == \"_ZN1A1fEi\""), 1);
}
