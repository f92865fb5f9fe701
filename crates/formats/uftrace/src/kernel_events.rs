//! Reads a packet of the kernel: records become events in the form of [`super::layout`].

use std::collections::{BTreeMap, HashSet};

use tracemill_ftrace::classes::push_locator;
use tracemill_ftrace::packets::{self, Faults, PacketPlaces, StreamInfo};

use super::classes::KernelClasses;
use super::kernel::Kernel;
use super::layout::{KERNEL_CALL, KERNEL_EVENT, SliceEvents};
use super::names::SymbolNames;

/// Reads the records of a packet; those of tasks that were not traced are left out. `before` is the time of what came
/// before.
pub(super) fn read(
    kernel: &Kernel,
    classes: &KernelClasses,
    names: &SymbolNames,
    info: &StreamInfo,
    (bytes, offset): (&[u8], u64),
    before: Option<u64>,
    traced: &HashSet<i64>,
) -> SliceEvents {
    let (mut events, mut faults) = (SliceEvents::default(), Faults::default());
    let places = PacketPlaces::InFile(offset);
    let machine = kernel.machine();
    let mut unknown: BTreeMap<u16, (u64, usize)> = BTreeMap::new();
    let gaps = packets::each_record(bytes, info, &places, before, &mut faults, |at, time, record, faults| {
        let Some((id, known)) = kernel.format_of(record) else { return };
        if known.is_none()
            && let Some(format) = kernel.formats.get(&id)
        {
            return faults.report(|| packets::too_short(record.len(), format.min_bytes, &format.name, &places, at));
        }
        let tid = kernel.tid(known, record, |tid| traced.contains(&tid));
        if !traced.contains(&tid) {
            return;
        }
        let start = events.bytes.len();
        let out = &mut events.bytes;
        out.extend_from_slice(&(tid as i32).to_le_bytes());
        let class = match known.map(|known| (known, &known.call)) {
            Some((_, Some(call))) => {
                let (address, depth, is_exit) = call.read(record, machine);
                out.extend_from_slice(&depth.to_le_bytes());
                out.extend_from_slice(&address.to_le_bytes());
                out.extend_from_slice(&names.kernel_id(address).to_le_bytes());
                out.extend_from_slice(&info.cpu.to_le_bytes());
                match &call.value {
                    Some(value) if is_exit => match value.integer(record, machine) {
                        Some(value) => {
                            out.extend_from_slice(&(value as u64).to_le_bytes());
                            classes.exit_with_value
                        }
                        None => classes.exit,
                    },
                    Some(values) if !values.range(record, machine).0.is_empty() => {
                        let (range, word) = (values.range(record, machine).0, usize::from(machine.long_bytes));
                        push_locator(out, KERNEL_CALL + 8, range.len() / word);
                        out.extend_from_slice(&record[range]);
                        classes.entry_with_values
                    }
                    _ if is_exit => classes.exit,
                    _ => classes.entry,
                }
            }
            Some((known, None)) => {
                let Some(layout) = classes.events.get(&id) else { return };
                out.extend_from_slice(&info.cpu.to_le_bytes());
                out.extend_from_slice(&u32::from(id).to_le_bytes());
                layout.copy(record, machine, KERNEL_EVENT, out, |field| {
                    faults.report(|| packets::misplaced(&field.name, &known.name, &places, at));
                });
                layout.class
            }
            None => {
                unknown.entry(id).or_insert((0, at)).0 += 1;
                out.extend_from_slice(&info.cpu.to_le_bytes());
                out.extend_from_slice(&u32::from(id).to_le_bytes());
                events.put_hex(start, record);
                classes.unknown
            }
        };
        events.push(class, time, start);
    });
    for (id, (count, at)) in unknown {
        faults.report(|| packets::no_format(id, count, &places, at).with_help("they are shown as bytes"));
    }
    events.gaps = gaps;
    events.faults = faults.finish(packets::MORE_FAULTS);
    events
}
