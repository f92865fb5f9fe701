//! Screens as text.

use std::path::Path;
use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tracemill_answers::{AnswerInput, ShownTraces, TraceState};
use tracemill_engine::selection::streams;
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_tui::{App, KeyPress, TuiSettings, draw, run_plain};

fn state(paths: &[&Path]) -> Arc<TraceState> {
    let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
    let session = Session::open(&FileSystem, &paths, &OpenOptions::new(FORMATS)).expect("the options are right");
    let streams = streams(&session, &[]).expect("all streams");
    let traces = ShownTraces::new(session, streams, Selection::default(), None);
    let input = AnswerInput {
        traces,
        problems: (Vec::new(), Vec::new()),
        program: "test".to_string(),
        command: "tracemill tui".to_string(),
        cut: None,
        query: None,
        symbolizer: None,
        reopen: None,
        follows: false,
        opened: std::time::SystemTime::now(),
        cache: None,
    };
    Arc::new(TraceState::new(input).expect("there are random numbers"))
}

fn demo(name: &str) -> Arc<TraceState> {
    state(&[&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name)])
}

/// A terminal of some size, and the program in it.
struct Shown {
    app: App,
    terminal: Terminal<TestBackend>,
}

impl Shown {
    /// Traces that are read already.
    fn new(state: Arc<TraceState>, (width, height): (u16, u16)) -> Shown {
        state.read();
        let app = App::new(state, TuiSettings { gmt: true, ..TuiSettings::default() });
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("it needs no terminal");
        Shown { app, terminal }
    }

    /// Presses keys, one after the other.
    fn keys(&mut self, keys: &str) -> &mut Self {
        for key in keys.chars() {
            self.app.press(if key == '\n' { KeyPress::Enter } else { KeyPress::Char(key) });
            self.wait();
        }
        self
    }

    fn press(&mut self, key: KeyPress) -> &mut Self {
        self.app.press(key);
        self
    }

    fn wait(&mut self) {
        while {
            self.app.poll();
            self.app.is_busy()
        } {
            std::thread::yield_now();
        }
    }

    /// The lines on the screen, without blanks at their ends.
    fn lines(&mut self) -> Vec<String> {
        self.wait();
        self.terminal.draw(|frame| draw(&mut self.app, frame)).expect("it needs no terminal");
        let buffer = self.terminal.backend().buffer();
        let line = |row: &[ratatui::buffer::Cell]| {
            let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.trim_end().to_string()
        };
        buffer.content.chunks(usize::from(buffer.area.width)).map(line).collect()
    }

    fn text(&mut self) -> String {
        self.lines().join("\n")
    }

    /// The line that is marked.
    fn chosen(&mut self) -> String {
        let lines = self.lines();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let is_marked = |row: &usize| buffer.content[row * width].modifier.contains(ratatui::style::Modifier::REVERSED);
        (0..lines.len()).find(is_marked).map(|row| lines[row].clone()).unwrap_or_default()
    }
}

#[test]
fn events_are_a_table_with_details_below() {
    let mut shown = Shown::new(demo("traces/mill"), (80, 24));
    let lines = shown.lines();
    assert_eq!(
        lines[..4],
        [
            "[1 events] 2 replay  3 report  4 graph  5 states   mill            h keys  q end",
            "event time                      since name       fields",
            "    0 08:31:10.212652163            - mill:label origin = \"blend\\t7\", stamp = \"~",
            "    1 08:31:10.212652755       592 ns mill:grind grinder = 0, lot = 0, gear = (~",
        ]
    );
    assert_eq!(lines.len(), 24);
    assert_eq!(lines[23], "1 of 2000 events");
    assert!(lines[22].starts_with("packet 0, byte "), "{}", lines[22]);
    assert!(lines[17].starts_with("header.id = extended (65535)"), "{}", lines[17]);
    shown.press(KeyPress::End);
    assert!(shown.chosen().starts_with(" 1999 "), "{}", shown.chosen());
    shown.press(KeyPress::PageUp).press(KeyPress::Home).press(KeyPress::Down);
    assert!(shown.chosen().starts_with("    1 "), "{}", shown.chosen());
}

