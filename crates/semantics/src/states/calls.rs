//! Names of system calls.

use std::sync::Arc;

use super::machine::{ConceptValues, Map};
use crate::{Field, syscall_name};

/// A name of a system call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallName {
    /// The name that all events of a class have, by its number.
    OfClass(u32),
    /// One that its event states: the thread has it.
    Own,
}

/// Names that all events of a class have. Their texts are shared with the table of concepts, where one more owner costs as
/// much as all else of a call: so a call has a number.
#[derive(Debug, Default)]
pub(super) struct CallNames {
    /// The texts, which stay where they are as long as they are kept.
    texts: Vec<Arc<str>>,
    /// Numbers of texts by their places in memory.
    places: Map<usize, u32>,
    /// The number that was asked for last, for each place modulo [`RECENT`].
    recent: Vec<u32>,
}

const RECENT: usize = 64;

impl CallNames {
    /// The name of the system call that an event enters, where all events of its class have it.
    #[inline]
    pub(super) fn name_of_class(&mut self, values: &impl ConceptValues) -> Option<CallName> {
        let text = values.constant(Field::Name)?;
        let place = text.as_ptr() as usize;
        let recent = self.recent.get((place >> 4) % RECENT).copied();
        match recent.filter(|number| self.texts.get(*number as usize).is_some_and(|known| Arc::ptr_eq(known, text))) {
            Some(number) => Some(CallName::OfClass(number)),
            None => Some(CallName::OfClass(self.find(text))),
        }
    }

    fn find(&mut self, text: &Arc<str>) -> u32 {
        let place = text.as_ptr() as usize;
        let number = *self.places.entry(place).or_insert_with(|| {
            self.texts.push(text.clone());
            self.texts.len() as u32 - 1
        });
        self.recent.resize(RECENT, u32::MAX);
        self.recent[(place >> 4) % RECENT] = number;
        number
    }

    /// The text of a name; `own` is that which the thread has.
    #[inline]
    pub(super) fn text<'n>(&'n self, name: CallName, own: Option<&'n Arc<str>>) -> &'n str {
        match name {
            CallName::OfClass(number) => without_prefix(&self.texts[number as usize]),
            CallName::Own => own.map_or("", |own| own),
        }
    }
}

#[inline]
fn without_prefix(name: &str) -> &str {
    name.strip_prefix("sys_").unwrap_or(name)
}

/// The name that an event states. A system call that only has a number has the name that the machine has for it, and is named
/// after the number where that is not known.
pub(super) fn own_name(values: &impl ConceptValues) -> Arc<str> {
    match values.text(Field::Name).or_else(|| values.text(Field::Nr)) {
        Some(name) => without_prefix(&name).into(),
        None => match values.integer(Field::Nr) {
            Some(number) => {
                let known = |machine: &str| syscall_name(machine, i64::try_from(number).ok()?);
                let name = values.text(Field::Machine).and_then(|machine| known(&machine));
                name.map_or_else(|| format!("syscall_{number}").into(), Into::into)
            }
            None => "unknown".into(),
        },
    }
}
