//! Actions at the calls of each function: decided here, before the program runs, for all symbols of a session.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::elf::Elf;
use crate::patched::entries;
use crate::probes::ChooseProbes;
use crate::table;

/// A function of the program or of a library.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedFunction {
    /// Its name, as the file has it.
    pub name: String,
    /// Name of the file.
    pub module: String,
    /// The file.
    pub path: Arc<Path>,
    /// Its address in the file, as debugging information has it.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}

/// The action at the calls of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// It is recorded with what it calls, or left out with it.
    pub filter: Option<bool>,
    /// Depth that is left from it on.
    pub depth: Option<u32>,
    /// Calls below it that take less are left out, in ns.
    pub time_ns: Option<u64>,
    /// Functions below it that are smaller are left out, in bytes.
    pub size: Option<u64>,
    /// Recording begins with it, or pauses.
    pub tracing: Option<bool>,
    /// It is recorded even when it is short.
    pub is_traced: bool,
    /// Its callers are recorded.
    pub is_caller: bool,
    /// Recording ends with it.
    pub is_last: bool,
    /// It is left out itself; what it calls is recorded.
    pub is_alone: bool,
    /// Its entry is patched, where that can be.
    pub is_patched: bool,
    /// Its arguments that are recorded.
    pub arguments: Vec<RecordedValue>,
    /// The parts of its return value that are recorded.
    pub results: Vec<RecordedValue>,
}

/// A value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordedValue {
    /// The form in which it is stored.
    pub form: StoredForm,
    /// Bytes that are stored; not of texts.
    pub size: usize,
    /// Where it is.
    pub place: ValuePlace,
}

/// The form in which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoredForm {
    /// Its bytes.
    Plain,
    /// The text of C that it points to.
    Text,
    /// The text of the `std::string` that it points to.
    StdString,
    /// Bytes that are on the stack from its place on.
    Bytes,
    /// The bytes that it points to.
    Behind,
}

/// Where a value is, by the calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValuePlace {
    /// An integer or address, from 0.
    Integer(u32),
    /// A float, from 0.
    Float(u32),
    /// A word of the stack, after the return address, which is 0.
    Stack(u32),
    /// An integer or address that is returned, from 0.
    Result(u32),
    /// A float that is returned, from 0.
    FloatResult(u32),
    /// The `long double` that is returned.
    LongResult,
}

impl RecordedValue {
    fn to_table(self) -> table::CallValue {
        let form = match self.form {
            StoredForm::Plain => table::PLAIN,
            StoredForm::Text => table::TEXT,
            StoredForm::StdString => table::STD_STRING,
            StoredForm::Bytes => table::BYTES,
            StoredForm::Behind => table::BEHIND,
        };
        let (place, index) = match self.place {
            ValuePlace::Integer(index) => (table::INTEGER, index),
            ValuePlace::Float(index) => (table::VECTOR, index),
            ValuePlace::Stack(index) => (table::STACK, index),
            ValuePlace::Result(index) => (table::RESULT, index),
            ValuePlace::FloatResult(index) => (table::FLOAT_RESULT, index),
            ValuePlace::LongResult => (table::LONG_RESULT, 0),
        };
        table::CallValue { form, size: self.size as u64, place, index: index.into() }
    }
}

/// Actions at the calls of many functions.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// By function, in the order in which they were asked for.
    pub of: Vec<Action>,
    /// Is only recorded what a filter lets in?
    pub is_opt_in: bool,
}

/// The lines of `info` about the values that are recorded.
#[derive(Clone, Debug, Default)]
pub struct ValueLines {
    /// The options for arguments, joined.
    pub arguments: String,
    /// The options for return values, joined.
    pub results: String,
}

/// Decides about functions. The program is the first module.
#[derive(Clone)]
pub struct Decide(pub Arc<DecideFn>);

/// See [`Decide`].
pub type DecideFn = dyn Fn(&[RecordedFunction]) -> Actions + Send + Sync;

