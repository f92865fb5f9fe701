//! An expression meets the traces: paths are found, kinds are checked, and what the classes alone decide is decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracemill_codec::text::edit_distance;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EventClassId, FieldKind, Length, Schema, Scope};

use super::matcher::Scene;
use super::number::bounds_of;
use super::resolve::{self, ComparableKind, FieldPlace, Miss, PathPlace};
use super::syntax::{Compare, Op, Operand, Path, PathHead, Right, StepKind, SyntaxStep, Test};
use super::{Expression, TimeContext, eval};
use crate::session::Session;

/// A bound expression.
pub(super) struct Bound {
    pub test: Test,
    pub paths: Vec<Path>,
    pub traces: Vec<BoundTrace>,
    /// First and last ns that can match; `None` for all.
    pub time_range: Option<(i128, i128)>,
    /// Do class and time decide everything?
    pub is_decided: bool,
}

/// Facts about a trace.
pub(super) struct BoundTrace {
    pub schema: Arc<Schema>,
    pub name: String,
    /// Names of the streams.
    pub streams: Vec<String>,
    /// For each event class: do its events match? `None` when that depends on the event.
    pub verdicts: Vec<Option<bool>>,
    /// For each stream class and path: the place in the packet context.
    pub packet_places: Vec<Vec<Option<FieldPlace>>>,
}

/// The places of all paths in an event class.
pub(super) fn places(schema: &Schema, class: EventClassId, paths: &[Path]) -> Vec<PathPlace> {
    paths.iter().map(|path| resolve::resolve(schema, class, path).unwrap_or(PathPlace::Absent)).collect()
}

pub(super) fn bind(expression: &Expression, session: &Session, times: &TimeContext) -> Result<Bound> {
    let source = &*expression.source;
    let test = resolve_times(&expression.test, source, times)?;
    let mut checker = Checker::new(source, &test, &expression.paths);
    let mut traces = Vec::new();
    for trace in &session.traces {
        let schema = trace.schema.clone();
        let mut bound = BoundTrace {
            name: trace.name.clone(),
            streams: trace.streams.iter().map(|stream| stream.name.clone()).collect(),
            verdicts: Vec::with_capacity(schema.events().len()),
            packet_places: vec![vec![None; expression.paths.len()]; schema.streams().len()],
            schema,
        };
        for at in 0..bound.schema.events().len() {
            let class = EventClassId(at as u32);
            let places = checker.check_class(&bound.schema, class);
            let stream = bound.schema.event(class).stream.0 as usize;
            for (path, place) in places.iter().enumerate() {
                if let PathPlace::Field(place) = place
                    && place.scope == Scope::PacketContext
                {
                    bound.packet_places[stream][path] = Some(place.clone());
                }
            }
            let scene = Scene::for_class(&bound.schema, class, &bound.name, &places);
            bound.verdicts.push(eval::evaluate(&test, &scene));
        }
        traces.push(bound);
    }
    checker.finish(session)?;
    let time_range = time_range(&test, &expression.paths);
    let is_decided = is_decided(&test, &expression.paths, &traces);
    Ok(Bound { test, paths: expression.paths.clone(), traces, time_range, is_decided })
}

/// Is every path somewhere in the session? If not, the error for the first one that is not.
pub(super) fn check_paths(source: &str, paths: &[Path], session: &Session) -> Result<()> {
    let test = Test::Const(true);
    let mut checker = Checker::new(source, &test, paths);
    for trace in &session.traces {
        for at in 0..trace.schema.events().len() {
            checker.check_class(&trace.schema, EventClassId(at as u32));
        }
    }
    checker.finish(session)
}

fn resolve_times(test: &Test, source: &str, times: &TimeContext) -> Result<Test> {
    let all = |tests: &[Test]| tests.iter().map(|test| resolve_times(test, source, times)).collect::<Result<Vec<_>>>();
    Ok(match test {
        Test::All(tests) => Test::All(all(tests)?),
        Test::Any(tests) => Test::Any(all(tests)?),
        Test::Not(inner) => Test::Not(Box::new(resolve_times(inner, source, times)?)),
        Test::Compare(compare) => match &compare.right {
            Right::Time(time) => {
                let right = Right::Instant(time.resolve(source, times)?);
                Test::Compare(Box::new(Compare { right, left: compare.left.clone(), ..**compare }))
            }
            _ => test.clone(),
        },
        test => test.clone(),
    })
}