#[test]
fn a_filter_leaves_some_events_and_says_what_is_wrong_with_it() {
    let mut shown = Shown::new(demo("traces/mill"), (100, 24));
    shown.keys("Fname == \"mill:bell\"\n");
    assert!(shown.text().contains("1 of 8 events   filter name == \"mill:bell\""), "{}", shown.text());
    shown.press(KeyPress::End);
    let last = shown.chosen();
    assert!(last.contains("mill:bell"), "{last}");
    // The text stands there when it is asked for again.
    shown.keys("F");
    assert!(shown.text().ends_with("filter: name == \"mill:bell\"_"));
    shown.press(KeyPress::Escape).keys("F");
    for _ in 0..40 {
        shown.press(KeyPress::Backspace);
    }
    shown.keys("nam ==\n");
    assert!(
        shown.text().ends_with("expected a path or a value, found the end of the expression"),
        "{}",
        shown.text().lines().last().unwrap_or_default()
    );
    assert!(shown.keys("j").text().contains("2 of 2000 events"));
}

#[test]
fn the_range_narrows_all_screens() {
    let mut shown = Shown::new(demo("traces/mill"), (120, 24));
    shown.keys("jjjj<").press(KeyPress::Down).press(KeyPress::Down).keys(">");
    assert!(
        shown.text().contains("3 of 3 events   08:31:10.213474039 to 08:31:10.213474640, 601 ns"),
        "{}",
        shown.text()
    );
    let report = shown.keys("3").text();
    assert!(report.contains("2 names"), "{report}");
    assert!(shown.keys("1=").text().contains("7 of 2000 events"), "{}", shown.text());
    // A time as `--begin` takes it.
    shown.keys("t+100ms\n");
    assert!(shown.chosen().contains("08:31:10.3"), "{}", shown.chosen());
    assert!(shown.keys("tsoon\n").text().contains("`soon`"));
}

#[test]
fn names_are_searched_in_both_directions() {
    let mut shown = Shown::new(demo("traces/mill"), (100, 24));
    let numbers = |shown: &mut Shown| shown.chosen().split_whitespace().next().unwrap_or_default().to_string();
    shown.keys("/BELL\n");
    let first = numbers(&mut shown);
    shown.keys("N");
    let second = numbers(&mut shown);
    assert!(shown.chosen().contains("mill:bell") && first != second);
    assert_eq!((shown.keys("P").chosen().contains("mill:bell"), numbers(&mut shown)), (true, first));
    assert!(shown.keys("/nothing like this\n").text().contains("is in no name after this line"));
}

#[test]
fn calls_are_indented_and_folded() {
    let mut shown = Shown::new(demo("calls/tasting"), (100, 24));
    let lines = shown.keys("2").lines();
    assert!(lines[1].starts_with("time                  duration     tid call"), "{}", lines[1]);
    assert!(lines[2].ends_with("  12529   main"), "{}", lines[2]);
    assert!(lines[4].ends_with("  12529       strlen"), "{}", lines[4]);
    shown.press(KeyPress::Down).keys("\n");
    assert!(shown.chosen().contains("  + std::__cxx11::basic_string::basic_string"), "{}", shown.chosen());
    shown.press(KeyPress::Down);
    assert!(shown.chosen().ends_with("    std::vector::vector"), "{}", shown.chosen());
    // To the caller, which closes over all.
    shown.keys("u\n");
    assert!(shown.chosen().ends_with("+ main"), "{}", shown.chosen());
    let below: Vec<String> = shown.lines()[3..].iter().filter(|line| line.contains("12529")).cloned().collect();
    assert_eq!(below, Vec::<String>::new());
    shown.keys("\n");
    // The outermost calls alone.
    let outermost = shown.keys("[[[[[[[[[").text();
    assert!(outermost.contains("depth 1") && !outermost.contains("basic_string"), "{outermost}");
    assert!(shown.keys("]]]]]]]]]]").press(KeyPress::End).text().contains("  in "), "{}", shown.text());
    shown.keys("T");
    assert!(shown.text().contains("task 12529 tasting"), "{}", shown.text());
}

