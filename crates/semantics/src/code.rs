//! Events that say which code processes have mapped.

use tracemill_model::schema::{EventClassId, FieldKind, FieldPath};

use crate::fields::{is_integer, is_text};
use crate::{Semantics, names};

/// Fields by which an event says that the code changes that a process, or the kernel, has mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeFields {
    /// A process maps a file.
    Map {
        /// The process; -1 for the kernel.
        process: FieldPath,
        /// The first address.
        begin: FieldPath,
        /// How many bytes.
        len: FieldPath,
        /// The place of its beginning in the file.
        file_offset: FieldPath,
        /// The path of the file.
        file: FieldPath,
        /// Is it data, not code?
        data: Option<FieldPath>,
        /// Bits of what may be done with it, as of `mmap`: 4 for execution.
        protection: Option<FieldPath>,
        /// Build id of the file in hexadecimal digits.
        build_id: Option<FieldPath>,
    },
    /// The kernel gets a function.
    Function {
        /// Its first address.
        begin: FieldPath,
        /// How many bytes.
        len: FieldPath,
        /// Its name.
        name: FieldPath,
        /// Bits: 1 when it goes instead.
        flags: Option<FieldPath>,
    },
    /// A process gets a name; it becomes another program if the flag says so.
    Exec {
        /// The process.
        process: FieldPath,
        /// Does it become another program?
        exec: FieldPath,
    },
    /// A process, or a thread of one, is made.
    Fork {
        /// The new process.
        process: FieldPath,
        /// The process that made it.
        parent: FieldPath,
    },
}

impl Semantics {
    /// How the events of a class say which code is mapped.
    pub fn code(&self, class: EventClassId) -> Option<CodeFields> {
        let name = self.schema.event(class).name.as_deref()?;
        let number = |name: &str| self.payload(class, name, is_integer);
        let text = |name: &str| self.payload(class, name, is_text);
        // Some formats have no booleans.
        let is_flag = |kind: &FieldKind| matches!(kind, FieldKind::Boolean(_)) || is_integer(kind);
        let flag = |name: &str| self.payload(class, name, is_flag);
        match name {
            _ if names::MAPS_CODE.contains(&name) => Some(CodeFields::Map {
                process: number("pid")?,
                begin: number("addr")?,
                len: number("len")?,
                file_offset: number("pgoff")?,
                file: text("filename")?,
                data: flag("data"),
                protection: number("prot"),
                build_id: text("build_id"),
            }),
            names::NEW_FUNCTION => Some(CodeFields::Function {
                begin: number("addr")?,
                len: number("len")?,
                name: text("name")?,
                flags: number("flags"),
            }),
            names::NEW_NAME => Some(CodeFields::Exec { process: number("pid")?, exec: flag("exec")? }),
            names::NEW_PROCESS => Some(CodeFields::Fork { process: number("pid")?, parent: number("ppid")? }),
            _ => None,
        }
    }
}
