//! Threads that are listed by events without a time.

use std::borrow::Cow;

use tracemill_semantics::states::{ConceptValues, Happening};
use tracemill_semantics::{Concept, Field};

/// Numbers and texts of a list that hold at any time. A state (`Field::Status`) would need one.
const NUMBERS: [Field; 6] = [Field::Tid, Field::Pid, Field::Ppid, Field::Type, Field::Vtid, Field::Vpid];
const TEXTS: [Field; 2] = [Field::Comm, Field::Name];

/// A thread that an event without a time lists.
pub(crate) struct ListedTask {
    pub(crate) machine: u32,
    is_legacy: bool,
    values: ListedValues,
}

struct ListedValues {
    numbers: Vec<(Field, i128)>,
    texts: Vec<(Field, String)>,
}

impl ListedTask {
    pub(crate) fn new(machine: u32, is_legacy: bool, values: &impl ConceptValues) -> Self {
        let numbers = NUMBERS.into_iter().filter_map(|field| Some((field, values.integer(field)?))).collect();
        let texts = TEXTS.into_iter().filter_map(|field| Some((field, values.text(field)?.into_owned()))).collect();
        Self { machine, is_legacy, values: ListedValues { numbers, texts } }
    }

    pub(crate) fn happening(&self) -> Happening<'_, impl ConceptValues> {
        Happening { concept: Concept::DumpTask, is_legacy: self.is_legacy, values: &self.values }
    }
}

impl ConceptValues for ListedValues {
    fn integer(&self, field: Field) -> Option<i128> {
        self.numbers.iter().find(|(own, _)| *own == field).map(|(_, value)| *value)
    }

    fn text(&self, field: Field) -> Option<Cow<'_, str>> {
        self.texts.iter().find(|(own, _)| *own == field).map(|(_, text)| Cow::Borrowed(&**text))
    }

    fn has(&self, field: Field) -> bool {
        self.numbers.iter().any(|(own, _)| *own == field) || self.texts.iter().any(|(own, _)| *own == field)
    }
}
