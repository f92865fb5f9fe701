//! From a file to an opened trace.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tracemill_codec::text::hex;
use tracemill_format::{DataFile, EntryKind, FoundTrace, OpenContext, OpenTrace, Section, Storage, Stream};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{EnvValue, Schema};

use super::attr::part;
use super::classes::PerfClasses;
use super::file::{BuildId, PerfFile, order_of};
use super::folder::{files_beside, join};
use super::reader::PerfReader;
use super::records::{self, kind};
use super::survey::{StreamKey, StreamPart, Survey, is_event};
use super::unpack::unpack;

/// Does the file begin as one of perf?
pub(crate) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    matches!(storage.kind(path), Some(EntryKind::File(_)))
        && storage.read_start(path, 16).is_ok_and(|start| order_of(&start).is_some())
}

/// Opens all files.
pub(crate) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| open_file(context.storage, found).map_err(|error| error.in_file(&found.path))).collect()
}

fn open_file(storage: &dyn Storage, found: &FoundTrace) -> Result<OpenTrace> {
    let bytes = storage.open(&found.path)?;
    let mut file = PerfFile::read(bytes.bytes())?;
    let place = file.data;
    let mut survey = Survey::read(&mut file, bytes.bytes(), place, false);
    let (mut records, mut is_in_place) = (bytes.clone(), !survey.needs_unpacking);
    let beside = if file.is_of_folder { files_beside(storage, &found.path) } else { Vec::new() };
    let mut folder_faults = Vec::new();
    if file.is_of_folder && beside.is_empty() {
        let error = Error::unsupported("the records of threads are in files next to this one, which are not there");
        folder_faults
            .push(error.with_help("copy the whole folder that `perf record --threads` wrote").in_file(&found.path));
    } else if file.is_of_folder {
        file = PerfFile::read(bytes.bytes())?;
        let (joined, faults) = join(storage, &file, (&found.path, &bytes), &beside)?;
        folder_faults = faults;
        let all = (0, joined.bytes().len());
        survey = Survey::read(&mut file, joined.bytes(), all, true);
        (records, is_in_place) = (joined, false);
    } else if survey.needs_unpacking {
        file = PerfFile::read(bytes.bytes())?;
        let (unpacked, faults) = unpack(storage, bytes.bytes(), file.order, place)?;
        file.faults.extend(faults);
        let all = (0, unpacked.bytes().len());
        survey = Survey::read(&mut file, unpacked.bytes(), all, true);
        records = unpacked;
    }
    let comms = Arc::new(std::mem::take(&mut survey.comms).finish());
    let build_ids: HashMap<&str, &BuildId> = file.build_ids.iter().map(|of| (of.file.as_str(), of)).collect();
    survey.maps.finish(|path| build_ids.get(path).map(|of| of.id.clone()));
    let maps = Arc::new(std::mem::take(&mut survey.maps));
    let mut schema = Schema::new("perf");
    schema.byte_order = file.order;
    schema.environment = environment(&file);
    let classes = PerfClasses::add(&mut schema, &file, &survey.keys, &comms, &maps);
    let data = DataFile { is_indexed: true, ..DataFile::single(found, bytes) };
    let mut streams = Vec::new();
    let mut names = HashMap::new();
    for (&key, parts) in &survey.streams {
        let Some(&class) = classes.streams.get(&key.kind()) else { continue };
        let (name, id) = match key {
            StreamKey::Cpu(cpu) => (format!("cpu{cpu}"), Some(u64::from(cpu))),
            StreamKey::Timed => ("timed".to_string(), None),
            StreamKey::Untimed => ("untimed".to_string(), None),
        };
        let mut packets = PacketList::default();
        for (at, part) in parts.iter().enumerate() {
            // Packets of unpacked records lie nowhere in the file; none is larger than it.
            let (place, len) = match is_in_place {
                true => (survey.slices[part.slice as usize], part.bytes),
                false => (0, part.bytes.min(data.bytes.bytes().len() as u64)),
            };
            let times = times_of(part, at.checked_sub(1).map(|before| &parts[before]));
            packets.push(&Packet {
                index: at as u64,
                begin_cycles: times.map(|(begin, _)| begin),
                end_cycles: times.map(|(_, end)| end),
                ..Packet::new(class, place as u64, len * 8)
            });
        }
        names.insert(name.clone(), key);
        streams.push(Stream { name, class, id, files: vec![data.clone()], packets });
    }
    streams.sort_by(|a, b| a.name.cmp(&b.name));
    let in_file = |error: Error| error.in_file(&found.path);
    let faults = file.faults.drain(..).chain(survey.faults.drain(..)).map(in_file).chain(folder_faults).collect();
    let mut warnings: Vec<Error> = file.warnings.drain(..).map(in_file).collect();
    warnings.extend(oddities(&file, &survey).into_iter().map(in_file));
    warnings.extend(maps.warning().map(in_file));
    let sections = sections(&file, &survey.counts);
    let cpus = file.numbers.iter().find(|(name, _)| *name == "nrcpus_online").map(|(_, cpus)| *cpus);
    let reader = PerfReader {
        file,
        records,
        is_in_place,
        survey,
        classes,
        comms,
        maps,
        streams: names,
        cpus,
        waiting: Mutex::default(),
    };
    let mut trace = OpenTrace::from_file(found, schema, Arc::new(reader));
    trace.own_name = found.name.clone();
    trace.streams = streams;
    trace.sections = sections;
    trace.faults = faults;
    trace.warnings = warnings;
    Ok(trace)
}

