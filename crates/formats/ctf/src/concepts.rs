//! What event names of known producers mean.

use tracemill_format::calls::{CallEvents, ModuleEvents};

/// Paths of the context that producers add.
const TASK: &[&str] = &["$ctx.vtid", "$ctx.tid", "$ctx._vtid", "$ctx._tid"];
const PROCESS: &[&str] = &["$ctx.vpid", "$ctx.pid", "$ctx._vpid", "$ctx._pid"];
const TASK_NAME: &[&str] = &["$ctx.procname", "$ctx._procname"];

/// LTTng's helpers for `-finstrument-functions`. The fast one does not say which function is left.
pub(super) const CALLS: &[CallEvents] = &[
    CallEvents {
        entry: "lttng_ust_cyg_profile:func_entry",
        exit: "lttng_ust_cyg_profile:func_exit",
        address: Some("addr"),
        task: TASK,
        process: PROCESS,
        task_name: TASK_NAME,
    },
    CallEvents {
        entry: "lttng_ust_cyg_profile_fast:func_entry",
        exit: "lttng_ust_cyg_profile_fast:func_exit",
        address: Some("addr"),
        task: TASK,
        process: PROCESS,
        task_name: TASK_NAME,
    },
];

/// Where LTTng-UST says that programs and libraries lie.
pub(super) const MODULES: &[ModuleEvents] = &[
    ModuleEvents { name: "lttng_ust_statedump:bin_info", fields: ["baddr", "memsz", "path"] },
    ModuleEvents { name: "lttng_ust_lib:load", fields: ["baddr", "memsz", "path"] },
    ModuleEvents { name: "lttng_ust_dl:dlopen", fields: ["baddr", "memsz", "path"] },
];
