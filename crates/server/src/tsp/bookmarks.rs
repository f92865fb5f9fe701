//! Bookmarks of an experiment: ranges that a user named. They are kept as long as the experiment is open.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::experiments::uuid_of;
use super::parameters::Parameters;
use super::refusal::{Answered, Refusal};

/// Bookmarks at most.
const MOST: usize = 1024;

/// The bookmarks of an experiment, by identifier.
#[derive(Default)]
pub(super) struct Bookmarks(Mutex<(u64, BTreeMap<String, Value>)>);

impl Bookmarks {
    fn known(&self) -> MutexGuard<'_, (u64, BTreeMap<String, Value>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self) -> Value {
        self.known().1.values().cloned().collect()
    }

    pub(super) fn add(&self, parameters: &Parameters) -> Answered {
        let mut known = self.known();
        if known.1.len() >= MOST {
            return Err(Refusal::new(500, "Too many bookmarks", format!("there are {MOST}; delete one")));
        }
        let uuid = uuid_of([b"bookmark".as_slice(), &known.0.to_le_bytes()]);
        let new = bookmark(&uuid, parameters)?;
        known.0 += 1;
        known.1.insert(uuid, new.clone());
        Ok(new)
    }

    pub(super) fn find(&self, uuid: &str) -> Answered {
        self.known().1.get(uuid).cloned().ok_or_else(missing)
    }

    pub(super) fn replace(&self, uuid: &str, parameters: &Parameters) -> Answered {
        let new = bookmark(uuid, parameters)?;
        *self.known().1.get_mut(uuid).ok_or_else(missing)? = new.clone();
        Ok(new)
    }

    pub(super) fn remove(&self, uuid: &str) -> Answered {
        self.known().1.remove(uuid).ok_or_else(missing)
    }
}

fn missing() -> Refusal {
    Refusal::new(404, "No such bookmark", "no bookmark of the experiment has this identifier")
}

fn bookmark(uuid: &str, parameters: &Parameters) -> Answered {
    let (start, end) = (parameters.needed_number("start")?, parameters.needed_number("end")?);
    if start > end {
        return Err(Refusal::parameters("a bookmark begins before it ends"));
    }
    Ok(json!({ "uuid": uuid, "name": parameters.needed_text("name")?, "start": start, "end": end }))
}
