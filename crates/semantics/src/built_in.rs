//! The lines of the table that is built in, by the names of their events. Where they stand is known when the program is
//! compiled, and small traces use a few of them: only these are read.

use std::cmp::Ordering;
use std::sync::OnceLock;

use super::concepts::{ConceptLine, TEXT, read_line};
use super::vocabulary::Concept;

/// A name of events, as far as it is no glob.
#[derive(Clone, Copy)]
struct Name {
    start: usize,
    len: usize,
    line: usize,
    /// Is it a line about the thread that runs? They are asked for by themselves.
    is_running: bool,
}

/// Where a line begins and where what it says ends.
type LineRange = (usize, usize);

const LINES: usize = scan::<0, 0, 0>().counts[0];
const NAMES: usize = scan::<0, 0, 0>().counts[1];
const GLOBS: usize = scan::<0, 0, 0>().counts[2];
const INDEX: Index<LINES, NAMES, GLOBS> = scan();

static READ: [OnceLock<Option<ConceptLine>>; LINES] = [const { OnceLock::new() }; LINES];

struct Index<const L: usize, const N: usize, const G: usize> {
    lines: [LineRange; L],
    /// In the order of their texts.
    names: [Name; N],
    /// Up to the first sign that stands for others.
    globs: [Name; G],
    counts: [usize; 3],
}

/// Is it a sign that makes a name a glob?
pub(crate) const fn is_glob(sign: u8) -> bool {
    matches!(sign, b'*' | b'?' | b'\\')
}

/// Finds lines and names; those beyond the room for them are only counted.
const fn scan<const L: usize, const N: usize, const G: usize>() -> Index<L, N, G> {
    let text = TEXT.as_bytes();
    let none = Name { start: 0, len: 0, line: 0, is_running: false };
    let mut index = Index { lines: [(0, 0); L], names: [none; N], globs: [none; G], counts: [0; 3] };
    let mut at = 0;
    while at < text.len() {
        let start = at;
        while at < text.len() && text[at] != b'\n' && text[at] != b'#' {
            at += 1;
        }
        let end = at;
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        at += 1;
        // The second word.
        let concept = word(text, start, end);
        let events = word(text, concept.1, end);
        if events.0 == events.1 {
            continue;
        }
        let is_running = is_text(text, concept, Concept::Running.name());
        let line = index.counts[0];
        if line < L {
            index.lines[line] = (start, end);
        }
        index.counts[0] += 1;
        let mut from = events.0;
        while from < events.1 {
            let mut to = from;
            let mut sign = None;
            while to < events.1 && text[to] != b'|' {
                if sign.is_none() && is_glob(text[to]) {
                    sign = Some(to);
                }
                to += 1;
            }
            match sign {
                Some(sign) => {
                    if index.counts[2] < G {
                        index.globs[index.counts[2]] = Name { start: from, len: sign - from, line, is_running };
                    }
                    index.counts[2] += 1;
                }
                None => {
                    if index.counts[1] < N {
                        insert(
                            &mut index.names,
                            index.counts[1],
                            Name { start: from, len: to - from, line, is_running },
                        );
                    }
                    index.counts[1] += 1;
                }
            }
            from = to + 1;
        }
    }
    index
}

/// The first word from a place on.
const fn word(text: &[u8], mut from: usize, end: usize) -> (usize, usize) {
    while from < end && text[from].is_ascii_whitespace() {
        from += 1;
    }
    let mut to = from;
    while to < end && !text[to].is_ascii_whitespace() {
        to += 1;
    }
    (from, to)
}

const fn is_text(text: &[u8], (from, to): (usize, usize), word: &str) -> bool {
    let word = word.as_bytes();
    let mut at = 0;
    while at < word.len() && from + at < to && text[from + at] == word[at] {
        at += 1;
    }
    at == word.len() && from + at == to
}

/// Puts a name where it belongs among the first ones.
const fn insert(names: &mut [Name], count: usize, name: Name) {
    let mut at = count;
    while at > 0 && is_before(name, names[at - 1]) {
        names[at] = names[at - 1];
        at -= 1;
    }
    names[at] = name;
}

const fn is_before(a: Name, b: Name) -> bool {
    let text = TEXT.as_bytes();
    let mut at = 0;
    while at < a.len && at < b.len {
        let (one, other) = (text[a.start + at], text[b.start + at]);
        if one != other {
            return one < other;
        }
        at += 1;
    }
    a.len < b.len
}

impl Name {
    fn text(self) -> &'static str {
        &TEXT[self.start..self.start + self.len]
    }
}

/// A line.
pub(crate) fn line(number: usize) -> Option<&'static ConceptLine> {
    let (start, end) = INDEX.lines[number];
    // A test reads them all.
    READ[number].get_or_init(|| read_line(TEXT, &TEXT[start..end], start).ok().flatten()).as_ref()
}

/// All lines, in their order.
pub(crate) fn lines() -> impl Iterator<Item = &'static ConceptLine> {
    (0..LINES).filter_map(line)
}

/// The lines that may be about events of these names, in their order: those about the thread that runs, or the others.
pub(crate) fn find_lines(names: &[&str], is_running: bool) -> impl Iterator<Item = &'static ConceptLine> {
    let starts = |glob: &Name| names.iter().any(|name| name.starts_with(glob.text()));
    let globs = INDEX.globs.iter().filter(|glob| glob.is_running == is_running && starts(glob));
    let mut found: Vec<usize> = globs.map(|glob| glob.line).collect();
    for name in names {
        let first = INDEX.names.partition_point(|known| known.text().cmp(name) == Ordering::Less);
        let equal = INDEX.names[first..].iter().take_while(|known| known.text() == *name);
        found.extend(equal.filter(|known| known.is_running == is_running).map(|known| known.line));
    }
    if found.len() > 1 {
        found.sort_unstable();
        found.dedup();
    }
    found.into_iter().filter_map(line)
}