/// Watches, class by class, whether every path is somewhere and every comparison can be true somewhere.
struct Checker<'a> {
    source: &'a str,
    paths: &'a [Path],
    /// For each path: is it found? If not, the class where it goes deepest.
    found: Vec<bool>,
    misses: Vec<Vec<(usize, EventClassId, Miss)>>,
    comparisons: Vec<Pending<'a>>,
    schemas: Vec<Arc<Schema>>,
}

/// A comparison or mask, and what is known of its kinds.
struct Pending<'a> {
    left: &'a Operand,
    compare: Option<&'a Compare>,
    can_match: bool,
    /// The kinds of a class that has both sides, when they do not fit.
    clash: Option<Clash>,
}

pub(super) enum Clash {
    /// A part of a mask is no integer.
    Mask(usize, ComparableKind),
    /// The sides cannot be compared.
    Sides(ComparableKind, Option<ComparableKind>),
}

impl<'a> Checker<'a> {
    fn new(source: &'a str, test: &'a Test, paths: &'a [Path]) -> Self {
        let mut comparisons = Vec::new();
        test.each_leaf(&mut |leaf| {
            let (left, compare) = match leaf {
                Test::Truth(operand) => (operand, None),
                Test::Compare(compare) => (&compare.left, Some(&**compare)),
                _ => return,
            };
            comparisons.push(Pending { left, compare, can_match: false, clash: None });
        });
        Checker {
            source,
            paths,
            found: vec![false; paths.len()],
            misses: vec![Vec::new(); paths.len()],
            comparisons,
            schemas: Vec::new(),
        }
    }

    /// Looks at an event class; returns the places of the paths in it.
    fn check_class(&mut self, schema: &Arc<Schema>, class: EventClassId) -> Vec<PathPlace> {
        if !self.schemas.last().is_some_and(|last| Arc::ptr_eq(last, schema)) {
            self.schemas.push(schema.clone());
        }
        let mut places = Vec::with_capacity(self.paths.len());
        for (at, path) in self.paths.iter().enumerate() {
            match resolve::resolve(schema, class, path) {
                Ok(place) => {
                    self.found[at] = true;
                    places.push(place);
                }
                Err(miss) => {
                    if !self.found[at] {
                        let misses = &mut self.misses[at];
                        let deepest = misses.first().map_or(0, |(_, _, known)| known.found);
                        if miss.found > deepest {
                            misses.clear();
                        }
                        if miss.found >= deepest {
                            misses.push((self.schemas.len() - 1, class, miss));
                        }
                    }
                    places.push(PathPlace::Absent);
                }
            }
        }
        for pending in self.comparisons.iter_mut().filter(|pending| !pending.can_match) {
            match can_be_true(pending.left, pending.compare, |path| places[path].kind(schema)) {
                Ok(can_match) => pending.can_match = can_match,
                Err(clash) => pending.clash = Some(clash),
            }
        }
        places
    }

    /// The first mistake, if there is one.
    fn finish(mut self, session: &Session) -> Result<()> {
        // Without event classes there are no events: nothing is a mistake, and nothing matches.
        if session.traces.iter().all(|trace| trace.schema.events().is_empty()) {
            return Ok(());
        }
        if let Some(at) = self.found.iter().position(|found| !found) {
            let misses = std::mem::take(&mut self.misses[at]);
            return Err(self.missing(&self.paths[at], &misses));
        }
        let mut failed = self.comparisons.iter().filter(|pending| !pending.can_match);
        failed
            .find_map(|pending| {
                let clash = pending.clash.as_ref()?;
                Some(never_true(self.source, self.paths, pending.left, pending.compare, clash))
            })
            .map_or(Ok(()), Err)
    }

