//! Case files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bytes::assemble;
use crate::json;
use crate::memory::MemoryStorage;

/// A case: a trace and what must come out of it.
pub struct Case {
    /// File name without folder and `.case`.
    pub name: String,
    /// Section of the specification.
    pub spec: String,
    /// The rule that is tested, in a sentence.
    pub rule: String,
    /// Constructs that it covers (`coverage.rs`).
    pub covers: Vec<String>,
    /// Folder of the trace.
    pub folder: PathBuf,
    /// Files, with their paths below `folder`.
    pub files: Vec<(String, Vec<u8>)>,
    /// Further folders below `folder`.
    pub folders: Vec<String>,
    /// Expected JSON lines with their line numbers in the case.
    pub lines: Option<Vec<(usize, Value)>>,
    /// Expected faults, warnings and losses.
    pub faults: Vec<Expected>,
    /// Expected refusal of the trace.
    pub error: Option<Expected>,
}

/// Something that is said while a trace is opened and printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Line in the case.
    pub line: usize,
    /// `fault`, `warning`, `loss`; `error` for a refusal.
    pub kind: String,
    /// File below the folder of the trace (`trace` for the folder itself), or name of the stream for a loss.
    pub file: String,
    /// Where in the file.
    pub place: Where,
    /// Packet, when the case names it.
    pub packet: Option<u64>,
    /// Words that the message must contain, each part after the other.
    pub words: Vec<String>,
}

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// The whole file.
    File,
    /// Byte and bit.
    Byte(u64, u8),
    /// Line and column.
    Text(u32, u32),
}

