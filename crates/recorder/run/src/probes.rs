//! Probes that are recorded: programs ask about the files that are loaded into them, and get the places of those probes that
//! were chosen, with the ids of their events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tracemill_record::Bell;

use crate::elf::Elf;
use crate::notes::{ProbeNotes, ProbePlace};
use crate::table;

/// Chooses probes, by provider and name.
#[derive(Clone)]
pub struct ChooseProbes(pub Arc<ChooseProbesFn>);

/// See [`ChooseProbes`].
pub type ChooseProbesFn = dyn Fn(&str, &str) -> bool + Send + Sync;

impl std::fmt::Debug for ChooseProbes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChooseProbes")
    }
}

/// The fate of probes that were chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedProbes {
    /// Were any wanted?
    pub are_wanted: bool,
    /// Places that became a jump, in all programs.
    pub jumps: u64,
    /// Places that became a trap, since a jump reaches no free memory.
    pub traps: u64,
    /// Places that stay as they are.
    pub left: u64,
    /// Events of handlers of signals that interrupted the recorder in their thread.
    pub missed: u64,
    /// Names of probes that were chosen, as events have them: `PROVIDER:NAME`.
    pub chosen: BTreeSet<String>,
    /// Names of others that programs and libraries have.
    pub others: BTreeSet<String>,
    /// Files with notes that cannot be read: where, and why.
    pub damaged: BTreeMap<PathBuf, (u64, &'static str)>,
}

impl RecordedProbes {
    /// With the numbers that programs count.
    pub(crate) fn with_counts(self, bell: Option<&Bell>) -> RecordedProbes {
        let [jumps, traps, left, missed] = bell.map_or([0; 4], Bell::probes);
        RecordedProbes { jumps, traps, left, missed, ..self }
    }
}

/// Names of probes that were not chosen, which are remembered.
const MOST_OTHERS: usize = 1000;
/// The id of the first event of this kind.
const FIRST_ID: u64 = 1_000_000;
/// The id of the first event of the next kind.
const ID_END: u64 = 2_000_000;
/// The list of events.
pub(crate) const EVENTS: &str = "events.txt";

/// Answers what programs ask.
pub(crate) struct ProbeAnswers {
    choose: ChooseProbes,
    ids: BTreeMap<String, u64>,
    /// Probes of files that were asked about, with what shows that a file is the same.
    known: HashMap<(PathBuf, u64, Option<SystemTime>), Arc<ProbeNotes>>,
    pub(crate) recorded: RecordedProbes,
}

impl ProbeAnswers {
    pub(crate) fn new(choose: ChooseProbes) -> ProbeAnswers {
        let recorded = RecordedProbes { are_wanted: true, ..RecordedProbes::default() };
        ProbeAnswers { choose, ids: BTreeMap::new(), known: HashMap::new(), recorded }
    }

    /// Looks for questions, and answers them.
    pub(crate) fn find_new(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_probe = name.starts_with(table::PROBE_FILE);
            let Some(asked) = name.strip_suffix(table::QUESTION).filter(|_| is_probe) else { continue };
            let answer = self.answer(folder, &String::from_utf8_lossy(&fs::read(&path)?))?;
            let _ = fs::remove_file(&path);
            let unfinished = folder.join(format!("{asked}.new"));
            fs::write(&unfinished, answer)?;
            fs::rename(unfinished, folder.join(asked))?;
        }
        Ok(())
    }

    /// The places of probes of the files that a question lists.
    fn answer(&mut self, folder: &Path, question: &str) -> io::Result<Vec<u8>> {
        let mut answer = table::PROBES.to_vec();
        for line in question.lines() {
            let Some((base, path)) = line.split_once(' ') else { continue };
            let Ok(base) = u64::from_str_radix(base, 16) else { continue };
            let notes = self.notes(Path::new(path));
            if let Some(damage) = notes.damage {
                self.recorded.damaged.insert(path.into(), damage);
            }
            for place in &notes.places {
                let Some(id) = self.id(folder, place)? else { continue };
                let words =
                    [base.wrapping_add(place.address), place.semaphore.map_or(0, |at| base.wrapping_add(at)), id];
                answer.extend(words.into_iter().flat_map(u64::to_le_bytes));
            }
        }
        Ok(answer)
    }

    fn notes(&mut self, path: &Path) -> Arc<ProbeNotes> {
        let file = fs::metadata(path).map_or((0, None), |file| (file.len(), file.modified().ok()));
        let read = || {
            let elf = fs::read(path).ok().and_then(|bytes| Elf::read(&bytes));
            elf.map_or_else(Arc::default, |elf| Arc::new(elf.probes))
        };
        self.known.entry((path.to_path_buf(), file.0, file.1)).or_insert_with(read).clone()
    }

    /// The id of the events of a probe; `None` when it is not chosen.
    fn id(&mut self, folder: &Path, place: &ProbePlace) -> io::Result<Option<u64>> {
        let name = format!("{}:{}", place.provider, place.name);
        if let Some(id) = self.ids.get(&name) {
            return Ok(Some(*id));
        }
        let id = FIRST_ID + self.ids.len() as u64;
        if id == ID_END || !(self.choose.0)(&place.provider, &place.name) {
            if self.recorded.others.len() < MOST_OTHERS {
                self.recorded.others.insert(name);
            }
            return Ok(None);
        }
        // Before a program knows it: the folder of a recorder that dies has the names of all its events.
        let mut events = File::options().append(true).create(true).open(folder.join(EVENTS))?;
        events.write_all(format!("EVENT: {id} {name}\n").as_bytes())?;
        self.recorded.chosen.insert(name.clone());
        self.ids.insert(name, id);
        Ok(Some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_one_id_for_all_places_of_a_name() -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("tracemill-probes-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut answers = ProbeAnswers::new(ChooseProbes(Arc::new(|provider, name| provider == "a" && name != "no")));
        let mut id = |provider: &str, name: &str| {
            let place = ProbePlace {
                provider: provider.into(),
                name: name.into(),
                arguments: String::new(),
                address: 1,
                semaphore: None,
            };
            answers.id(&folder, &place)
        };
        let ids = [id("a", "x")?, id("b", "x")?, id("a", "y")?, id("a", "no")?, id("a", "x")?];
        assert_eq!(ids, [Some(1_000_000), None, Some(1_000_001), None, Some(1_000_000)]);
        assert_eq!(fs::read_to_string(folder.join(EVENTS))?, "EVENT: 1000000 a:x\nEVENT: 1000001 a:y\n");
        let names = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
        let recorded = &answers.recorded;
        assert_eq!((names(&recorded.chosen), names(&recorded.others)), ("a:x a:y".into(), "a:no b:x".into()));
        // A question about a file without probes, and one about none.
        fs::write(folder.join(".probes-1.ask"), format!("1000 {}\nx\n2000 /nowhere\n", folder.join(EVENTS).display()))?;
        answers.find_new(&folder)?;
        assert_eq!(fs::read(folder.join(".probes-1"))?, table::PROBES);
        assert!(!folder.join(".probes-1.ask").exists());
        fs::remove_dir_all(folder)
    }
}
