//! Flame graphs: a picture of all stacks, as wide as the time that they took, or as the weight of their samples. It is one SVG that needs nothing else:
//! a script inside of it zooms and searches, and without a script it can still be looked at.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use tracemill_format::calls::{CallSource, Findings};

use crate::json::{JsonList, quoted};
use crate::profile::{Profile, WeightUnit};
use crate::select::CallOptions;
use crate::stacks::{Stack, Stacks};

/// How the picture looks.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameOptions {
    /// Its title.
    pub title: String,
    /// Its width in pixels.
    pub width: u32,
    /// Width in pixels below which frames are left out; the picture shows how much that is.
    pub min_width: f64,
}

impl Default for FlameOptions {
    fn default() -> Self {
        FlameOptions { title: "Flame graph".into(), width: 1200, min_width: 0.1 }
    }
}

/// A stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FlameFrame {
    name: String,
    stack: Stack,
    /// Ns, or weight of samples, with those of callees.
    value: u64,
    depth: usize,
    children: Vec<usize>,
    /// Value of the same stack in the recording that is compared with.
    before: u64,
    /// Is it a function of the kernel? Only samples tell.
    is_kernel: bool,
}

/// The stacks of a recording; the first one is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flame {
    frames: Vec<FlameFrame>,
    /// Stacks of the other recording that this one does not have, and their ns.
    gone: (u64, u64),
    is_compared: bool,
    /// The unit of values, of samples; calls have ns.
    of_samples: Option<WeightUnit>,
}

impl Flame {
    /// Gathers the stacks of a source; gives what was wrong with it.
    pub fn collect(source: &dyn CallSource, calls: CallOptions) -> (Flame, Findings) {
        let (stacks, findings) = Stacks::collect(source, calls);
        let name = |at: usize, name: usize| if at == 0 { "all" } else { &*stacks.names[name] }.to_string();
        let mut frames: Vec<FlameFrame> = stacks
            .list
            .iter()
            .enumerate()
            .map(|(at, stack)| FlameFrame { name: name(at, stack.name), stack: stack.clone(), ..FlameFrame::default() })
            .collect();
        for at in 1..frames.len() {
            let parent = frames[at].stack.parent;
            frames[at].depth = frames[parent].depth + 1;
            frames[parent].children.push(at);
        }
        (Flame::from_frames(frames), findings)
    }

    /// The stacks of samples. Calls of frames are numbers of samples.
    pub fn from_profile(profile: &Profile) -> Flame {
        let mut frames: Vec<FlameFrame> = Vec::with_capacity(profile.nodes.len());
        for (at, node) in profile.nodes.iter().enumerate() {
            let label = &profile.labels[node.label as usize];
            let stack = Stack {
                parent: node.parent,
                calls: node.samples,
                own: node.own,
                is_wait: label.is_wait,
                ..Stack::default()
            };
            let is_kernel = label.is_kernel;
            frames.push(FlameFrame {
                name: label.name.to_string(),
                stack,
                depth: node.depth,
                is_kernel,
                ..FlameFrame::default()
            });
            if at > 0 {
                frames[node.parent].children.push(at);
            }
        }
        Flame { of_samples: Some(profile.unit), ..Flame::from_frames(frames) }
    }