    fn missing(&self, path: &Path, misses: &[(usize, EventClassId, Miss)]) -> Error {
        let found = misses.first().map_or(0, |(_, _, miss)| miss.found);
        let Some(step) = path.steps.get(found).filter(|_| !matches!(path.head, PathHead::Cpu)) else {
            return self.missing_head(path);
        };
        let inside: Vec<_> =
            misses.iter().flat_map(|(at, _, miss)| miss.inside.iter().map(move |&id| (*at, id))).collect();
        if inside.is_empty() {
            return self.missing_head(path);
        }
        let before = self.path_text(path, found);
        let message = format!("no event class of the input has `{}`", self.path_text(path, found + 1));
        let span = if found == 0 && path.head == PathHead::Bare { path.steps[0].span } else { step.span };
        let error = span.malformed(self.source, message);
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        for &(at, id) in &inside {
            match &self.schemas[at].field_class(id).kind {
                FieldKind::Struct(of) => names.extend(of.members.iter().map(|member| member.name.clone())),
                FieldKind::Variant(of) => {
                    names.extend(of.options.iter().enumerate().map(|(at, option)| resolve::option_name(at, option)));
                }
                _ => {}
            }
        }
        let (at, id) = inside[0];
        match (&self.schemas[at].field_class(id).kind, &step.kind) {
            (FieldKind::Struct(_) | FieldKind::Variant(_), StepKind::Member(name)) => {
                if path.head == PathHead::Bare && found == 0 {
                    names.extend(PathHead::SPINE.iter().map(|(word, _)| Arc::from(*word)));
                    names.extend(PathHead::SCOPES.iter().map(|scope| Arc::from(scope.key())));
                }
                let (names, is_near) = by_distance(name, names);
                match names.first() {
                    Some(near) if is_near => error.with_help(format!("did you mean `{near}`?")),
                    Some(_) => error.with_help(list(if before.is_empty() { "there are" } else { "it has" }, &names)),
                    None => error,
                }
            }
            (FieldKind::Struct(_) | FieldKind::Variant(_), StepKind::Index(_)) => {
                let names: Vec<_> = names.into_iter().collect();
                error.with_help(list(&format!("`{before}` is not an array; it has"), &names))
            }
            (FieldKind::Array(array), StepKind::Index(_)) => match array.length {
                Length::Static(length) => error.with_help(format!("`{before}` has {length} elements, counted from 0")),
                Length::Field(_) | Length::Inline(_) | Length::Table { .. } | Length::Located => error,
            },
            (FieldKind::Array(_), StepKind::Member(_)) => {
                error.with_help(format!("`{before}` is an array; `{before}[0]` is its first element"))
            }
            _ => {
                let kind = resolve::kind(&self.schemas[at], id).describe();
                error.with_help(format!("`{before}` is {kind} and has no parts"))
            }
        }
    }

    fn missing_head(&self, path: &Path) -> Error {
        let text = self.path_text(path, path.steps.len());
        let error = path.span.malformed(self.source, format!("no event class of the input has `{text}`"));
        match path.head {
            PathHead::Ns | PathHead::Time | PathHead::Cycles => error.with_help("no stream of the input has a clock"),
            PathHead::Cpu => error.with_help("no packet of the input names a cpu; the contexts of the events may"),
            PathHead::Scope(scope) => error.with_help(format!("no event class declares `{}`", scope.key())),
            PathHead::Context | PathHead::Bare => error.with_help("no event class has fields there"),
            _ => error,
        }
    }

    /// The path up to a number of steps, as it can be typed.
    fn path_text(&self, path: &Path, steps: usize) -> String {
        let mut text = match path.head {
            PathHead::Bare => String::new(),
            PathHead::Context => "$ctx".to_string(),
            PathHead::Scope(scope) => scope.key().to_string(),
            _ => return path.span.text(self.source).to_string(),
        };
        for SyntaxStep { kind, .. } in path.steps.iter().take(steps) {
            match kind {
                StepKind::Index(index) => text += &format!("[{index}]"),
                StepKind::Member(name) => {
                    let is_plain = name.chars().all(|c| c == '_' || c.is_alphanumeric());
                    let dot = if text.is_empty() { "" } else { "." };
                    text += &if is_plain { format!("{dot}{name}") } else { format!("{dot}`{name}`") };
                }
            }
        }
        text
    }
}

