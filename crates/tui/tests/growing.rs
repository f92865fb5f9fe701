//! Traces that grow while they are shown: nothing moves but what stands at the end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tracemill_answers::{AnswerInput, Current, ShownTraces, TraceState};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{ClockMove, OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_model::error::Result;
use tracemill_tui::{App, KeyPress, TuiSettings, draw};

#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../../lod/tests/made/mod.rs"]
mod made;

use made::{ENTRY, EXIT, Event, Folder, Packet};

fn opened(path: &Path) -> Result<AnswerInput> {
    let session = Session::open(&FileSystem, &[path.to_path_buf()], &OpenOptions::new(FORMATS))?;
    let streams = streams(&session, &[])?;
    let mut input = AnswerInput::new(ShownTraces::new(session, streams, Selection::default(), None));
    let path = path.to_path_buf();
    input.reopen = Some(Arc::new(move |_: &[ClockMove]| opened(&path)));
    input.follows = true;
    Ok(input)
}

/// Traces that are watched, and the program that shows them.
struct Grown {
    app: App,
    terminal: Terminal<TestBackend>,
    current: Arc<Current>,
    path: PathBuf,
    /// It goes when the test ends.
    folder: Folder,
}

impl Grown {
    /// Lines of JSON.
    fn new(text: &str) -> Grown {
        let folder = Folder::new();
        let path = folder.file("lines.jsonl", text.as_bytes());
        Grown::of(folder, path)
    }

    /// The first packets of streams.
    fn of_packets(streams: &[Vec<Packet>]) -> Grown {
        let folder = Folder::new();
        let path = folder.trace("growing", streams);
        Grown::of(folder, path)
    }

    fn of(folder: Folder, path: PathBuf) -> Grown {
        let state = Arc::new(TraceState::new(opened(&path).expect("it can be read")).expect("random numbers"));
        let current = Arc::new(Current::new(state.clone()));
        let (watcher, files) = (current.clone(), current.files());
        state.read();
        std::thread::spawn(move || watcher.watch(files));
        let mut app = App::new(state, TuiSettings { gmt: true, ..TuiSettings::default() });
        app.follow(current.clone());
        let terminal = Terminal::new(TestBackend::new(100, 12)).expect("it needs no terminal");
        Grown { app, terminal, current, path, folder }
    }

    fn append(&self, text: &str) {
        append(&self.path, text.as_bytes());
    }

    /// Adds packets to a stream.
    fn add(&self, stream: usize, packets: Vec<Packet>) {
        let streams: Vec<Vec<Packet>> = (0..stream).map(|_| Vec::new()).chain([packets]).collect();
        let (from, name) = (self.folder.trace("more", &streams), format!("stream_{stream}"));
        append(&self.path.join(&name), &std::fs::read(from.join(&name)).expect("it was written"));
    }

    fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.app.press(if key == '\n' { KeyPress::Enter } else { KeyPress::Char(key) });
        }
        self
    }

    fn lines(&mut self) -> Vec<String> {
        self.terminal.draw(|frame| draw(&mut self.app, frame)).expect("it needs no terminal");
        let buffer = self.terminal.backend().buffer();
        let line = |row: &[ratatui::buffer::Cell]| row.iter().map(ratatui::buffer::Cell::symbol).collect();
        buffer.content.chunks(usize::from(buffer.area.width)).map(line).collect()
    }

    /// The lines of the screen, as soon as one of them has a text.
    fn lines_with(&mut self, text: &str) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            self.app.poll();
            let lines = self.lines();
            if !self.app.is_busy() && lines.iter().any(|line| line.contains(text)) {
                return lines;
            }
            assert!(Instant::now() < until, "no `{text}`: {lines:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first words of the list.
    fn numbers(lines: &[String]) -> Vec<&str> {
        lines[2..lines.len() - 1].iter().filter_map(|line| line.split_whitespace().next()).collect()
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        self.current.end();
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(bytes)).expect("it can be written");
}

fn events(numbers: std::ops::Range<u64>) -> String {
    let line = |at: u64| format!("{{\"ns\":{},\"name\":\"n{}\",\"payload\":{{\"x\":{at}}}}}\n", 1000 + at * 7, at % 3);
    numbers.map(line).collect()
}

#[test]
fn the_last_line_stays_the_last_one() {
    let mut grown = Grown::new(&events(0..50));
    let lines = grown.lines_with("50 of 50 events");
    assert!(lines.last().is_some_and(|line| line.contains("follows")), "{lines:#?}");
    assert_eq!(Grown::numbers(&lines).last(), Some(&"49"));
    grown.append(&events(50..80));
    let lines = grown.lines_with("80 of 80 events");
    assert_eq!(Grown::numbers(&lines).last(), Some(&"79"));
}

