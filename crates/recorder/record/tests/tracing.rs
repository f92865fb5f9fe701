//! Events and spans of the crate `tracing`, recorded by the subscriber and by the layer, and read back.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracemill_record::tracing::{Layer, Subscriber};
use tracemill_record::{Format, Recorder};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

/// One recorder a process at a time.
static ONE: Mutex<()> = Mutex::new(());

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tracemill-record-tracing-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// Name and fields of each event. Names of events, which have their line, end at the file.
fn events(path: &Path) -> Vec<String> {
    let traces = tracemill::open([path]).expect("a trace");
    let line = |event: tracemill::Result<tracemill::Event<'_>>| {
        let event = event.expect("a sound event");
        let fields = event.fields().expect("sound fields");
        let fields = fields.filter(|field| field.path.starts_with("payload.") && !field.path.ends_with("_length"));
        let fields: Vec<_> = fields.map(|field| format!(" {}={}", &field.path[8..], field.value)).collect();
        let name = event.name();
        let name = name.split_once(' ').map_or(&*name, |(name, _)| name).to_string();
        name + &fields.concat()
    };
    traces.events().into_iter().map(line).collect()
}

/// A call site that fills its fields in several ways.
fn optional(a: Option<u64>, b: Option<&str>) {
    tracing::info!(target: "t", a, b);
}

#[derive(Debug)]
#[expect(dead_code, reason = "only `Debug` reads it")]
struct Point {
    x: i32,
}

fn work() {
    tracing::info!(target: "t", u = 1_u64, i = -2_i64, f = 0.5, b = true, s = "Mühle", "five {}", 5);
    tracing::warn!(target: "t", wide = u128::MAX, point = ?Point { x: 1 }, long = "ü".repeat(5000));
    // More fields than a number of eight bytes has room for, and a text where no room is left.
    tracing::info!(target: "t", a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = ?8, i = "x", j = -10, k = ?"", l = true);
    tracing::info!(target: "t", a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = ?8, i = "x", j = -10, k = ?"", l = 0.5);
    optional(Some(1), None);
    optional(None, Some("x"));
    optional(Some(2), None);
    let outer = tracing::info_span!(target: "t", "outer", id = 7_u32, late = tracing::field::Empty);
    outer.in_scope(|| {
        let inner = tracing::debug_span!(target: "t", "inner").entered();
        outer.record("late", "now");
        let copy = inner.clone();
        drop(inner);
        copy.in_scope(|| tracing::error!(target: "t", "deep"));
    });
    outer.in_scope(|| ());
    tracing::trace!(target: "t", "beyond");
}

fn expected() -> Vec<String> {
    let long = "ü".repeat(4095 / 2);
    [
        "t:event message=five 5 u=1 i=-2 f=0.5 b=true s=Mühle",
        &format!("t:event wide={} point=Point {{ x: 1 }} long={long}", u128::MAX),
        "t:event a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=x j=-10 k=\"\" l=true",
        "t:event a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=x j=-10 k=\"\" l=0.5",
        "t:event a=1",
        "t:event b=x",
        "t:event a=2",
        "t:outer_entry span_id=1 parent_span_id=0 id=7",
        "t:inner_entry span_id=2 parent_span_id=1",
        "t:outer_record span_id=1 late=now",
        "t:inner_exit span_id=2",
        "t:inner_entry span_id=2 parent_span_id=1",
        "t:event message=deep",
        "t:inner_exit span_id=2",
        "t:inner_close span_id=2",
        "t:outer_exit span_id=1",
        "t:outer_entry span_id=1 parent_span_id=0 id=7",
        "t:outer_exit span_id=1",
        "t:outer_close span_id=1",
    ]
    .map(String::from)
    .into()
}

/// Numbers of spans as those of their first appearance: they go on through the process.
fn renumbered(lines: Vec<String>) -> Vec<String> {
    let mut known = vec!["0".to_string()];
    let mut word = |word: &str| match word.split_once("span_id=") {
        Some((before, id)) => {
            let at = known.iter().position(|known| known == id).unwrap_or_else(|| {
                known.push(id.to_string());
                known.len() - 1
            });
            format!("{before}span_id={at}")
        }
        None => word.to_string(),
    };
    lines.into_iter().map(|line| line.split(' ').map(&mut word).collect::<Vec<_>>().join(" ")).collect()
}