/// The error that a comparison is which can never be true.
pub(super) fn never_true(
    source: &str,
    paths: &[Path],
    left: &Operand,
    compare: Option<&Compare>,
    clash: &Clash,
) -> Error {
    match (clash, compare) {
        (Clash::Mask(path, kind), _) => {
            let path = &paths[*path];
            let message = format!("`{}` is {}; `&` masks integers only", path.span.text(source), kind.describe());
            path.span.malformed(source, message)
        }
        (Clash::Sides(kind, right), compare) => {
            let right = match (right, compare.map(|compare| &compare.right)) {
                (Some(kind), _) => kind.describe(),
                (None, Some(Right::Number(_))) => "a number",
                (None, Some(Right::Bool(_))) => "true or false",
                (None, Some(Right::Regex(_))) => "a regular expression",
                (None, Some(Right::Instant(_) | Right::Time(_))) => "a time",
                (None, _) => "a string",
            };
            let op = compare.map_or(Op::Equal, |compare| compare.op);
            let how = if op.is_equality() || op == Op::Match { "compared with" } else { "ordered against" };
            let left_name = left.span.text(source).trim();
            let message = format!("`{left_name}` is {} and cannot be {how} {right}", kind.describe());
            let span = compare.map_or(left.span, |compare| compare.span);
            let error = span.malformed(source, message);
            match (kind, compare.map(|compare| &compare.right)) {
                (ComparableKind::Time, Some(Right::Number(_))) => {
                    error.with_help("`time` takes a time in quotes: `time >= \"12.5\"`; `ns` is a number")
                }
                (ComparableKind::Integer | ComparableKind::Real, Some(Right::Text(_))) => {
                    error.with_help("numbers stand without quotes")
                }
                (ComparableKind::Text, Some(Right::Number(_))) => error.with_help("strings stand in quotes"),
                (ComparableKind::Bool, Some(Right::Number(_))) => error.with_help("compare it with `true` or `false`"),
                (ComparableKind::Nothing(_), _) => {
                    error.with_help("compare one of its parts; alone it is true when it is there")
                }
                _ => error,
            }
        }
    }
}

/// The names, those that look like `name` first, and whether the first one may be meant.
fn by_distance(name: &str, names: BTreeSet<Arc<str>>) -> (Vec<Arc<str>>, bool) {
    let mut names: Vec<(usize, Arc<str>)> =
        names.into_iter().map(|other| (edit_distance(name, &other), other)).collect();
    names.sort();
    // Two letters that changed places are a distance of two; a name of one letter is near to nothing.
    let len = name.chars().count();
    let limit = (len / 2).clamp(1, 4).min(len.saturating_sub(1));
    let is_near = names.first().is_some_and(|&(distance, _)| distance <= limit);
    (names.into_iter().map(|(_, name)| name).collect(), is_near)
}

fn list(begin: &str, names: &[Arc<str>]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    format!("{begin} {}{more}", shown.join(", "))
}

/// Can a comparison, or a value alone, be true where its paths have these kinds? Not where one of them has none.
pub(super) fn can_be_true(
    left: &Operand,
    compare: Option<&Compare>,
    kind: impl Fn(usize) -> Option<ComparableKind>,
) -> std::result::Result<bool, Clash> {
    let Some(left) = operand_kind(left, &kind)? else { return Ok(false) };
    let Some(compare) = compare else { return Ok(true) };
    let (fits, right) = match &compare.right {
        Right::Operand(operand) => {
            let Some(right) = operand_kind(operand, &kind)? else { return Ok(false) };
            (can_compare(left, compare.op, right), Some(right))
        }
        right => (can_hold(left, compare.op, right), None),
    };
    if fits { Ok(true) } else { Err(Clash::Sides(left, right)) }
}

/// The kind of an operand's values; `None` when one of them is nowhere.
fn operand_kind(
    operand: &Operand,
    kind: impl Fn(usize) -> Option<ComparableKind>,
) -> std::result::Result<Option<ComparableKind>, Clash> {
    if let Some(path) = operand.path() {
        return Ok(kind(path));
    }
    for path in operand.paths() {
        match kind(path) {
            None => return Ok(None),
            Some(ComparableKind::Integer | ComparableKind::Labelled) => {}
            Some(kind) => return Err(Clash::Mask(path, kind)),
        }
    }
    Ok(Some(ComparableKind::Integer))
}