#[test]
fn other_lines_stay_where_they_are() {
    let ticks = |times: std::ops::Range<u64>| Packet::new(times.map(|time| (2, 1000 + time * 10, 7)).collect());
    let mut grown = Grown::of_packets(&[vec![ticks(0..50)], Vec::new()]);
    grown.lines_with("50 of 50 events");
    grown.app.press(KeyPress::Up);
    grown.app.press(KeyPress::PageUp);
    let before = grown.lines_with("41 of 50 events");
    assert!(!before.iter().any(|line| line.contains("follows")), "{before:#?}");
    let times = |lines: &[String]| -> Vec<String> {
        lines[2..lines.len() - 1].iter().filter_map(|line| line.split_whitespace().nth(1).map(str::to_string)).collect()
    };
    // The event of another stream comes late, and moves the numbers of those after it.
    grown.add(1, vec![Packet::new(vec![(3, 1015, 8)])]);
    grown.add(0, vec![ticks(50..55)]);
    let lines = grown.lines_with("42 of 56 events");
    assert_eq!((times(&lines), times(&lines).len()), (times(&before), 9));
    // Once more at the end, it goes on.
    grown.app.press(KeyPress::End);
    grown.add(0, vec![ticks(55..60)]);
    grown.lines_with("61 of 61 events");
}

#[test]
fn filters_ranges_and_reports_go_on() {
    let mut grown = Grown::new(&events(0..50));
    grown.lines_with("50 of 50 events");
    grown.keys("Fname == \"n1\"\n");
    grown.lines_with("of 17 events");
    grown.app.press(KeyPress::Home);
    grown.app.press(KeyPress::Down);
    grown.keys("<3");
    let report = grown.lines_with("3 names");
    assert!(report[2].trim_start().starts_with("16 "), "{report:#?}");
    grown.keys("j");
    let chosen = grown.lines_with("3 names")[3].split_whitespace().last().map(str::to_string);
    grown.append(&events(50..80));
    let report = grown.lines_with("26 ");
    let names: Vec<&str> = report[2..5].iter().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.contains(&chosen.as_deref().unwrap_or_default()), "{report:#?}");
    grown.keys("1");
    // The range ended with the traces, and does so now.
    grown.lines_with("1 of 26 events");
}

#[test]
fn calls_stay_folded() {
    let calls = |from: u64, count: u64| -> Vec<Event> {
        let one = |at: u64| [(ENTRY, 1000 + at * 20, 7), (EXIT, 1010 + at * 20, 7)];
        (from..from + count).flat_map(one).collect()
    };
    let first: Vec<Event> = [(ENTRY, 990, 7)].into_iter().chain(calls(0, 20)).collect();
    let mut grown = Grown::of_packets(&[vec![Packet::new(first)]]);
    grown.keys("2");
    let lines = grown.lines_with("21 calls");
    assert!(lines.last().is_some_and(|line| line.contains("follows")), "{lines:#?}");
    grown.add(0, vec![Packet::new(calls(20, 5))]);
    let lines = grown.lines_with("26 calls");
    assert!(lines.last().is_some_and(|line| line.contains("follows")), "{lines:#?}");
    // The call that made them all is folded, and stays so.
    grown.keys("u\n");
    let folded = grown.lines_with("26 calls");
    assert!(folded[2].contains("+ "), "{folded:#?}");
    grown.add(0, vec![Packet::new(calls(25, 5))]);
    let lines = grown.lines_with("31 calls");
    assert_eq!(lines[3..lines.len() - 1], folded[3..lines.len() - 1]);
    assert!(lines[2].contains("+ "), "{lines:#?}");
    grown.keys("4");
    let graph = grown.lines_with("2 lines");
    assert!(graph[2].contains("- "), "{graph:#?}");
    grown.keys("\n");
    grown.lines_with("1 lines");
    // The number of its calls says that the graph is the new one.
    grown.keys("\nj");
    grown.add(0, vec![Packet::new(calls(30, 5))]);
    let lines = grown.lines_with(" 35 ");
    assert!(lines.iter().any(|line| line.contains("2 lines")), "{lines:#?}");
    grown.keys("u\n");
    grown.lines_with("1 lines");
    grown.add(0, vec![Packet::new(calls(35, 5))]);
    std::thread::sleep(Duration::from_millis(1500));
    let lines = grown.lines_with("1 lines");
    assert!(lines[2].contains("+ "), "{lines:#?}");
}