#[test]
fn each_call_is_met_in_both_directions() {
    let state = demo("calls/tasting");
    let mut shown = Shown::new(state, (100, 24));
    shown.keys("2");
    let mut down = vec![shown.chosen()];
    loop {
        let next = shown.press(KeyPress::Down).chosen();
        if down.last() == Some(&next) {
            break;
        }
        down.push(next);
    }
    assert_eq!(down.len(), 92);
    let mut up = vec![shown.chosen()];
    loop {
        let next = shown.press(KeyPress::Up).chosen();
        if up.last() == Some(&next) {
            break;
        }
        up.push(next);
    }
    up.reverse();
    assert_eq!(down, up);
    shown.press(KeyPress::End);
    assert_eq!(Some(&shown.chosen()), down.last());
    let paged = shown.press(KeyPress::Home).press(KeyPress::PageDown).chosen();
    assert!(down.contains(&paged) && paged != down[0]);
}

#[test]
fn the_report_keeps_its_function_when_the_key_changes() {
    let mut shown = Shown::new(demo("calls/tasting"), (80, 24));
    let lines = shown.keys("3").lines();
    assert_eq!(lines[1], "    total v        self       calls         p99         max name");
    assert_eq!(lines[2], "   7.460 ms    7.460 ms          11    1.672 ms    1.672 ms linux:schedule");
    assert_eq!(lines[3], "   4.300 ms  131.529 us           9  649.383 us  649.383 us usleep");
    let mut shown = Shown::new(demo("calls/tasting"), (100, 24));
    shown.keys("3");
    shown.keys("/join\n");
    assert!(shown.chosen().ends_with("std::thread::join"));
    for _ in 0..10 {
        shown.keys("s");
        assert!(shown.chosen().ends_with("std::thread::join"), "{}", shown.text());
    }
    let lines = shown.keys("ssssssssss").press(KeyPress::Home).lines();
    assert!(lines[2].ends_with("linux:schedule"), "{}", lines[2]);
}

#[test]
fn the_graph_is_folded_and_of_one_function() {
    let mut shown = Shown::new(demo("calls/tasting"), (100, 40));
    let all = shown.keys("4").text();
    assert!(all.contains("39 lines") && all.contains("- main"), "{all}");
    assert!(shown.keys("\n").text().contains("+ main"));
    assert!(shown.keys("\nC").text().matches("+ ").count() > 2, "{}", shown.text());
    shown.keys("E/tasting::leave\ng");
    let of_leave = shown.text();
    assert!(of_leave.contains("of tasting::leave"), "{of_leave}");
    assert!(of_leave.lines().nth(2).is_some_and(|line| line.contains(" 100.0 - tasting::leave")), "{of_leave}");
    assert!(shown.keys("G").text().contains("39 lines"));
    // From the report, before the tree of all was asked for; it stays that of the function in another range.
    let mut shown = Shown::new(demo("calls/tasting"), (100, 40));
    let from_report = shown.keys("3/leave\ng").text();
    assert_eq!(from_report.lines().skip(1).collect::<Vec<_>>(), of_leave.lines().skip(1).collect::<Vec<_>>());
    let narrower = shown.keys("2/rinse\n<4").text();
    assert!(narrower.contains("of tasting::leave") && narrower.contains(" to "), "{narrower}");
}

#[test]
fn the_density_is_a_line() {
    let mut shown = Shown::new(demo("traces/mill"), (80, 24));
    let lines = shown.keys("w").lines();
    assert!(lines[1].contains('█') && lines[1].chars().count() <= 80, "{}", lines[1]);
    assert!(shown.keys("jj<").lines()[1].starts_with('['));
}

#[test]
fn help_lists_the_keys_and_any_key_ends_it() {
    let mut shown = Shown::new(demo("traces/mill"), (80, 24));
    let help = shown.keys("h").text();
    assert!(help.contains("PageUp PageDown") && help.contains("q                "), "{help}");
    assert!(!help.contains('~'), "a line is cut: {help}");
    assert!(shown.keys("x").text().contains("1 of 2000 events"));
    assert!(shown.keys("x").text().contains("`x` does nothing here"));
    assert!(!shown.app.is_ended() && shown.keys("q").app.is_ended());
}