impl Case {
    /// Parses a case. `name` is the file name without `.case`.
    ///
    /// # Errors
    /// Says which line of the case is wrong, and why.
    pub fn parse(name: &str, text: &str) -> Result<Case, String> {
        let mut case = Case {
            name: name.to_string(),
            spec: String::new(),
            rule: String::new(),
            covers: Vec::new(),
            folder: PathBuf::from("trace"),
            files: Vec::new(),
            folders: Vec::new(),
            lines: None,
            faults: Vec::new(),
            error: None,
        };
        let lines: Vec<&str> = text.lines().collect();
        let mut at = lines.iter().position(|line| line.starts_with("== ")).unwrap_or(lines.len());
        for (number, line) in lines[..at].iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            case.header(line).map_err(|why| format!("line {}: {why}", number + 1))?;
        }
        // Files of the sections below `== folder NAME` are in that folder.
        let mut prefix = String::new();
        while at < lines.len() {
            let len = lines[at + 1..].iter().position(|line| line.starts_with("== ")).unwrap_or(lines.len() - at - 1);
            let body = &lines[at + 1..at + 1 + len];
            let title = lines[at][3..].trim();
            case.section(title, body, at + 2, &mut prefix).map_err(|why| match why.starts_with("line ") {
                true => why,
                false => format!("line {}: {why}", at + 1),
            })?;
            at += 1 + len;
        }
        case.check_shape()?;
        Ok(case)
    }

    /// Must the case be read without any fault?
    pub fn is_pass(&self) -> bool {
        self.name.starts_with("pass-")
    }

    /// The files in a storage, and the path to open.
    pub fn storage(&self) -> (MemoryStorage, PathBuf) {
        let mut storage = MemoryStorage::default();
        storage.add_folder(&self.folder);
        for folder in &self.folders {
            storage.add_folder(&self.folder.join(folder));
        }
        for (name, content) in &self.files {
            storage.add_file(&self.folder.join(name), content.clone());
        }
        (storage, self.folder.clone())
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').ok_or("expected `key: value`")?;
        let value = value.trim().to_string();
        match key.trim() {
            "spec" => self.spec = value,
            "rule" => self.rule = value,
            "covers" => self.covers = value.split(',').map(|tag| tag.trim().to_string()).collect(),
            "dir" => self.folder = PathBuf::from(value),
            key => return Err(format!("unknown key `{key}`")),
        }
        Ok(())
    }

    fn section(&mut self, title: &str, body: &[&str], line: usize, prefix: &mut String) -> Result<(), String> {
        let mut words = title.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (kind, rest.as_slice()) {
            ("folder", [name]) => {
                self.folders.push((*name).to_string());
                *prefix = format!("{name}/");
            }
            ("metadata", []) => self.file(prefix, "metadata", metadata(body))?,
            ("metadata", ["bytes"]) => self.file(prefix, "metadata", assemble(&body.join("\n"), line)?)?,
            ("stream", [name]) => self.file(prefix, name, assemble(&body.join("\n"), line)?)?,
            ("lines", []) => {
                let mut values = Vec::new();
                for (at, text) in body.iter().enumerate().filter(|(_, text)| is_content(text)) {
                    let value = json::parse(text).map_err(|why| format!("line {}: {why}", line + at))?;
                    values.push((line + at, value));
                }
                self.lines = Some(values);
            }
            ("faults", []) => {
                for (at, text) in body.iter().enumerate().filter(|(_, text)| is_content(text)) {
                    let (kind, rest) = text.trim().split_once(' ').unwrap_or((text, ""));
                    if !matches!(kind, "fault" | "warning" | "loss") {
                        return Err(format!("line {}: expected `fault`, `warning` or `loss`", line + at));
                    }
                    self.faults.push(Expected::parse(kind, rest, line + at)?);
                }
            }
            ("error", []) => {
                let mut texts = body.iter().enumerate().filter(|(_, text)| is_content(text));
                let (at, text) = texts.next().ok_or("an error is expected here")?;
                self.error = Some(Expected::parse("error", text.trim(), line + at)?);
                if let Some((at, _)) = texts.next() {
                    return Err(format!("line {}: a trace is refused with one error", line + at));
                }
            }
            _ => return Err(format!("unknown section `{title}`")),
        }
        Ok(())
    }

    fn file(&mut self, prefix: &str, name: &str, content: Vec<u8>) -> Result<(), String> {
        let path = format!("{prefix}{name}");
        if self.files.iter().any(|(other, _)| *other == path) {
            return Err(format!("file `{path}` comes twice"));
        }
        self.files.push((path, content));
        Ok(())
    }

    fn check_shape(&self) -> Result<(), String> {
        for (key, is_there) in
            [("spec", !self.spec.is_empty()), ("rule", !self.rule.is_empty()), ("covers", !self.covers.is_empty())]
        {
            if !is_there {
                return Err(format!("the header `{key}:` is missing"));
            }
        }
        let has_fault = self.faults.iter().any(|fault| fault.kind == "fault");
        match (self.is_pass(), self.name.starts_with("fail-")) {
            (true, _) if self.lines.is_none() => Err("a pass case needs `== lines`".into()),
            (true, _) if has_fault || self.error.is_some() => Err("a pass case has no fault and no error".into()),
            (_, true) if self.error.is_some() && (self.lines.is_some() || !self.faults.is_empty()) => {
                Err("a trace that is refused has no lines and no faults".into())
            }
            (_, true) if self.error.is_none() && !has_fault => Err("a fail case needs a fault or an error".into()),
            (false, false) => Err("the file name begins with `pass-` or `fail-`".into()),
            _ => Ok(()),
        }
    }
}

