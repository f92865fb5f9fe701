//! The names of places in programs, by the programs' files.

use std::rc::Rc;

use tracemill_analyses::kernel::{PlaceNames, Reading};
use tracemill_debug_info::{DebugInfo, SearchOptions};
use tracemill_engine::request::OpenedTraces;
use tracemill_model::error::Error;
use tracemill_render::text::Origins;

use crate::args::AnalyzeOptions;
use crate::report::Reporter;

/// The files of programs, which name places.
struct Places {
    info: DebugInfo,
    /// The machine of each trace.
    machines: Vec<u32>,
}

/// The names of places in the programs of these traces. Reads the events that say which files processes had mapped.
pub(super) fn names(
    options: &AnalyzeOptions,
    opened: &OpenedTraces,
    reading: &Reading<'_>,
    reporter: &Reporter,
) -> Result<Rc<dyn PlaceNames>, Error> {
    let (dir, target_prefix) = (options.debug_info_dir.clone(), options.debug_info_target_prefix.clone());
    for (option, folder) in [("--debug-info-dir", &dir), ("--debug-info-target-prefix", &target_prefix)] {
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            reporter.warning(&format!("{option} names `{}`: there is no such folder", folder.display()));
        }
    }
    let search = SearchOptions { dir, target_prefix, full_path: false };
    let info = DebugInfo::read(&opened.session, search, opened.query.jobs)?;
    let machines = (0..opened.session.traces.len()).map(|trace| reading.machine(trace)).collect();
    Ok(Rc::new(Places { info, machines }))
}

impl PlaceNames for Places {
    fn name(&self, machine: u32, process: i64, address: u64, at: i128) -> Option<String> {
        // The first trace of the machine that knows the process.
        let traces = self.machines.iter().enumerate().filter(|(_, own)| **own == machine);
        traces.map(|(trace, _)| self.info.origin(trace, process, address, at)).find_map(|origin| {
            // The line is the one after the call, so that only the function is shown, or the file.
            let [(_, bin), (_, function), _] = &*origin;
            [function, bin].into_iter().find(|name| !name.is_empty()).cloned()
        })
    }
}
