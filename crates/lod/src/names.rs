//! Names of events by number.

use std::collections::HashMap;
use std::sync::Arc;

/// Names by number. A number is never given twice.
#[derive(Default)]
pub(crate) struct NameTable {
    list: Vec<Arc<str>>,
    of_name: HashMap<Box<[u8]>, u32>,
}

impl NameTable {
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.of_name.get(name) {
            return *number;
        }
        let number = self.list.len() as u32;
        self.list.push(String::from_utf8_lossy(name).into());
        self.of_name.insert(name.into(), number);
        number
    }

    pub(crate) fn list(&self) -> &[Arc<str>] {
        &self.list
    }
}