/// The events of the subscriber, and of the layer, up to `Level::DEBUG`: both have to keep the whole contract of `tracing`.
fn of_both(name: &str, work: fn()) -> [Vec<String>; 2] {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let levels = tracing_subscriber::filter::LevelFilter::DEBUG;
    let layer = tracing_subscriber::Layer::<tracing_subscriber::Registry>::with_filter(Layer::new(), levels);
    let dispatches = [
        tracing::Dispatch::new(Subscriber::new().with_max_level(Level::DEBUG)),
        tracing::Dispatch::new(tracing_subscriber::registry().with(layer)),
    ];
    dispatches.map(|dispatch| {
        let path = folder(name);
        let recorder = Recorder::options(&path).start().expect("it starts");
        tracing::dispatcher::with_default(&dispatch, work);
        assert_eq!(recorder.finish().expect("it finishes").discarded, 0);
        let lines = renumbered(events(&path));
        std::fs::remove_dir_all(path).expect("it is removed");
        lines
    })
}

/// Both record this.
#[track_caller]
fn assert_both(name: &str, work: fn(), expected: &[&str]) {
    let [subscriber, layer] = of_both(name, work);
    assert_eq!(subscriber, expected, "the subscriber");
    assert_eq!(layer, expected, "the layer");
}

#[test]
fn subscriber_and_layer_record_the_same() {
    let expected = expected();
    assert_both("same", work, &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

/// `Span::current()` is the innermost span of the thread, whose values may be recorded wherever it is at hand.
#[test]
fn the_current_span_is_known() {
    let work = || {
        assert!(tracing::Span::current().is_none());
        let outer = tracing::info_span!(target: "t", "outer", late = tracing::field::Empty).entered();
        tracing::Span::current().record("late", 1);
        {
            let inner = tracing::debug_span!(target: "t", "inner", late = tracing::field::Empty);
            let _inner = inner.enter();
            // Entered twice, it is left twice, and the outer one is not the current one meanwhile.
            inner.in_scope(|| assert_eq!(tracing::Span::current().id(), inner.id()));
            assert_eq!(tracing::Span::current().id(), inner.id());
            tracing::Span::current().record("late", "two");
            // A span beyond the level is none, and changes nothing.
            let _beyond = tracing::trace_span!(target: "t", "beyond").entered();
            assert_eq!(tracing::Span::current().metadata().map(|metadata| metadata.name()), Some("inner"));
        }
        tracing::Span::current().record("late", 3.5);
        // Left in another order than entered.
        let (first, second) = (tracing::info_span!(target: "t", "first"), tracing::info_span!(target: "t", "second"));
        let (in_first, in_second) = (first.enter(), second.enter());
        drop(in_first);
        assert_eq!(tracing::Span::current().id(), second.id());
        drop(in_second);
        assert_eq!(tracing::Span::current().id(), outer.id());
    };
    let expected = [
        "t:outer_entry span_id=1 parent_span_id=0",
        "t:outer_record span_id=1 late=1",
        "t:inner_entry span_id=2 parent_span_id=1",
        "t:inner_entry span_id=2 parent_span_id=1",
        "t:inner_exit span_id=2",
        "t:inner_record span_id=2 late=two",
        "t:inner_exit span_id=2",
        "t:inner_close span_id=2",
        "t:outer_record span_id=1 late=3.5",
        "t:first_entry span_id=3 parent_span_id=1",
        "t:second_entry span_id=4 parent_span_id=1",
        "t:first_exit span_id=3",
        "t:second_exit span_id=4",
        "t:second_close span_id=4",
        "t:first_close span_id=3",
        "t:outer_exit span_id=1",
        "t:outer_close span_id=1",
    ];
    assert_both("current", work, &expected);
}

#[test]
fn parents_and_predecessors_may_be_given() {
    let work = || {
        let root = tracing::info_span!(target: "t", parent: None, "root");
        let _in_other = tracing::info_span!(target: "t", "other").entered();
        let child = tracing::info_span!(target: "t", parent: &root, "child", n = 1);
        let alone = tracing::info_span!(target: "t", parent: None, "alone");
        child.follows_from(&alone);
        child.follows_from(&tracing::trace_span!(target: "t", "beyond"));
        tracing::info!(target: "t", parent: &root, x = 1, "of the root");
        tracing::info!(target: "t", parent: None, "of nobody");
        tracing::info!(target: "t", "of the other");
        child.in_scope(|| tracing::info_span!(target: "t", "grandchild").in_scope(|| ()));
        // The child keeps its parent open.
        drop(root);
        tracing::info!(target: "t", "still open");
        drop(child);
    };
    let expected = [
        "t:other_entry span_id=1 parent_span_id=0",
        "t:child_follows span_id=2 follows_span_id=3",
        "t:event parent_span_id=4 message=of the root x=1",
        "t:event parent_span_id=0 message=of nobody",
        "t:event message=of the other",
        "t:child_entry span_id=2 parent_span_id=4 n=1",
        "t:grandchild_entry span_id=5 parent_span_id=2",
        "t:grandchild_exit span_id=5",
        "t:grandchild_close span_id=5",
        "t:child_exit span_id=2",
        "t:event message=still open",
        "t:child_close span_id=2",
        "t:root_close span_id=4",
        "t:alone_close span_id=3",
        "t:other_exit span_id=1",
        "t:other_close span_id=1",
    ];
    assert_both("parents", work, &expected);
}

/// A span ends with its last handle, in whatever thread, and threads may be in it at the same time.
#[test]
fn spans_end_with_their_last_handle() {
    let work = || {
        let span = tracing::info_span!(target: "t", "shared");
        let copies: Vec<_> = (0..3).map(|_| span.clone()).collect();
        drop(span);
        let dispatch = tracing::dispatcher::get_default(tracing::Dispatch::clone);
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for copy in copies {
                let (dispatch, barrier) = (&dispatch, &barrier);
                scope.spawn(move || {
                    tracing::dispatcher::with_default(dispatch, || {
                        let inside = copy.enter();
                        barrier.wait();
                        assert_eq!(tracing::Span::current().id(), copy.id());
                        drop(inside);
                        barrier.wait();
                    });
                });
            }
        });
        tracing::info!(target: "t", "over");
    };
    for lines in of_both("shared", work) {
        let count = |text: &str| lines.iter().filter(|line| line.starts_with(text)).count();
        let counts =
            ["t:shared_entry span_id=1 parent_span_id=0", "t:shared_exit span_id=1", "t:shared_close span_id=1"];
        assert_eq!(counts.map(count), [3, 3, 1], "{lines:?}");
        assert_eq!(lines[lines.len() - 2..], ["t:shared_close span_id=1", "t:event message=over"]);
    }
}