    /// The stacks that lines of folded stacks name, `caller;callee NS`, as the target `folded` writes them. `None`, with the
    /// number of the line from 1, when one is none.
    pub fn from_folded(text: &str) -> Result<Flame, usize> {
        let mut frames = vec![FlameFrame { name: "all".into(), ..FlameFrame::default() }];
        let mut known: HashMap<(usize, String), usize> = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let parsed = line.rsplit_once(' ').and_then(|(path, own)| Some((path, own.parse::<u64>().ok()?)));
            let (path, own) = parsed.ok_or(number + 1)?;
            let mut at = 0;
            for name in path.split(';') {
                at = *known.entry((at, name.to_string())).or_insert_with(|| {
                    let (depth, stack) = (frames[at].depth + 1, Stack { parent: at, ..Stack::default() });
                    frames.push(FlameFrame { name: name.to_string(), stack, depth, ..FlameFrame::default() });
                    let new = frames.len() - 1;
                    frames[at].children.push(new);
                    new
                });
            }
            frames[at].stack.own = frames[at].stack.own.saturating_add(own);
        }
        Ok(Flame::from_frames(frames))
    }

    /// The graph of frames that know their own time and their callees, which stand after their callers.
    fn from_frames(mut frames: Vec<FlameFrame>) -> Flame {
        for at in (0..frames.len()).rev() {
            let sum = frames[at].children.iter().map(|&child| frames[child].value).fold(0, u64::saturating_add);
            frames[at].value = frames[at].stack.own.saturating_add(sum);
        }
        Flame { frames, gone: (0, 0), is_compared: false, of_samples: None }
    }

    /// Compares with another recording: every stack learns how long it took there. Samples are compared by their shares, as one
    /// recording may be longer: the weights of the other one are scaled to the sum of this one.
    pub fn compare(&mut self, before: &Flame) {
        self.is_compared = true;
        let (whole, whole_before) = (self.frames[0].value, before.frames[0].value);
        let scaled = |value: u64| match self.of_samples {
            None => value,
            Some(_) => {
                let scaled = u128::from(value) * u128::from(whole) / u128::from(whole_before.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        };
        // The same stack there, by its place here.
        let mut same: HashMap<usize, usize> = HashMap::from([(0, 0)]);
        self.frames[0].before = scaled(before.frames[0].value);
        for at in 1..before.frames.len() {
            let frame = &before.frames[at];
            let parent = same.get(&frame.stack.parent).copied();
            let is_same = |&child: &usize| self.frames[child].name == frame.name;
            let found = parent.and_then(|parent| self.frames[parent].children.iter().copied().find(is_same));
            match found {
                Some(here) => {
                    self.frames[here].before = scaled(frame.value);
                    same.insert(at, here);
                }
                None => {
                    self.gone.0 += 1;
                    self.gone.1 = self.gone.1.saturating_add(scaled(frame.stack.own));
                }
            }
        }
    }

    /// Writes the stacks as JSON.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut list = JsonList::new("nodes");
        for (id, frame) in self.frames.iter().enumerate() {
            let FlameFrame { name, stack, value, depth, before, .. } = frame;
            let Stack { calls, own, parent, is_wait, .. } = stack;
            let parent = if id == 0 { "null".to_string() } else { parent.to_string() };
            let text = list.item();
            let _ = write!(text, "{{\"id\":{id},\"parent\":{parent},\"depth\":{depth},\"name\":{}", quoted(name));
            let (calls_key, unit) = match self.of_samples {
                None => ("calls", "_ns"),
                Some(WeightUnit::Ns) => ("samples", "_ns"),
                Some(_) => ("samples", ""),
            };
            let _ = write!(text, ",\"{calls_key}\":{calls},\"total{unit}\":{value},\"self{unit}\":{own}");
            if *is_wait {
                *text += ",\"is_wait\":true";
            }
            if self.is_compared {
                let _ = write!(text, ",\"before{unit}\":{before}");
            }
            text.push('}');
        }
        list.end(out)
    }

    /// Writes a line for each stack with a value of its own, `caller;callee NUMBER`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_folded(&self, out: &mut dyn Write) -> io::Result<()> {
        // The names of the frames down to the one at hand, and where each of them ends.
        let (mut path, mut ends) = (String::new(), vec![0]);
        let mut open = vec![(0, 0)];
        while let Some((at, written)) = open.last_mut() {
            let Some(&child) = self.frames[*at].children.get(*written) else {
                open.pop();
                ends.pop();
                path.truncate(ends.last().copied().unwrap_or(0));
                continue;
            };
            *written += 1;
            if !path.is_empty() {
                path.push(';');
            }
            // A semicolon divides frames, and a line has one stack.
            path.extend(self.frames[child].name.chars().map(|letter| match letter {
                ';' => ':',
                letter if letter.is_control() => ' ',
                letter => letter,
            }));
            ends.push(path.len());
            let own = self.frames[child].stack.own;
            if own > 0 {
                writeln!(out, "{path} {own}")?;
            }
            open.push((child, 0));
        }
        Ok(())
    }

    /// Writes the stacks as JSON objects inside of each other, `{"name", "value", "children"}`, as d3-flame-graph and its like
    /// read them; a value is the time in ns with that of callees.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_nested_json(&self, out: &mut dyn Write) -> io::Result<()> {
        // Frames that are open, each with the number of its children that are written: stacks may be deeper than ours.
        let mut open = vec![(0, 0)];
        self.write_head(0, out)?;
        while let Some((at, written)) = open.last_mut() {
            match self.frames[*at].children.get(*written) {
                Some(&child) => {
                    out.write_all(if *written == 0 { b"" } else { b"," })?;
                    *written += 1;
                    self.write_head(child, out)?;
                    open.push((child, 0));
                }
                None => {
                    out.write_all(b"]}")?;
                    open.pop();
                }
            }
        }
        out.write_all(b"\n")
    }

    /// The begin of a nested object, up to its children.
    fn write_head(&self, at: usize, out: &mut dyn Write) -> io::Result<()> {
        let FlameFrame { name, value, before, .. } = &self.frames[at];
        write!(out, "{{\"name\":{},\"value\":{value}", quoted(name))?;
        if self.is_compared {
            write!(out, ",\"before\":{before}")?;
        }
        out.write_all(b",\"children\":[")
    }

    /// Draws the stacks.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_svg(&self, options: &FlameOptions, out: &mut dyn Write) -> io::Result<()> {
        let width = f64::from(options.width.max(100)) - 2.0 * MARGIN;
        let whole = self.frames[0].value.max(1) as f64;
        let scale = width / whole;
        // Where each frame begins, in ns from the left; `None` when it is left out.
        let mut starts: Vec<Option<u64>> = vec![None; self.frames.len()];
        starts[0] = Some(0);
        let (mut left_out, mut deepest) = ((0u64, 0u64), 0);
        for at in 0..self.frames.len() {
            let Some(start) = starts[at] else { continue };
            deepest = deepest.max(self.frames[at].depth);
            let mut from = start;
            for &child in &self.frames[at].children {
                let value = self.frames[child].value;
                match value as f64 * scale >= options.min_width {
                    true => starts[child] = Some(from),
                    false => left_out = (left_out.0 + 1, left_out.1.saturating_add(value)),
                }
                from = from.saturating_add(value);
            }
        }
        let height = TOP + (deepest + 1) as f64 * ROW + BOTTOM;
        let mut text = String::new();
        let _ = write!(
            text,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" \
             height=\"{height}\" viewBox=\"0 0 {w} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <style>.f rect{{stroke:#fff;stroke-width:.5}}.f{{cursor:pointer}}.f text{{pointer-events:none}}\
             .w text{{font-style:italic}}.w rect{{stroke-dasharray:3}}.m rect{{stroke:#000;stroke-width:1.5}}.b{{cursor:pointer;fill:#246}}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{middle}\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">{title}</text>\n\
             <text id=\"reset\" class=\"b\" x=\"{MARGIN}\" y=\"22\">Reset zoom</text>\n\
             <text id=\"search\" class=\"b\" x=\"{right}\" y=\"22\" text-anchor=\"end\">Search</text>\n\
             <g id=\"frames\" data-whole=\"{whole}\" data-width=\"{width}\" data-margin=\"{MARGIN}\">\n",
            w = options.width.max(100),
            middle = MARGIN + width / 2.0,
            right = MARGIN + width,
            title = xml(&options.title),
        );
        for (frame, start) in self.frames.iter().zip(&starts) {
            let Some(start) = start else { continue };
            self.put_frame(&mut text, frame, *start, scale, deepest);
            if text.len() > 64 << 10 {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        let mut notes = Vec::new();
        if left_out.0 > 0 {
            notes.push(format!("{} stacks of {} are too narrow to be shown", left_out.0, self.words(left_out.1)));
        }
        if self.gone.0 > 0 {
            notes.push(format!(
                "{} stacks of {} are in the other recording only",
                self.gone.0,
                self.words(self.gone.1)
            ));
        }
        let _ = write!(
            text,
            "</g>\n<text id=\"details\" x=\"{MARGIN}\" y=\"{}\">{}</text>\n<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n",
            height - 8.0,
            xml(&notes.join("; ")),
        );
        out.write_all(text.as_bytes())
    }

    fn put_frame(&self, text: &mut String, frame: &FlameFrame, start: u64, scale: f64, deepest: usize) {
        let (x, width) = (MARGIN + start as f64 * scale, frame.value as f64 * scale);
        let y = TOP + (deepest - frame.depth) as f64 * ROW;
        let name = xml(&frame.name);
        let part = frame.value as f64 * 100.0 / self.frames[0].value.max(1) as f64;
        let (class, word) = match () {
            () if frame.stack.is_wait => ("f w", "waits"),
            () if self.of_samples.is_some() => ("f", "samples"),
            () => ("f", "calls"),
        };
        let mut title = format!("{name} ({} {word}, {}, {part:.2}%)", frame.stack.calls, self.words(frame.value));
        if self.is_compared {
            let _ = match frame.before {
                0 => write!(title, ", new"),
                before => {
                    let change = (frame.value as f64 - before as f64) * 100.0 / before as f64;
                    write!(title, ", {change:+.2}% from {}", self.words(before))
                }
            };
        }
        let _ = write!(
            text,
            "<g class=\"{class}\" data-x=\"{start}\" data-w=\"{}\" data-d=\"{}\" data-n=\"{name}\"><title>{title}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"/>",
            frame.value,
            frame.depth,
            ROW - 1.0,
            self.color(frame),
        );
        let _ = writeln!(
            text,
            "<text x=\"{:.2}\" y=\"{}\">{}</text></g>",
            x + 3.0,
            y + ROW - 5.0,
            xml(&shortened(&frame.name, width))
        );
    }

    /// A value for people.
    fn words(&self, value: u64) -> String {
        match self.of_samples {
            None | Some(WeightUnit::Ns) => words(value),
            Some(unit) => format!("{value} {}", unit.name()),
        }
    }

    /// Warm colors by the name, a cold one for times without processor; compared, red for what takes longer and blue for what takes less.
    fn color(&self, frame: &FlameFrame) -> String {
        if !self.is_compared {
            if frame.stack.is_wait {
                return "rgb(190,200,210)".into();
            }
            let hash = frame
                .name
                .bytes()
                .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
            let [strong, middle, weak] = [205 + hash % 50, 80 + (hash >> 8) % 130, (hash >> 16) % 55];
            // The kernel is orange beside programs in red and yellow.
            return match frame.is_kernel {
                true => format!("rgb({},{},{})", strong - 30, 120 + (hash >> 8) % 40, 60 + weak),
                false => format!("rgb({strong},{middle},{weak})"),
            };
        }
        let (now, before) = (frame.value as f64, frame.before as f64);
        let change = (now - before) / now.max(before).max(1.0);
        let pale = 240 - (change.abs() * 190.0) as u32;
        if change >= 0.0 { format!("rgb(255,{pale},{pale})") } else { format!("rgb({pale},{pale},255)") }
    }
}

