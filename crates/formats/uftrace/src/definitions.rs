//! The definitions of a folder: everything that its records are read with.

use std::sync::Arc;

use tracemill_model::schema::ByteOrder;

use super::arguments::Signatures;
use super::classes::EventNames;
use super::kernel::Kernel;
use super::names::{SymbolNames, SymbolResolver};
use super::records::TaskBytes;

/// Definitions of a folder.
#[derive(Clone)]
pub(super) struct FolderDefinitions {
    pub order: ByteOrder,
    pub names: Arc<SymbolNames>,
    pub signatures: Arc<Signatures>,
    pub event_names: Arc<EventNames>,
    /// Formats of the kernel's events, where there is kernel data.
    pub kernel: Option<Arc<Kernel>>,
}

impl FolderDefinitions {
    /// The file of a task, to be read.
    pub(super) fn task<'a>(&'a self, bytes: &'a [u8], tid: i64) -> TaskBytes<'a> {
        TaskBytes {
            bytes,
            order: self.order,
            signatures: &self.signatures,
            resolver: SymbolResolver::new(&self.names, tid),
            is_64_bit: self.names.is_64_bit,
        }
    }
}