#[test]
fn a_trace_that_is_being_read_shows_its_first_events() {
    let state = demo("traces/mill");
    let mut app = App::new(state, TuiSettings { gmt: true, ..TuiSettings::default() });
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("it needs no terminal");
    terminal.draw(|frame| draw(&mut app, frame)).expect("it needs no terminal");
    let text = terminal.backend().to_string();
    assert!(text.contains("counting events") && text.contains("mill:label"), "{text}");
    for key in ['2', '3', '4', '1', 'w', 'h'] {
        app.press(KeyPress::Char(key));
        app.poll();
        terminal.draw(|frame| draw(&mut app, frame)).expect("it needs no terminal");
    }
}

#[test]
fn every_size_and_every_trace_is_shown() {
    let names =
        ["traces/losses", "traces/overwritten", "logs/belt.cpel", "logs/dock.elog", "calls/tasting", "kernel/bakery"];
    for name in names {
        let state = demo(name);
        state.read();
        for size in [(1, 1), (2, 3), (10, 5), (80, 24), (300, 100)] {
            let mut shown = Shown {
                app: App::new(state.clone(), TuiSettings::default()),
                terminal: Terminal::new(TestBackend::new(size.0, size.1)).expect("it needs no terminal"),
            };
            for screen in ["1", "2", "3", "4", "w", "h"] {
                shown.keys(screen).lines();
                shown
                    .press(KeyPress::PageDown)
                    .press(KeyPress::End)
                    .press(KeyPress::Up)
                    .press(KeyPress::PageUp)
                    .lines();
            }
        }
    }
    assert!(Shown::new(demo("traces/losses"), (100, 24)).text().contains(" events lost"), "losses are told");
}

#[test]
fn commands_are_lines_where_the_screen_is_not_seen() {
    let state = demo("calls/tasting");
    let reader = state.clone();
    let reading = std::thread::spawn(move || reader.read());
    let app = App::new(state, TuiSettings { is_plain: true, gmt: true, ..TuiSettings::default() });
    let commands = "2\n\n/spit\nd\n3\ns\n4\nF name ==\nh\nq\nnot read\n";
    let mut out = Vec::new();
    run_plain(app, commands.as_bytes(), &mut out).expect("memory can be written");
    reading.join().expect("it ends");
    let text = String::from_utf8(out).expect("text");
    assert!(text.starts_with("events: 1 of 201 events\nevent time"), "{text}");
    assert!(!text.contains('\u{1b}'), "nothing moves the cursor");
    assert!(text.contains("\nreplay: 92 calls\ntime                  duration     tid call\n"), "{text}");
    assert!(text.contains("tasting::spit\n"), "{text}");
    // The second page begins after the first.
    let pages: Vec<&str> = text.split("replay: 92 calls\n").collect();
    let first: Vec<&str> = pages[1].lines().skip(1).take(20).collect();
    let second: Vec<&str> = pages[2].lines().skip(1).take(20).collect();
    assert!(second.iter().all(|line| !first.contains(line)), "{text}");
    assert!(text.contains("\nreport: 27 names\n") && text.contains("\ngraph: 39 lines\n"), "{text}");
    assert!(text.contains("\nevents: expected a path or a value") && text.contains("\nq: end\n"), "{text}");
}

#[test]
fn samples_are_added_up_where_there_are_no_calls() {
    let mut shown = Shown::new(demo("samples/bakery.data"), (100, 30));
    let text = shown.keys("3").text();
    assert!(text.contains("samples of sched_switch"), "{text}");
    let text = shown.keys("v").text();
    assert!(text.contains("samples of cpu-clock/period=4000000/"), "{text}");
    // Without symbols functions have no names.
    assert!(shown.chosen().contains("120.000 ms        0 ns          30 [bakery+"), "{}", shown.chosen());
    shown.keys("4");
    assert!(shown.text().contains("  total        self   samples      % function"));
    assert!(shown.chosen().contains(" 120.000 ms        0 ns        30  100.0 - [bakery+"), "{}", shown.chosen());
    let whole = shown.lines().len();
    shown.keys("g");
    assert!(shown.text().contains("of [bakery+"), "{}", shown.text());
    assert_eq!(shown.lines().len(), whole);
    shown.keys("2");
    assert!(shown.text().contains("there are no calls in these traces"));
}

