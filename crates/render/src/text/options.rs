//! How lines look.

use std::fmt::Debug;
use std::sync::Arc;

use tracemill_model::schema::EventClassId;

use crate::time::TimeStyle;

/// Names that a line shows (`--names`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownNames {
    /// Of payload fields.
    pub payload: bool,
    /// Of context fields.
    pub context: bool,
    /// Of scopes.
    pub scope: bool,
    /// Of the words at the beginning of the line.
    pub header: bool,
}

impl Default for ShownNames {
    fn default() -> Self {
        ShownNames { payload: true, context: true, scope: false, header: false }
    }
}

/// Properties of the trace and the event class that a line shows (`--fields`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderFields {
    /// Name of the trace.
    pub trace: bool,
    /// `hostname` of the environment.
    pub hostname: bool,
    /// `domain` of the environment.
    pub domain: bool,
    /// `procname` of the environment.
    pub procname: bool,
    /// `vpid` of the environment.
    pub vpid: bool,
    /// Log level of the event class.
    pub log_level: bool,
    /// EMF URI of the event class.
    pub emf: bool,
}

impl Default for HeaderFields {
    fn default() -> Self {
        HeaderFields {
            trace: false,
            hostname: true,
            domain: false,
            procname: true,
            vpid: true,
            log_level: false,
            emf: false,
        }
    }
}

/// How lines look.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Names.
    pub names: ShownNames,
    /// Words about trace and class.
    pub fields: HeaderFields,
    /// Time.
    pub time: TimeStyle,
    /// Leave out the time since the line before.
    pub no_delta: bool,
    /// Terminal colours.
    pub color: bool,
    /// Functions and lines of addresses in programs, when they are wanted.
    pub origins: Option<Arc<dyn Origins>>,
}

/// Facts from the files of programs about addresses that events hold in their common contexts.
pub trait Origins: Debug + Send + Sync {
    /// Which members of the common context of a trace's class hold process and address; `None` when it has not both.
    fn members(&self, trace: usize, class: EventClassId) -> Option<[usize; 2]>;

    /// Description of an address that a process used at a time in ns: file, function, line, each with its name.
    fn origin(&self, trace: usize, process: i64, address: u64, ns: i128) -> Arc<[(&'static str, String); 3]>;

    /// The name of all that.
    fn name(&self) -> &str;
}

/// The escape sequences of a coloured line; all empty without colour.
#[derive(Clone, Copy)]
pub(super) struct Palette {
    pub(super) reset: &'static str,
    pub(super) name: &'static str,
    pub(super) field_name: &'static str,
    pub(super) value: &'static str,
    pub(super) event: &'static str,
    pub(super) time: &'static str,
    pub(super) unknown: &'static str,
}

impl Palette {
    pub(super) const NONE: Palette =
        Palette { reset: "", name: "", field_name: "", value: "", event: "", time: "", unknown: "" };
    pub(super) const COLOR: Palette = Palette {
        reset: "\x1b[0m",
        name: "\x1b[1m",
        field_name: "\x1b[36m",
        value: "\x1b[1m",
        event: "\x1b[1m\x1b[1m\x1b[35m",
        time: "\x1b[1m\x1b[1m\x1b[33m",
        unknown: "\x1b[1m\x1b[1m\x1b[31m",
    };
}