/// A thread may be in spans of several subscribers: each knows its own.
#[test]
fn subscribers_do_not_mix_their_spans() {
    let work = || {
        let outer = tracing::info_span!(target: "t", "outer").entered();
        let id = outer.id();
        tracing::subscriber::with_default(Subscriber::new(), || {
            assert!(tracing::Span::current().is_none());
            let inner = tracing::info_span!(target: "t", "inner").entered();
            assert_eq!(tracing::Span::current().id(), inner.id());
        });
        assert_eq!(tracing::Span::current().id(), id);
    };
    let expected = [
        "t:outer_entry span_id=1 parent_span_id=0",
        "t:inner_entry span_id=2 parent_span_id=0",
        "t:inner_exit span_id=2",
        "t:inner_close span_id=2",
        "t:outer_exit span_id=1",
        "t:outer_close span_id=1",
    ];
    assert_both("several", work, &expected);
}

fn never() -> u32 {
    panic!("it is not evaluated")
}

#[test]
fn what_is_beyond_the_level_is_not_evaluated() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    tracing::subscriber::with_default(Subscriber::new().with_max_level(Level::INFO), || {
        assert!(tracing::enabled!(Level::INFO) && !tracing::enabled!(Level::DEBUG));
        tracing::debug!("{}", never());
    });
}

#[test]
fn classes_have_levels() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let known = [(Format::Ctf2, "\"log-level\": \"warning\""), (Format::Ctf18, "loglevel = 4;")];
    for (format, level) in known {
        let path = folder("levels");
        let recorder = Recorder::options(&path).format(format).filter("-*,t:*").start().expect("it starts");
        tracing::subscriber::with_default(Subscriber::new(), || {
            tracing::warn!(target: "t", "kept");
            tracing::info!(target: "u", "off");
        });
        recorder.finish().expect("it finishes");
        let metadata = std::fs::read_to_string(path.join("metadata")).expect("metadata");
        assert!(metadata.contains(level), "{metadata}");
        assert_eq!(events(&path), ["t:event message=kept"]);
        std::fs::remove_dir_all(path).expect("it is removed");
    }
}

/// A place for each level, of one name.
fn spans() {
    let _info = tracing::info_span!(target: "t", "same").entered();
    let _warn = tracing::warn_span!(target: "t", "same").entered();
}

