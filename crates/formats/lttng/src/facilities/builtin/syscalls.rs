//! The facility `kernel_arch` of every architecture: layouts of events, and tables of system calls.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use super::super::definitions::{DefinitionFile, FacilityDefinition};

/// Layouts, with `@` for the labels.
const FORMS: &str = include_str!("kernel_arch.xml");
/// The tables.
const TABLES: &str = include_str!("syscalls.txt");

type SyscallLabels = Vec<(&'static str, i64)>;

/// A table of system calls.
struct SyscallTable {
    arch: &'static str,
    forms: Vec<usize>,
    labels: SyscallLabels,
}

/// All definitions.
pub(super) fn all() -> Vec<Arc<FacilityDefinition>> {
    let forms: Vec<&str> = FORMS.split("<facility name=\"kernel_arch\">").skip(1).collect();
    let mut all = Vec::new();
    for table in tables() {
        let mut labels = String::new();
        for (name, value) in &table.labels {
            let _ = write!(labels, "<label name=\"{}\" value=\"{value}\"/>", name.replace('~', " ").replace('^', "\t"));
        }
        for form in table.forms.iter().filter_map(|&at| forms.get(at)) {
            let head = format!("<facility name=\"kernel_arch\" arch=\"{}\">", table.arch);
            let text = head + &form.replace('@', &labels);
            all.extend(DefinitionFile::parse(text.as_bytes(), Path::new("kernel_arch.xml")).facilities);
        }
    }
    all
}

fn tables() -> Vec<SyscallTable> {
    let mut tables: Vec<SyscallTable> = Vec::new();
    // The labels of the table before that are still to be kept or dropped.
    let mut before: std::vec::IntoIter<(&str, i64)> = Vec::new().into_iter();
    for line in TABLES.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("table ") {
            let mut words = head.split(' ');
            let arch = words.next().unwrap_or_default();
            // After them the date and `forms`.
            let forms = words.skip(2).filter_map(|form| form.parse().ok()).collect();
            let previous = tables.last().filter(|table| table.arch == arch);
            before = previous.map(|table| table.labels.clone()).unwrap_or_default().into_iter();
            tables.push(SyscallTable { arch, forms, labels: Vec::new() });
            continue;
        }
        let Some(table) = tables.last_mut() else { continue };
        for word in line.split_whitespace() {
            let count = |count: &str| count.parse().unwrap_or(0);
            if let Some(kept) = word.strip_prefix("keep:") {
                table.labels.extend(before.by_ref().take(count(kept)));
            } else if let Some(dropped) = word.strip_prefix("drop:") {
                before.by_ref().take(count(dropped)).for_each(drop);
            } else {
                let next = table.labels.last().map_or(0, |(_, value)| value + 1);
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                table.labels.push((name, value.parse().unwrap_or(next)));
            }
        }
    }
    tables
}