impl std::fmt::Debug for Decide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decide")
    }
}

/// The debugging information of a file, as lines of a `.dbg` file have it.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Lines of enumerations, without the letter: `enum NAME {A=0,B=1}`.
    pub enumerations: Vec<String>,
    /// Functions by their addresses in the file: the name, and the lines about it.
    pub functions: BTreeMap<u64, (String, Vec<String>)>,
}

/// Describes files.
#[derive(Clone)]
pub struct Describe(pub Arc<DescribeFn>);

/// See [`Describe`].
pub type DescribeFn = dyn Fn(&Path) -> Description + Send + Sync;

impl std::fmt::Debug for Describe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Describe")
    }
}

/// Where calls to libraries are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LibraryCalls {
    /// Nowhere.
    None,
    /// In the program itself.
    #[default]
    OfProgram,
    /// In the program and in its libraries.
    OfAll,
}

/// Selection of calls.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Calls to libraries that are recorded.
    pub library_calls: LibraryCalls,
    /// Are they recorded of programs that are not instrumented?
    pub of_any_program: bool,
    /// Decides about functions, if they differ.
    pub decide: Option<Decide>,
    /// Chooses probes of `sys/sdt.h`, if some are wanted.
    pub probes: Option<ChooseProbes>,
    /// Does it decide only which functions are patched?
    pub only_patches: bool,
    /// Deepest calls that are recorded, counted from those that a filter lets in.
    pub depth: Option<u16>,
    /// Shorter calls are left out, in ns.
    pub time_ns: u64,
    /// Smaller functions are left out, in bytes.
    pub size: u64,
    /// Recording waits for a trigger.
    pub starts_off: bool,
    /// Return addresses stay as they are: ends of calls are guessed.
    pub guesses_ends: bool,
    /// The lines of `info` about values.
    pub values: ValueLines,
    /// Describes functions in `.dbg` files, if that is wanted.
    pub describe: Option<Describe>,
    /// Are the values recorded of which these files tell?
    pub has_auto_values: bool,
    /// Are they those of functions that are named without values?
    pub has_named_types: bool,
    /// Do these files tell source lines?
    pub has_lines: bool,
    /// Are patterns globs? `info` says so.
    pub has_globs: bool,
}

impl Selection {
    /// Must calls be looked at one by one?
    pub(crate) fn is_needed(&self) -> bool {
        self.decide.is_some() && !self.only_patches
            || self.time_ns > 0
            || self.size > 0
            || self.starts_off
            || self.guesses_ends
    }
}

/// Writes tables for sessions that begin.
pub(crate) struct TableWriter {
    decide: Decide,
    /// Smaller functions are left out, unless an action says otherwise.
    size: u64,
    /// Counts of the clock in 2^20 ns.
    rate: u64,
    done: BTreeSet<PathBuf>,
}

impl TableWriter {
    pub(crate) fn new(decide: Decide, size: u64, rate: u64) -> TableWriter {
        TableWriter { decide, size, rate, done: BTreeSet::new() }
    }