/// Names of fields may have dots; TSDL knows only letters.
#[test]
fn names_of_fields_are_readable_in_both_dialects() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (format, dot) in [(Format::Ctf2, "."), (Format::Ctf18, "_")] {
        let path = folder("names");
        let recorder = Recorder::options(&path).format(format).start().expect("it starts");
        tracing::subscriber::with_default(Subscriber::new(), || {
            tracing::info!(http.path = "/x", http.way = 1);
            tracing::info!(a_b = 1, a.b = 2);
            spans();
        });
        recorder.finish().expect("it finishes");
        // Two of one name are told apart.
        let second = if dot == "." { "a.b" } else { "a_b_" };
        let expected = [
            &format!("tracing:event http{dot}path=/x http{dot}way=1"),
            &format!("tracing:event a_b=1 {second}=2"),
            "t:same_entry span_id=1 parent_span_id=0",
            "t:same_entry span_id=2 parent_span_id=1",
            "t:same_exit span_id=2",
            "t:same_close span_id=2",
            "t:same_exit span_id=1",
            "t:same_close span_id=1",
        ];
        assert_eq!(renumbered(events(&path)), expected);
        let metadata = std::fs::read_to_string(path.join("metadata")).expect("metadata");
        let levels = [["\"info\"", "\"warning\""], ["loglevel = 6;", "loglevel = 4;"]];
        let levels = levels[usize::from(format == Format::Ctf18)];
        // Of the entry, the exit and the close, and of the two events.
        assert_eq!(levels.map(|level| metadata.matches(level).count()), [5, 3], "{metadata}");
        std::fs::remove_dir_all(path).expect("it is removed");
    }
}

/// A value that records an event while it is shown.
struct Chatty(u64);

impl std::fmt::Debug for Chatty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        tracemill_record::event!(target: "t", "event", inner = self.0);
        f.write_str("shown")
    }
}

/// In slots that are full again and again.
#[test]
fn values_may_record_events_while_they_are_shown() {
    const COUNT: u64 = 2000;
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = folder("chatty");
    let recorder = Recorder::options(&path).block(64 << 10).packet(4096).start().expect("it starts");
    tracing::subscriber::with_default(Subscriber::new(), || {
        (0..COUNT).for_each(|number| tracing::info!(target: "t", number, chatty = ?Chatty(number)));
    });
    assert_eq!(recorder.finish().expect("it finishes").discarded, 0);
    let expected = |number| [format!("t:event inner={number}"), format!("t:event number={number} chatty=shown")];
    assert!(events(&path).into_iter().eq((0..COUNT).flat_map(expected)));
    std::fs::remove_dir_all(path).expect("it is removed");
}

/// Of 40 fields the first 32 are recorded, and a late value of one beyond is none.
#[test]
fn fields_beyond_the_limit_are_left_out() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = folder("many");
    let recorder = Recorder::options(&path).start().expect("it starts");
    tracing::subscriber::with_default(Subscriber::new(), || {
        use tracing::field::Empty;
        tracing::info!(
            target: "t", f0 = 0, f1 = 1, f2 = 2, f3 = 3, f4 = 4, f5 = 5, f6 = 6, f7 = 7, f8 = 8, f9 = 9, f10 = 10, f11 = 11, f12 = 12, f13 = 13, f14 = 14, f15 = 15, f16 = 16, f17 = 17, f18 = 18, f19 = 19, f20 = 20, f21 = 21, f22 = 22, f23 = 23, f24 = 24, f25 = 25, f26 = 26, f27 = 27, f28 = 28, f29 = 29, f30 = 30, f31 = 31, f32 = 32, f33 = 33, f34 = 34, f35 = 35, f36 = 36, f37 = 37, f38 = 38, f39 = 39
        );
        let span = tracing::info_span!(
            target: "t", "wide", f0 = Empty, f1 = Empty, f2 = Empty, f3 = Empty, f4 = Empty, f5 = Empty, f6 = Empty, f7 = Empty, f8 = Empty, f9 = Empty, f10 = Empty, f11 = Empty, f12 = Empty, f13 = Empty, f14 = Empty, f15 = Empty, f16 = Empty, f17 = Empty, f18 = Empty, f19 = Empty, f20 = Empty, f21 = Empty, f22 = Empty, f23 = Empty, f24 = Empty, f25 = Empty, f26 = Empty, f27 = Empty, f28 = Empty, f29 = Empty, f30 = Empty, f31 = Empty, f32 = Empty, f33 = Empty, f34 = Empty, f35 = Empty, f36 = Empty, f37 = Empty, f38 = Empty, f39 = Empty
        );
        span.record("f35", 35);
        span.record("f31", 31).record("f32", 32);
        span.in_scope(|| tracing::info!(target: "t", "inside"));
    });
    assert_eq!(recorder.finish().expect("it finishes").discarded, 0);
    let kept: String = (0..32).map(|number| format!(" f{number}={number}")).collect();
    let expected = [
        &format!("t:event{kept}"),
        "t:wide_record span_id=1",
        "t:wide_record span_id=1 f31=31",
        "t:wide_record span_id=1",
        "t:wide_entry span_id=1 parent_span_id=0",
        "t:event message=inside",
        "t:wide_exit span_id=1",
        "t:wide_close span_id=1",
    ];
    assert_eq!(renumbered(events(&path)), expected);
    std::fs::remove_dir_all(path).expect("it is removed");
}
