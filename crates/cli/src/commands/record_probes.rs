//! Probes of `sys/sdt.h`: which ones `tracemill record` lists and records, and what became of them.

use std::collections::BTreeMap;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::text::out::Out;
use tracemill_codec::text::pattern::Pattern;
use tracemill_model::error::{Error, ErrorKind};
use tracemill_run::{ChooseProbes, FileProbes, RecordedProbes};
use tracemill_table::{Align, Layout};

use crate::args::RecordOptions;
use crate::report::{self, Outcome, OutputSink};

/// The word before the name of a probe, where `-P` names functions otherwise.
const PREFIX: &str = "sdt:";

/// Is this the name of probes, not of functions?
pub(super) fn is_pattern(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Are probes to be recorded?
pub(super) fn are_wanted(options: &RecordOptions) -> bool {
    options.calls.patch.iter().any(|text| is_pattern(text))
}

/// Names of probes: globs of the provider and of the name.
struct ProbePattern<'a> {
    text: &'a str,
    provider: Pattern,
    name: Pattern,
}

impl<'a> ProbePattern<'a> {
    /// `sdt:PROVIDER:NAME`; without a name, or without both, all.
    fn new(text: &'a str) -> ProbePattern<'a> {
        let names = text.strip_prefix(PREFIX).unwrap_or(text);
        let (provider, name) = names.split_once(':').unwrap_or((names, "*"));
        let glob = |text: &str| Pattern::glob(if text.is_empty() { "*" } else { text });
        ProbePattern { text, provider: glob(provider), name: glob(name) }
    }

    fn all(texts: &'a [String]) -> Vec<ProbePattern<'a>> {
        texts.iter().map(String::as_str).filter(|text| is_pattern(text)).map(ProbePattern::new).collect()
    }

    fn matches(&self, provider: &str, name: &str) -> bool {
        self.provider.matches(provider.as_bytes()) && self.name.matches(name.as_bytes())
    }
}

/// Chooses the probes that `-P` names, without those that `-U` names.
pub(super) fn choose(options: &RecordOptions) -> Option<ChooseProbes> {
    let (patch, unpatch) = (options.calls.patch.clone(), options.calls.unpatch.clone());
    let choose = move |provider: &str, name: &str| {
        let has = |texts: &[String]| ProbePattern::all(texts).iter().any(|pattern| pattern.matches(provider, name));
        has(&patch) && !has(&unpatch)
    };
    are_wanted(options).then(|| ChooseProbes(Arc::new(choose)))
}

/// Names of other probes that are shown, at most.
const MOST_SHOWN: usize = 10;

/// Tells which patterns match no probe, and which probes could not be recorded.
pub(super) fn print_left_out(folder: &Path, options: &RecordOptions, recorded: &RecordedProbes) {
    if !recorded.are_wanted {
        return;
    }
    let (mut stderr, folder) = (std::io::stderr().lock(), folder.display());
    let split = |name: &String| name.split_once(':').map(|(provider, name)| (provider.to_string(), name.to_string()));
    for pattern in ProbePattern::all(&options.calls.patch) {
        let mut chosen = recorded.chosen.iter().filter_map(split);
        if chosen.any(|(provider, name)| pattern.matches(&provider, &name)) {
            continue;
        }
        let known: Vec<_> = recorded.chosen.iter().chain(&recorded.others).cloned().collect();
        let more = known.len().saturating_sub(MOST_SHOWN);
        let what = match known.len() {
            0 => "the programs that ran, and their libraries, have none".to_string(),
            _ if more > 0 => format!("there are {} and {more} more", known[..MOST_SHOWN].join(", ")),
            _ => format!("there are {}", known.join(", ")),
        };
        // Best effort here and below: stderr may be closed.
        let _ = writeln!(stderr, "{folder}: no probe matches `{}`: {what}", pattern.text);
    }
    let all = recorded.jumps + recorded.traps + recorded.left;
    if recorded.left > 0 {
        let _ = writeln!(
            stderr,
            "{folder}: {} of {all} places of probes were not recorded: what stands there is not what their notes say, or \
             another tool watches them, or they are in the C library and no jump of one byte reaches free memory",
            recorded.left
        );
    }
    for (path, (at, why)) in &recorded.damaged {
        let _ = writeln!(stderr, "{folder}: not all probes of {} are known: {why}, at byte {at}", path.display());
    }
    if recorded.missed > 0 {
        let _ = writeln!(
            stderr,
            "{folder}: {} events of probes were not recorded: they came while their thread began, ended or made room for \
             records, in handlers of signals for instance",
            recorded.missed
        );
    }
    if options.verbose {
        let (places, probes, traps) = (recorded.jumps + recorded.traps, recorded.chosen.len(), recorded.traps);
        let _ =
            writeln!(stderr, "{folder}: {places} places of {probes} probes were recorded, {traps} of them by traps");
    }
}

/// Lists the probes of a program and of the libraries that it is linked with.
pub(super) fn list(program: &Path) -> Result<Outcome, Error> {
    let linked = tracemill_run::probes(program).map_err(|error| match error.kind() {
        IoErrorKind::InvalidData => {
            let error = Error::new(ErrorKind::Unsupported, format!("no probes can be listed: {error}"));
            error
                .in_file(program)
                .with_help("--list takes a program, the process id of one that records, or its folder")
        }
        _ => Error::io("read", program, &error),
    })?;
    let mut outcome = Outcome::Done;
    for file in &linked.files {
        if let Some((at, why)) = file.damage {
            let error = Error::malformed(format!("{why}; probes after it may be missing")).at_offset(at);
            report::error(&error.in_file(&file.path));
            outcome = Outcome::Partial;
        }
    }
    for name in &linked.missing {
        // Best effort: stderr may be closed.
        let _ = writeln!(std::io::stderr(), "note: the library {name} was not found, so its probes are not listed");
    }
    let lines: Vec<_> = linked.files.iter().flat_map(lines).collect();
    if lines.is_empty() {
        let libraries = match linked.files.len() - 1 {
            0 => String::new(),
            1 => " and its library".to_string(),
            count => format!(" and its {count} libraries"),
        };
        let _ =
            writeln!(std::io::stderr(), "note: there are no probes of sys/sdt.h in {}{libraries}", program.display());
    }
    let mut layout = Layout::with_alignments([Align::Left, Align::Right, Align::Left, Align::Left, Align::Left]);
    lines.iter().for_each(|line| layout.widen(line));
    let mut out = Out::default();
    for line in &lines {
        layout.put_line(&mut out, line);
    }
    OutputSink::stdout().print(out.written(), outcome)
}

/// The lines of a file: the name as `-P` takes it, the number of places with the same arguments, whether the program tests a
/// semaphore, the file, and the arguments.
fn lines(file: &FileProbes) -> Vec<[String; 5]> {
    let mut counts: BTreeMap<(String, bool, &str), usize> = BTreeMap::new();
    for place in &file.places {
        let name = format!("{PREFIX}{}:{}", place.provider, place.name);
        *counts.entry((name, place.semaphore.is_some(), &place.arguments)).or_default() += 1;
    }
    let line = |((name, has_semaphore, arguments), count): ((String, bool, &str), usize)| {
        let semaphore = if has_semaphore { "semaphore" } else { "" };
        [name, count.to_string(), semaphore.to_string(), file.path.display().to_string(), arguments.to_string()]
    };
    counts.into_iter().map(line).collect()
}

/// Adds to an error of `-E` that a pattern is that of a probe, as uftrace's option of this name takes it.
pub(super) fn with_hint(options: &RecordOptions, program: &Path, error: Error) -> Error {
    let Ok(linked) = tracemill_run::probes(program) else { return error };
    let is_probe = |text: &&String| {
        let glob = text.replace(".*", "*");
        let pattern = ProbePattern::new(&glob);
        let mut places = linked.files.iter().flat_map(|file| &file.places);
        text.contains(':') && places.any(|place| pattern.matches(&place.provider, &place.name))
    };
    match options.kernel_events.iter().find(is_probe) {
        Some(text) => {
            let glob = text.replace(".*", "*");
            error.with_help(format!("`{text}` is a probe of the program, which `-P '{PREFIX}{glob}'` records"))
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_have_names_of_their_own() {
        let cases = [
            ("sdt:app:begin", "app", "begin", true),
            ("sdt:app:begin", "app", "begin2", false),
            ("sdt:app:*", "app", "end", true),
            ("sdt:a*:b?g*", "app", "begin", true),
            ("sdt:app", "app", "end", true),
            ("sdt:app", "apple", "end", false),
            ("sdt:", "any", "thing", true),
            ("sdt::begin", "any", "begin", true),
            ("sdt:app:a:b", "app", "a:b", true),
        ];
        for (text, provider, name, is_match) in cases {
            assert!(is_pattern(text));
            assert_eq!(ProbePattern::new(text).matches(provider, name), is_match, "{text} {provider}:{name}");
        }
        assert!(!is_pattern("sdt") && !is_pattern("std::sdt:"));
    }
}
