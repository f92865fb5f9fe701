//! `.dbg` files: source lines, arguments and enumerations of a module (`SPEC.md`, section 6).

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::text::c_number;
use tracemill_model::error::Error;
use tracemill_model::schema::Mapping;

use super::lines::read_lines;

/// Names and values of an enumeration.
pub(super) type Enumeration = Arc<[Mapping]>;

/// A function as a `.dbg` file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DebugFunction {
    /// Line and file where it is written.
    pub source: Option<(u32, Arc<str>)>,
    /// Specification of its arguments.
    pub arguments: Option<Arc<str>>,
    /// Specification of its return value.
    pub return_value: Option<Arc<str>>,
}

/// The contents of a `.dbg` file.
#[derive(Clone, Debug, Default)]
pub(super) struct DebugInfo {
    /// By address, relative to the module.
    pub functions: HashMap<u64, DebugFunction>,
    pub enumerations: HashMap<String, Enumeration>,
}

impl DebugInfo {
    /// Reads the file. Lines that cannot be read are warnings.
    pub(super) fn read(bytes: &[u8]) -> (DebugInfo, Vec<Error>) {
        let mut debug = DebugInfo::default();
        let mut address = None;
        // The same specifications and files come again and again.
        let mut texts: HashMap<String, Arc<str>> = HashMap::new();
        let warnings = read_lines(bytes, "a line that is not a line of debug information", |line| {
            let line = line.trim_end();
            let is_comment = line.is_empty() || line.starts_with('#');
            if is_comment { Some(()) } else { debug.line(line, &mut address, &mut texts) }
        });
        (debug, warnings)
    }

    fn line(&mut self, text: &str, address: &mut Option<u64>, texts: &mut HashMap<String, Arc<str>>) -> Option<()> {
        let (kind, value) = text.split_once(": ")?;
        let mut shared = |text: &str| texts.entry(text.to_string()).or_insert_with(|| text.into()).clone();
        match kind {
            "E" => {
                let (name, values) = enumeration(value)?;
                self.enumerations.insert(name, values);
            }
            "F" => {
                let (at, _name) = value.split_once(' ')?;
                let at = u64::from_str_radix(at, 16).ok()?;
                self.functions.entry(at).or_default();
                *address = Some(at);
            }
            "L" => {
                let (line, file) = value.split_once(' ')?;
                self.function(*address)?.source = Some((line.parse().ok()?, shared(file)));
            }
            "A" => self.function(*address)?.arguments = Some(shared(value.strip_prefix('@')?)),
            "R" => self.function(*address)?.return_value = Some(shared(value.strip_prefix('@')?)),
            _ => return None,
        }
        Some(())
    }

    fn function(&mut self, address: Option<u64>) -> Option<&mut DebugFunction> {
        self.functions.get_mut(&address?)
    }
}

/// All definitions `enum NAME { .. };` of a text; what is none is passed over.
pub(super) fn enumerations(text: &str) -> HashMap<String, Enumeration> {
    let definitions = text.split_inclusive('}');
    definitions.filter_map(|definition| enumeration(definition.trim_start_matches([';', ' ']))).collect()
}

/// `enum NAME {A, B = 5, C}`, with the rules of C for values.
fn enumeration(text: &str) -> Option<(String, Enumeration)> {
    let text = text.trim().strip_prefix("enum ")?;
    let (name, values) = text.split_once('{')?;
    let values = values[..values.rfind('}')?].split(',').map(str::trim).filter(|value| !value.is_empty());
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut next: i64 = 0;
    for value in values {
        let (label, value) = match value.split_once('=') {
            Some((label, value)) => (label.trim(), constant(value, &mappings)?),
            None => (value, next),
        };
        mappings.push(Mapping { label: label.into(), ranges: vec![(value.into(), value.into())] });
        next = value.wrapping_add(1);
    }
    Some((name.trim().to_string(), mappings.into()))
}

/// Numbers and labels joined with `|`.
fn constant(text: &str, known: &[Mapping]) -> Option<i64> {
    text.split('|').map(|part| number(part.trim(), known)).try_fold(0, |sum, part| Some(sum | part?))
}

fn number(text: &str, known: &[Mapping]) -> Option<i64> {
    if let Some(mapping) = known.iter().find(|mapping| &*mapping.label == text) {
        return mapping.ranges.first().map(|&(value, _)| value as i64);
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.trim_start()),
        None => (false, text),
    };
    let value = c_number(digits)? as i64;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, i128)> {
        let (_, mappings) = enumeration(text).unwrap();
        mappings.iter().map(|mapping| (mapping.label.to_string(), mapping.ranges[0].0)).collect()
    }

    #[test]
    fn enumerations_follow_c() {
        let read = values("enum e { A, B = 5, C, D = 0x10, E = -2, F = 010, G = A|B|0x100, };");
        let expected = [("A", 0), ("B", 5), ("C", 6), ("D", 16), ("E", -2), ("F", 8), ("G", 0x105)];
        assert_eq!(read, expected.map(|(label, value)| (label.to_string(), value)));
        assert!(enumeration("enum e { A = x }").is_none());
        let all = enumerations("enum one { A, };enum two {B = 1};odd;");
        assert_eq!((all.len(), all["two"][0].ranges[0]), (2, (1, 1)));
    }

    #[test]
    fn lines_belong_to_the_last_function() {
        let text = b"# path name: /srv/a\nE: enum Color {RED,GREEN=5}\nF: 12d9 i8\nL: 9 a.c\nA: @arg1,arg2/p\nR: @retval\nX: odd\n";
        let (debug, warnings) = DebugInfo::read(text);
        let function = &debug.functions[&0x12d9];
        assert_eq!(function.source, Some((9, "a.c".into())));
        assert_eq!(
            (function.arguments.as_deref(), function.return_value.as_deref()),
            (Some("arg1,arg2/p"), Some("retval"))
        );
        assert_eq!((debug.enumerations["Color"].len(), warnings.len()), (2, 1));
        assert_eq!(DebugInfo::read(b"A: @arg1\n").1.len(), 1, "no function yet");
    }
}