/// The first and last times that a packet may have: of its slice, and of what was held over from the one before.
fn times_of(part: &StreamPart, before: Option<&StreamPart>) -> Option<(u64, u64)> {
    let (begin, end) = part.times?;
    let end = part.held_from.map_or(end, |from| end.min(from.saturating_sub(1)).max(begin));
    match part.before.zip(before.and_then(|before| before.times)) {
        Some((from, (_, last))) => Some((begin.min(from), end.max(last))),
        None => Some((begin, end)),
    }
}

/// Oddities that are no damage: parts that are not shown, or not as they should be.
fn oddities(file: &PerfFile, survey: &Survey) -> Vec<Error> {
    let mut oddities = Vec::new();
    let (aux, aux_bytes) = survey.counts.get(&kind::AUXTRACE).copied().unwrap_or_default();
    if aux > 0 {
        let message = format!("{aux} pieces with {aux_bytes} bytes of hardware trace data (AUX area) are not decoded");
        oddities.push(Error::unsupported(message));
    }
    let count_of = |kind: u32| survey.counts.get(&kind).map_or(0, |(count, _)| *count);
    let nested = count_of(kind::COMPRESSED) + count_of(kind::COMPRESSED2);
    if nested > 0 {
        oddities.push(Error::malformed(format!("packed records inside packed records, which are skipped: {nested}")));
    }
    for (&kind, &(count, _)) in survey.counts.iter().filter(|(kind, _)| records::name(**kind).is_none()) {
        let error = Error::unsupported(format!("records of the unknown type {kind}: {count}"));
        oddities.push(error.with_help("they are shown as bytes"));
    }
    if survey.unknown_ids > 0 {
        let message = format!("samples of events that the file does not describe: {}", survey.unknown_ids);
        oddities.push(Error::malformed(message).with_help("they are shown as bytes"));
    }
    if survey.comms.is_cut {
        oddities.push(Error::unsupported("more names of threads than are kept; those of later threads are unknown"));
    }
    let unread = |event: &&super::attr::RecordedEvent| event.attr.sample_type & !part::ALL != 0;
    if let Some(event) = file.events.iter().find(unread) {
        let bits = event.attr.sample_type & !part::ALL;
        let message = format!("samples have parts that are not known, `sample_type` bits 0x{bits:x}");
        oddities.push(Error::unsupported(message).with_help("they are left out"));
    }
    oddities
}

fn environment(file: &PerfFile) -> Vec<(Arc<str>, EnvValue)> {
    let texts = file.texts.iter().map(|(name, text)| ((*name).into(), EnvValue::String(text.as_str().into())));
    let numbers = file.numbers.iter().map(|(name, value)| ((*name).into(), EnvValue::Integer((*value).into())));
    texts.chain(numbers).collect()
}

/// Tables for `info`.
fn sections(file: &PerfFile, counts: &BTreeMap<u32, (u64, u64)>) -> Vec<Section> {
    let (text, number) = (Section::text, |value: u64| Section::number(value));
    let sample_type = |bits: u64| {
        let names = part::NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name);
        names.collect::<Vec<_>>().join("|")
    };
    let events: Vec<usize> = (0..file.events.len()).collect();
    let attr = |at: &usize| &file.events[*at].attr;
    let mut sections = vec![
        Section::from_items(
            "events",
            events,
            &[
                ("name", &|at| text(&file.event_name(*at))),
                ("type", &|at| number(attr(at).event_type.into())),
                ("config", &|at| text(&format!("0x{:x}", attr(at).config))),
                ("period", &|at| number(attr(at).period).filter(|_| !attr(at).is_frequency())),
                ("frequency", &|at| number(attr(at).period).filter(|_| attr(at).is_frequency())),
                ("sample_type", &|at| text(&sample_type(attr(at).sample_type))),
                ("ids", &|at| number(file.events[*at].ids.len() as u64)),
            ],
        ),
        Section::from_items(
            "records",
            counts,
            &[
                ("record", &|(kind, _)| text(records::name(**kind).unwrap_or("unknown"))),
                ("type", &|(kind, _)| number(u64::from(**kind))),
                ("count", &|(_, (count, _))| number(*count)),
                ("is_event", &|(kind, _)| text(if is_event(**kind) { "yes" } else { "no" })),
            ],
        ),
        Section::from_items(
            "groups",
            &file.groups,
            &[
                ("group", &|(name, _, _)| text(name)),
                ("leader", &|(_, leader, _)| number(u64::from(*leader))),
                ("members", &|(_, _, members)| number(u64::from(*members))),
            ],
        ),
        Section::from_items(
            "build ids",
            &file.build_ids,
            &[
                ("pid", &|of| Section::number(i64::from(of.pid))),
                ("build_id", &|of| text(&hex(&of.id))),
                ("file", &|of| text(&of.file)),
            ],
        ),
        Section::from_items(
            "PMUs",
            &file.pmus,
            &[("type", &|(pmu, _)| number(u64::from(*pmu))), ("name", &|(_, name)| text(name))],
        ),
        Section::from_items(
            "features",
            &file.features,
            &[("feature", &|(name, _)| text(name)), ("bytes", &|(_, bytes)| number(*bytes))],
        ),
    ];
    sections.retain(|section| !section.rows.is_empty());
    sections
}