    /// Looks for maps of sessions that have no table yet.
    pub(crate) fn find_new(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(session) = name.strip_prefix("sid-").and_then(|name| name.strip_suffix(".map")) else { continue };
            if self.done.insert(path.clone()) {
                let table = self.table(&String::from_utf8_lossy(&fs::read(&path)?));
                fs::write(folder.join(".rules.new"), table)?;
                fs::rename(folder.join(".rules.new"), folder.join(format!(".rules-{session}")))?;
            }
        }
        Ok(())
    }

    /// The table for the modules of a map.
    fn table(&self, map: &str) -> Vec<u8> {
        let (mut functions, mut places, mut patchable) = (Vec::new(), Vec::new(), Vec::new());
        let mut program = None;
        for line in map.lines() {
            let Some(file) = line.find('/').map(|at| Path::new(&line[at..])) else { continue };
            let begin = line.split('-').next().and_then(|text| u64::from_str_radix(text, 16).ok());
            let elf = fs::read(file).ok().and_then(|bytes| Elf::read(&bytes));
            let (Some(begin), Some(elf)) = (begin, elf) else { continue };
            let module = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (path, base): (Arc<Path>, _) = (file.into(), elf.base);
            program.get_or_insert_with(|| (path.clone(), begin.wrapping_sub(base)));
            patchable.extend(elf.patchable.iter().map(|[at, len]| [begin.saturating_add(*at), *len]));
            for (address, (letter, end, name)) in elf.symbols {
                if "tTwP".contains(letter) {
                    places.push([begin.saturating_add(address), begin.saturating_add(end)]);
                    // A call to a library is as large as the code that the linker makes for it.
                    let size = if letter == 'P' { PLT_ENTRY } else { end - address };
                    let (module, path) = (module.clone(), path.clone());
                    functions.push(RecordedFunction {
                        name,
                        module,
                        path,
                        address: address.saturating_add(base),
                        size,
                    });
                }
            }
        }
        let actions = (self.decide.0)(&functions);
        let wanted = |path: &Path| {
            let all = functions.iter().zip(&actions.of).filter(|(function, _)| *function.path == *path);
            all.filter(|(_, action)| action.is_patched).map(|(function, _)| (function.address, function.size)).collect()
        };
        let patched = program.map_or_else(Vec::new, |(path, shift)| entries(&path, &wanted(&path), shift));
        // Sizes that functions are measured by.
        let sizes: BTreeSet<u64> =
            actions.of.iter().filter_map(|action| action.size).chain([self.size]).filter(|size| *size > 0).collect();
        let (mut entries, mut ranges, mut values) = (Vec::new(), Vec::new(), Runs::default());
        for ((place, function), action) in places.iter().zip(&functions).zip(&actions.of) {
            if *action != Action::default() || !sizes.is_empty() {
                // Not more of its own size than is asked for: so there are few different entries.
                let own_size = sizes.range(..=function.size).next_back().copied().unwrap_or(0);
                let mut entry = self.action(action, if sizes.is_empty() { u64::MAX } else { own_size });
                entry.arguments = values.add(&action.arguments);
                entry.results = values.add(&action.results);
                entries.push(entry);
                ranges.push([place[0], place[1], 0]);
            }
        }
        let (numbers, numbered) = number(&entries, MOST_ACTIONS);
        ranges.iter_mut().zip(numbers).for_each(|(range, number)| range[2] = number);
        ranges.sort_unstable();
        let has = |is: fn(&Action) -> bool| actions.of.iter().any(is);
        let has_callers = has(|action| action.is_caller);
        let is_late = has_callers || has(|action| action.time_ns.is_some() || action.is_traced);
        let flags = [(actions.is_opt_in, table::OPT_IN), (has_callers, table::HAS_CALLERS), (is_late, table::IS_LATE)];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
        let values = values.all;
        let mut words = vec![flags, ranges.len() as u64, numbered.len() as u64, values.len() as u64];
        words.extend([patchable.len() as u64, patched.len() as u64]);
        words.extend(ranges.into_iter().flatten());
        words.extend(numbered.iter().flat_map(table::Action::words));
        words.extend(values.iter().flat_map(table::CallValue::words));
        words.extend(patchable.into_iter().flatten());
        words.extend(patched.iter().flat_map(table::FunctionEntry::words));
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        table::MAGIC.iter().copied().chain(words).collect()
    }

    fn action(&self, action: &Action, own_size: u64) -> table::Action {
        let flags = [
            (action.filter == Some(true), table::FILTER_IN),
            (action.filter == Some(false), table::FILTER_OUT),
            (action.depth.is_some(), table::DEPTH),
            (action.time_ns.is_some(), table::TIME),
            (action.size.is_some(), table::SIZE),
            (action.tracing == Some(true), table::ON),
            (action.tracing == Some(false), table::OFF),
            (action.is_traced, table::TRACED),
            (action.is_caller, table::CALLER),
            (action.is_last, table::FINISH),
            (action.is_alone, table::ALONE),
            (action.is_patched, table::PATCH),
        ];
        table::Action {
            flags: flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum(),
            depth: action.depth.unwrap_or(0).into(),
            time: cycles(self.rate, action.time_ns.unwrap_or(0)),
            size: action.size.unwrap_or(0),
            own_size,
            ..table::Action::default()
        }
    }
}