fn can_hold(left: ComparableKind, op: Op, right: &Right) -> bool {
    match left {
        ComparableKind::Integer | ComparableKind::Real => matches!(right, Right::Number(_)),
        ComparableKind::Labelled => {
            matches!(right, Right::Number(_) | Right::Regex(_)) || (matches!(right, Right::Text(_)) && op.is_equality())
        }
        ComparableKind::Bool => matches!(right, Right::Bool(_)),
        ComparableKind::Text => matches!(right, Right::Text(_) | Right::Regex(_)),
        ComparableKind::Time => matches!(right, Right::Time(_) | Right::Instant(_)),
        ComparableKind::Nothing(_) => false,
    }
}

fn can_compare(left: ComparableKind, op: Op, right: ComparableKind) -> bool {
    use ComparableKind::{Bool, Integer, Labelled, Real, Text, Time};
    match (left, right) {
        (Integer | Labelled | Real, Integer | Labelled | Real) | (Text, Text) | (Time, Time) => true,
        (Labelled, Text) | (Text, Labelled) | (Bool, Bool) => op.is_equality(),
        _ => false,
    }
}

/// A comparison of the time with a constant.
fn time_comparison<'a>(test: &'a Test, paths: &[Path]) -> Option<&'a Compare> {
    let Test::Compare(compare) = test else { return None };
    let head = compare.left.path().map(|path| paths[path].head);
    let is_constant = matches!(compare.right, Right::Number(_) | Right::Instant(_));
    (is_constant && matches!(head, Some(PathHead::Ns | PathHead::Time))).then_some(compare)
}

/// First and last ns that can match; the first is after the last when none can.
fn time_range(test: &Test, paths: &[Path]) -> Option<(i128, i128)> {
    // Further away than any time. Bounds that 128 bits do not hold are held at their ends.
    const ALL: (i128, i128) = (-(1 << 100), 1 << 100);
    const NONE: (i128, i128) = (1 << 100, -(1 << 100));
    fn range(test: &Test, paths: &[Path]) -> (i128, i128) {
        match test {
            Test::Const(false) => NONE,
            Test::All(tests) => {
                tests.iter().map(|test| range(test, paths)).fold(ALL, |a, b| (a.0.max(b.0), a.1.min(b.1)))
            }
            Test::Any(tests) => {
                let ranges = tests.iter().map(|test| range(test, paths)).filter(|(first, last)| first <= last);
                ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or(NONE)
            }
            test => match time_comparison(test, paths) {
                Some(compare) => {
                    let (first, last) = bounds(compare);
                    (first.unwrap_or(ALL.0), last.unwrap_or(ALL.1))
                }
                None => ALL,
            },
        }
    }
    let (first, last) = range(test, paths);
    let (first, last) = (first.max(ALL.0), last.min(ALL.1));
    if (first, last) == ALL {
        return None;
    }
    let is_empty = first > last;
    Some(if is_empty { NONE } else { (first, last) })
}

fn bounds(compare: &Compare) -> (Option<i128>, Option<i128>) {
    match (&compare.right, compare.op) {
        (Right::Number(number), op) => number.bounds(op),
        (Right::Instant(ns), op) => bounds_of(op, *ns, false),
        _ => (None, None),
    }
}

/// Is the condition a conjunction of time bounds and of what every class that may match decides?
fn is_decided(test: &Test, paths: &[Path], traces: &[BoundTrace]) -> bool {
    let mut has_time = false;
    let mut rest = Vec::new();
    split(test, &mut |test| match time_comparison(test, paths) {
        Some(compare) if compare.op != Op::NotEqual => has_time = true,
        _ => rest.push(test.clone()),
    });
    let rest = Test::All(rest);
    traces.iter().all(|trace| {
        let classes = (0..trace.verdicts.len()).filter(|&at| trace.verdicts[at] != Some(false));
        classes.map(|at| EventClassId(at as u32)).all(|class| {
            let places = places(&trace.schema, class, paths);
            let has_clock = trace.schema.stream(trace.schema.event(class).stream).default_clock.is_some();
            let scene = Scene::for_class(&trace.schema, class, &trace.name, &places);
            eval::evaluate(&rest, &scene) == Some(true) && (has_clock || !has_time)
        })
    })
}

/// Calls `see` with every term of a conjunction.
fn split<'a>(test: &'a Test, see: &mut impl FnMut(&'a Test)) {
    match test {
        Test::All(tests) => tests.iter().for_each(|test| split(test, see)),
        test => see(test),
    }
}
