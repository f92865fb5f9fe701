//! Events of LTTng-UST about calls and the places of code in memory.

use tracemill_format::calls::{CallEvents, ModuleEvents};

/// LTTng's helpers for `-finstrument-functions`. The fast one does not say which function is left.
pub(super) const CALLS: &[CallEvents] = &[
    CallEvents::by_address("lttng_ust_cyg_profile:func_entry", "lttng_ust_cyg_profile:func_exit", "addr"),
    CallEvents::by_address("lttng_ust_cyg_profile_fast:func_entry", "lttng_ust_cyg_profile_fast:func_exit", "addr"),
];

/// Where LTTng-UST says that programs and libraries lie.
pub(super) const MODULES: &[ModuleEvents] = &[
    ModuleEvents { name: "lttng_ust_statedump:bin_info", fields: ["baddr", "memsz", "path"] },
    ModuleEvents { name: "lttng_ust_lib:load", fields: ["baddr", "memsz", "path"] },
    ModuleEvents { name: "lttng_ust_dl:dlopen", fields: ["baddr", "memsz", "path"] },
];