/// Bytes of the code through which a function of a library is called.
const PLT_ENTRY: u64 = 16;

/// Different actions that the library's cache can name.
const MOST_ACTIONS: usize = 0xfffe;

/// Numbers for actions, and the actions that have them, `most` of them. Where that is too few, those that are left over are
/// actions without values.
fn number(entries: &[table::Action], most: usize) -> (Vec<u64>, Vec<table::Action>) {
    let without_values = |entry: &table::Action| table::Action { arguments: [0; 2], results: [0; 2], ..*entry };
    let (mut numbers, mut numbered) = (BTreeMap::new(), Vec::new());
    let mut of = |entry: table::Action| match numbers.get(&entry) {
        Some(number) => Some(*number),
        None if numbered.len() < most => {
            numbers.insert(entry, numbered.len() as u64);
            numbered.push(entry);
            Some(numbered.len() as u64 - 1)
        }
        None => None,
    };
    // First those that differ by more than values: they are as few as what was asked for.
    let bare: Vec<_> = entries.iter().map(|entry| of(without_values(entry)).unwrap_or(0)).collect();
    let numbers = entries.iter().zip(bare).map(|(entry, bare)| of(*entry).unwrap_or(bare)).collect();
    (numbers, numbered)
}

/// Values of calls, each run of them once.
#[derive(Default)]
struct Runs {
    all: Vec<table::CallValue>,
    places: HashMap<Vec<RecordedValue>, [u64; 2]>,
}

impl Runs {
    /// The place of values in the list of all.
    fn add(&mut self, values: &[RecordedValue]) -> [u64; 2] {
        if values.is_empty() {
            return [0; 2];
        }
        *self.places.entry(values.to_vec()).or_insert_with(|| {
            let first = self.all.len() as u64;
            self.all.extend(values.iter().map(|value| value.to_table()));
            [first, values.len() as u64]
        })
    }
}

/// Counts of the clock in a time.
pub(crate) fn cycles(rate: u64, ns: u64) -> u64 {
    u64::try_from((u128::from(ns) * u128::from(rate)) >> 20).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_for_which_there_is_no_number_have_no_values() {
        let entry = |size, arguments| table::Action { size, arguments: [arguments, 1], ..table::Action::default() };
        let entries = [entry(1, 7), entry(2, 7), entry(1, 8), entry(1, 9), entry(2, 8), entry(1, 7)];
        let of = |most| {
            let (numbers, actions) = number(&entries, most);
            assert!(actions.len() <= most);
            numbers.into_iter().map(|number| actions[number as usize]).collect::<Vec<_>>()
        };
        assert_eq!(of(7), entries);
        let bare = |size| table::Action { size, ..table::Action::default() };
        assert_eq!(of(4), [entries[0], entries[1], bare(1), bare(1), bare(2), entries[0]]);
    }

    #[test]
    fn runs_of_values_are_kept_once() {
        let value = |index| RecordedValue { form: StoredForm::Plain, size: 8, place: ValuePlace::Integer(index) };
        let mut runs = Runs::default();
        let places = [&[][..], &[value(0)], &[value(1), value(0)], &[value(0)]].map(|values| runs.add(values));
        assert_eq!((places, runs.all.len()), ([[0, 0], [0, 1], [1, 2], [0, 1]], 3));
    }
}