/// Height of a frame, and what is above and below all of them.
const ROW: f64 = 17.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 28.0;
const MARGIN: f64 = 10.0;
/// Width of a letter, about.
const LETTER: f64 = 7.0;

/// As much of a name as fits a width.
fn shortened(name: &str, width: f64) -> String {
    let fits = ((width - 6.0) / LETTER).max(0.0) as usize;
    if fits < 3 {
        return String::new();
    }
    if name.chars().count() <= fits {
        return name.to_string();
    }
    let short: String = name.chars().take(fits - 2).collect();
    short + ".."
}

/// A time for people.
fn words(ns: u64) -> String {
    let (unit, size) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{:.3} {unit}", ns as f64 / size)
}

/// A text in XML, in attributes too. Letters that XML does not have are replaced.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// Zooms into the frame that is clicked, marks the frames whose names match an expression, and says of what they are.
const SCRIPT: &str = r##"(function () {
  var root = document.getElementById("frames");
  var whole = +root.dataset.whole, width = +root.dataset.width, margin = +root.dataset.margin;
  var frames = Array.prototype.slice.call(root.children);
  var details = document.getElementById("details"), note = details.textContent;
  function show(from, size, depth) {
    frames.forEach(function (frame) {
      var x = +frame.dataset.x, w = +frame.dataset.w, d = +frame.dataset.d;
      var above = d < depth && x <= from && x + w >= from + size;
      var left = above ? 0 : (x - from) / size * width, wide = above ? width : w / size * width;
      var inside = above || (d >= depth && x >= from && x + w <= from + size && wide >= 0.1);
      frame.style.display = inside ? "" : "none";
      if (!inside) return;
      var rect = frame.querySelector("rect"), text = frame.querySelector("text"), name = frame.dataset.n;
      rect.setAttribute("x", margin + left);
      rect.setAttribute("width", wide);
      rect.setAttribute("opacity", above ? 0.5 : 1);
      text.setAttribute("x", margin + left + 3);
      var fits = Math.floor((wide - 6) / 7);
      text.textContent = fits < 3 ? "" : name.length <= fits ? name : name.slice(0, fits - 2) + "..";
    });
  }
  function search() {
    var words = window.prompt("Names that match this expression:", "");
    if (words === null) return;
    var match = null, spans = [], sum = 0, end = -1;
    try { match = words ? new RegExp(words) : null; } catch (wrong) { window.alert(wrong.message); return; }
    frames.forEach(function (frame) {
      var is = match !== null && match.test(frame.dataset.n);
      frame.classList.toggle("m", is);
      if (is) spans.push([+frame.dataset.x, +frame.dataset.x + +frame.dataset.w]);
    });
    spans.sort(function (a, b) { return a[0] - b[0] || b[1] - a[1]; });
    spans.forEach(function (span) {
      if (span[1] > end) { sum += span[1] - Math.max(span[0], end); end = span[1]; }
    });
    details.textContent = match ? "matched: " + (sum / whole * 100).toFixed(2) + "%" : note;
  }
  frames.forEach(function (frame) {
    frame.addEventListener("click", function () {
      show(+frame.dataset.x, Math.max(+frame.dataset.w, 1), +frame.dataset.d);
    });
    frame.addEventListener("mouseover", function () { details.textContent = frame.querySelector("title").textContent; });
  });
  document.getElementById("reset").addEventListener("click", function () { show(0, whole, 0); });
  document.getElementById("search").addEventListener("click", search);
  window.addEventListener("keydown", function (event) {
    if (event.ctrlKey && event.key === "f") { event.preventDefault(); search(); }
  });
})();
"##;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_objects_hold_their_callees() {
        let deep = format!("{} 7\n", vec!["f"; 200_000].join(";"));
        let mut out = Vec::new();
        Flame::from_folded(&deep).expect("a stack").write_nested_json(&mut out).expect("memory");
        assert_eq!(out.iter().filter(|byte| **byte == b'{').count(), 200_001);
        let mut flame = Flame::from_folded("main;read 30\nmain;\"q\" 5\nmain 1\nexit 2\n").expect("stacks");
        let written = |flame: &Flame| {
            let mut out = Vec::new();
            flame.write_nested_json(&mut out).expect("memory");
            String::from_utf8(out).expect("it is text")
        };
        let leaf = |name: &str, value: u64| format!(r#"{{"name":"{name}","value":{value},"children":[]}}"#);
        let main = format!(r#"{{"name":"main","value":36,"children":[{},{}]}}"#, leaf("read", 30), leaf(r#"\"q\""#, 5));
        let all = format!("{{\"name\":\"all\",\"value\":38,\"children\":[{main},{}]}}\n", leaf("exit", 2));
        assert_eq!(written(&flame), all);
        flame.compare(&Flame::from_folded("main;read 10\n").expect("a stack"));
        assert!(written(&flame).contains(r#"{"name":"read","value":30,"before":10,"children":[]}"#));
    }

    #[test]
    fn folded_lines_are_read_back() {
        let text = "main;exit 2\nmain;read;wait 30\nother 1\n";
        let flame = Flame::from_folded(text).expect("stacks");
        let mut out = Vec::new();
        flame.write_folded(&mut out).expect("memory");
        assert_eq!(String::from_utf8(out).expect("it is text"), text);
    }

    #[test]
    fn texts_are_xml() {
        assert_eq!(xml("a<b>&\"'\u{1}\n"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd} ");
        assert_eq!(shortened("operator new", 60.0), "operat..".chars().take(5).collect::<String>() + "..");
        assert_eq!((shortened("main", 60.0), shortened("main", 10.0)), ("main".to_string(), String::new()));
        assert_eq!(
            (words(999), words(1_500), words(2_000_000_000)),
            ("999 ns".into(), "1.500 us".into(), "2.000 s".into())
        );
    }
}