impl Expected {
    /// `FILE [PLACE] [packet N]: words ... words`
    fn parse(kind: &str, text: &str, line: usize) -> Result<Expected, String> {
        let wrong = |why: &str| format!("line {line}: {why} in `{text}`");
        let (head, words) = text.split_once(": ").ok_or_else(|| wrong("`: ` is missing"))?;
        let mut parts = head.split_whitespace().peekable();
        let file = parts.next().ok_or_else(|| wrong("the file is missing"))?.to_string();
        let (mut place, mut packet) = (Where::File, None);
        while let Some(part) = parts.next() {
            let mut number = || parts.next().ok_or_else(|| wrong("a number is missing"));
            match part {
                "byte" => place = offset(number()?).ok_or_else(|| wrong("no offset"))?,
                "packet" => packet = Some(number()?.parse().map_err(|_| wrong("no packet number"))?),
                _ => {
                    place = match part.split_once(':') {
                        Some((row, column)) => match (row.parse(), column.parse()) {
                            (Ok(row), Ok(column)) => Where::Text(row, column),
                            _ => return Err(wrong("no line and column")),
                        },
                        None => offset(part).ok_or_else(|| wrong("no offset"))?,
                    }
                }
            }
        }
        let words: Vec<String> = words.split(" ... ").map(|part| part.trim().to_string()).collect();
        if words.iter().any(String::is_empty) {
            return Err(wrong("the words of the message are missing"));
        }
        Ok(Expected { line, kind: kind.to_string(), file, place, packet, words })
    }
}

/// `132` or `132.3`.
fn offset(text: &str) -> Option<Where> {
    let (byte, bit) = text.split_once('.').unwrap_or((text, "0"));
    Some(Where::Byte(byte.parse().ok()?, bit.parse().ok().filter(|bit| *bit < 8)?))
}

fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

/// TSDL as it stands; in JSON text each line that begins with `{` starts a fragment.
fn metadata(body: &[&str]) -> Vec<u8> {
    let is_json = body.iter().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with('{'));
    let mut text = Vec::new();
    // Blank lines at the end only separate sections.
    let len = body.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    for line in &body[..len] {
        if is_json && line.starts_with('{') {
            text.push(0x1E);
        }
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text
}

/// Case files below a folder, sorted.
///
/// # Errors
/// When a folder cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "case") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads and parses a case file.
///
/// # Errors
/// When it cannot be read, or what [`Case::parse`] says.
pub fn load(path: &Path) -> Result<Case, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Case::parse(&name, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "spec: CTF 1.8.3, 3\nrule: r\ncovers: a, b\n\n";

    #[test]
    fn sections_become_files() {
        let text = format!(
            "{HEAD}== metadata\n{{\"a\":\n 1}}\n{{}}\n\n== stream ch\nu8=1\n== stream index/ch.idx\nu8=2\n== folder 2\n== stream x\n== lines\n"
        );
        let case = Case::parse("pass-x", &text).expect("valid");
        assert_eq!(case.covers, ["a", "b"]);
        let names: Vec<&str> = case.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["metadata", "ch", "index/ch.idx", "2/x"]);
        assert_eq!(case.files[0].1, b"\x1E{\"a\":\n 1}\n\x1E{}\n");
        assert_eq!(case.lines.map(|lines| lines.len()), Some(0));
    }

    #[test]
    fn expectations_have_places() {
        let expected = Expected::parse("fault", "ch/0 132.3 packet 1: a b ... c", 7).expect("valid");
        assert_eq!((expected.place, expected.packet), (Where::Byte(132, 3), Some(1)));
        assert_eq!(expected.words, ["a b", "c"]);
        assert_eq!(Expected::parse("error", "metadata 4:12: x", 1).expect("valid").place, Where::Text(4, 12));
        assert_eq!(Expected::parse("error", "metadata byte 37: x", 1).expect("valid").place, Where::Byte(37, 0));
        assert!(Expected::parse("error", "metadata 4:12", 1).is_err());
    }

    #[test]
    fn kinds_have_their_sections() {
        assert!(Case::parse("pass-x", HEAD).is_err());
        assert!(Case::parse("fail-x", &format!("{HEAD}== lines\n")).is_err());
        assert!(Case::parse("odd-x", &format!("{HEAD}== lines\n")).is_err());
        assert!(Case::parse("fail-x", "spec: a\n== error\nmetadata: x\n").is_err());
    }
}
