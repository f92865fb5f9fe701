//! The list of analyses that traces can feed, and how to record what they lack.

use std::collections::HashSet;

use tracemill_analyses::kernel::{ANALYSES, Descriptor};
use tracemill_codec::text::out::Out;
use tracemill_semantics::{Concept, Concepts};
use tracemill_table::{Align, Layout};

use super::report_forms::quoted;
use crate::args::AnalyzeFormat;

/// Analyses that the traces can feed.
pub(super) fn list(has: &HashSet<Concept>, concepts: &Concepts, format: AnalyzeFormat) -> String {
    if format != AnalyzeFormat::Table {
        let one = |known: &Descriptor| {
            let names = |concepts: &mut dyn Iterator<Item = &Concept>| {
                concepts.map(|concept| quoted(concept.name())).collect::<Vec<_>>().join(",")
            };
            let lacks = known.missing_concepts(has);
            let parts = known.wants.iter().filter(|(concept, _)| !has.contains(concept));
            format!(
                "{{\"name\":{},\"about\":{},\"can_run\":{},\"missing\":[{}],\"not_told\":[{}]}}",
                quoted(known.name),
                quoted(known.about),
                lacks.is_empty(),
                names(&mut lacks.iter().copied().flatten()),
                parts.map(|(_, what)| quoted(what)).collect::<Vec<_>>().join(",")
            )
        };
        return format!("{{\"analyses\":[{}]}}\n", ANALYSES.iter().map(one).collect::<Vec<_>>().join(","));
    }
    let (mut layout, mut out) = (Layout::with_alignments([Align::Left, Align::Left]), Out::default());
    ANALYSES.iter().for_each(|known| layout.widen(&[known.name]));
    for known in ANALYSES {
        layout.put_line(&mut out, &[known.name, known.about]);
        let mut further = |text: String| layout.put_line(&mut out, &["", &format!("  {text}")]);
        let lacks = known.missing_concepts(has);
        if let Some(group) = lacks.first() {
            let names: Vec<&str> = group.iter().map(|concept| concept.name()).collect();
            further(format!("not possible: no {}", names.join(" or ")));
            how_to_record(group, concepts).lines().for_each(|line| further(line.to_string()));
        }
        if lacks.is_empty() {
            for (concept, what) in known.wants.iter().filter(|(concept, _)| !has.contains(concept)) {
                further(format!("without {what} (no {})", concept.name()));
            }
        }
    }
    String::from_utf8_lossy(out.written()).into_owned()
}

/// The commands that record events of one of these concepts.
pub(super) fn how_to_record(group: &[Concept], concepts: &Concepts) -> String {
    let concept = group[0];
    let is_call = matches!(concept, Concept::SysEntry | Concept::SysExit);
    let is_program = matches!(
        concept,
        Concept::CallEntry | Concept::CallValues | Concept::CallExit | Concept::Load | Concept::Unload
    );
    if matches!(concept, Concept::HeapAlloc | Concept::HeapRealloc | Concept::HeapFree) {
        return "lttng enable-event --userspace 'lttng_ust_libc:*', contexts vpid, vtid and ip, and run the program with \
                LD_PRELOAD=liblttng-ust-libc-wrapper.so; or \
                tracemill record -a ./program, which records its calls with their values"
            .to_string();
    }
    if concept.name().starts_with("ros2_") {
        return "lttng enable-event --userspace 'ros2:*,dds:*', contexts vpid, vtid and procname, before the nodes start, as ros2 trace \
                does"
            .to_string();
    }
    let mut names: Vec<&str> = concepts.events(concept).collect();
    names.dedup();
    let plain = |name: &&&str| !name.contains(['*', ':', '.']);
    match (is_call, is_program) {
        (true, _) => "lttng enable-event --kernel --syscall --all, or trace-cmd record -e syscalls".to_string(),
        (_, true) => format!("record {} with lttng enable-event --userspace", names.join(" or ")),
        _ => match names.iter().find(plain) {
            Some(name) => format!("lttng enable-event --kernel {name}, or trace-cmd record -e {name}"),
            None => format!("no tracer records {}", concept.name()),
        },
    }
}