/// The meaning of letters.
const LETTERS: [(char, &str); 13] = [
    ('?', "unknown"),
    ('u', "user"),
    ('s', "system call"),
    ('t', "trap"),
    ('k', "kernel"),
    ('i', "interrupt"),
    ('o', "softirq"),
    ('r', "runnable"),
    ('-', "blocked"),
    ('n', "new"),
    ('e', "exiting"),
    ('z', "zombie"),
    ('_', "suspended"),
];

#[test]
fn states_are_the_longest_ones_of_each_column() {
    let state = demo("kernel/bakery");
    let mut shown = Shown::new(state.clone(), (100, 50));
    let lines = shown.keys("5").lines();
    assert!(lines[0].contains("[5 states]") && lines[1].starts_with("track "), "{lines:?}");
    let kept = state.states().expect("a kernel's trace");
    let (Some(begin), Some(end)) = state.ends() else { panic!("it has times") };
    let mut compared = 0;
    for (track, line) in kept.states.tracks.iter().enumerate().zip(&lines[2..30]) {
        let ((at, track), line) = (track, format!("{line:100}"));
        let signs: Vec<char> = line.chars().collect();
        assert!(line.starts_with(&format!("{} ", track.name)), "{line}");
        let lane = track.depth() - 1;
        for column in 0..69 {
            let edge = |column: i128| begin + (end - begin + 1) * column / 69;
            let (from, to) = (edge(column), edge(column + 1));
            let mut times = std::collections::BTreeMap::new();
            for piece in kept.states.pieces(at).filter(|piece| piece.depth as usize == lane) {
                let time = piece.to.min(to) - piece.from.max(from);
                if time > 0 {
                    *times.entry(&*kept.states.names[piece.name as usize]).or_insert(0) += time;
                }
            }
            let longest = times.values().copied().max();
            let sign = signs[31 + column as usize];
            let word = LETTERS.iter().find(|(letter, _)| *letter == sign).map(|(_, word)| *word);
            assert_eq!(word.and_then(|word| times.get(word).copied()), longest, "{} {column}: {line}", track.name);
            compared += usize::from(longest.is_some());
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn a_track_has_its_visits_and_these_their_events() {
    let state = demo("kernel/bakery");
    let mut shown = Shown::new(state.clone(), (100, 30));
    let text = shown.keys("5/oven-1\n").text();
    assert!(shown.chosen().starts_with("oven-1 641 "), "{text}");
    // Letters, shares and numbers of its states stand below.
    let blocked = text.lines().find(|line| line.starts_with("-  blocked ")).expect("it was blocked");
    assert!(blocked.contains(" % ") && blocked.ends_with(" times"), "{blocked}");
    let kept = state.states().expect("a kernel's trace");
    let track = kept.states.tracks.iter().position(|track| track.name == "oven-1 641").expect("oven-1");
    let pieces: Vec<_> = kept.states.pieces(track).collect();
    let status = shown.keys("\n").lines().pop().expect("a status");
    assert!(status.starts_with(&format!("1 of {} visits of oven-1 641", pieces.len())), "{status}");
    // The next one that was blocked, its event, and back.
    let line = shown.keys("/blocked\n").chosen();
    let first = pieces.iter().skip(1).find(|piece| kept.states.names[piece.name as usize] == "blocked");
    let index = state.index().expect("it was read");
    let at = first.expect("it was blocked").from;
    assert!(line.ends_with("  blocked"), "{line}");
    let event = shown.keys("\n").chosen();
    let number = (0..index.events()).find(|event| index.ns(*event).is_some_and(|ns| ns >= at)).expect("an event");
    assert_eq!(event.split_whitespace().next(), Some(&*number.to_string()), "{event}");
    // The range begins at a visit, and other visits are left out.
    let status = shown.keys("5<").lines().pop().expect("a status");
    let left = pieces.iter().filter(|piece| piece.to > at).count();
    assert!(status.starts_with(&format!("1 of {left} visits")), "{status}");
    assert!(shown.keys("u").text().contains("track "));
}

#[test]
fn traces_without_states_say_so() {
    let text = Shown::new(demo("traces/mill"), (100, 24)).keys("5").text();
    assert!(text.contains("there are no states in these traces"), "{text}");
}
