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
            Some(name) => {
                let (lttng, kernel) = own_names(name, &names);
                format!("lttng enable-event --kernel {lttng}, or trace-cmd record -e {kernel}")
            }
            None => format!("no tracer records {}", concept.name()),
        },
    }
}

/// The names that LTTng and the kernel give to one event. LTTng puts the subsystem before many of the kernel's names:
/// `power_cpu_idle`, `irq_softirq_entry`, and `kvm_x86_entry` of `kvm_entry`.
fn own_names<'n>(name: &'n str, names: &[&'n str]) -> (&'n str, &'n str) {
    let is_prefixed = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|before| before.ends_with('_')) || long.replacen("x86_", "", 1) == short
    };
    let lttng = names.iter().find(|other| **other != name && is_prefixed(other, name)).unwrap_or(&name);
    let kernel = names.iter().find(|other| **other != name && is_prefixed(name, other)).unwrap_or(&name);
    (lttng, kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tracer_is_asked_for_its_own_name_of_an_event() {
        let text = |concept: Concept| how_to_record(&[concept], Concepts::built_in());
        let both =
            |lttng: &str, kernel: &str| format!("lttng enable-event --kernel {lttng}, or trace-cmd record -e {kernel}");
        assert_eq!(text(Concept::Idle), both("power_cpu_idle", "cpu_idle"));
        assert_eq!(text(Concept::Frequency), both("power_cpu_frequency", "cpu_frequency"));
        assert_eq!(text(Concept::Suspend), both("power_suspend_resume", "suspend_resume"));
        assert_eq!(text(Concept::SoftEntry), both("irq_softirq_entry", "softirq_entry"));
        assert_eq!(text(Concept::VmExit), both("kvm_x86_exit", "kvm_exit"));
        assert_eq!(text(Concept::Switch), both("sched_switch", "sched_switch"));
        assert_eq!(text(Concept::RqIssue), both("block_rq_issue", "block_rq_issue"));
    }
}
