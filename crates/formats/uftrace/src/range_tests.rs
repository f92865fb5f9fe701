//! Stretches of time: what is read around one has all that reading from the beginning finds, damage or not.

use super::perf;
use super::tests::{Folder, LITTLE_64, MAIN, Target, WORK, folder, open};
use tracemill_format::calls::{CallKind, CallRecord, CallSource, CallStream};
use tracemill_model::schema::ByteOrder;

/// Numbers that look random, the same each time.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Records with values that look like records of about the same time; where each begins.
fn records(random: &mut Random, target: Target, first: u64, count: usize) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut starts, mut time) = (Vec::new(), Vec::new(), first);
    for _ in 0..count {
        time += random.below(3000);
        // Some times go back, by less than the margin.
        let own = match random.below(40) {
            0 => time.saturating_sub(random.below(40_000)),
            _ => time - random.below(2),
        };
        starts.push(out.len());
        match random.below(9) {
            0 => target.record(&mut out, 0, 2, false, 0, 1 + random.below(9)),
            1 => {
                target.record(&mut out, own, 3, true, 0, 100_011);
                target.put(&mut out, 4, 2);
                target.put(&mut out, random.below(4), 4);
                out.extend([0; 2]);
            }
            2..=4 => {
                target.record(&mut out, own, 0, true, random.below(9), WORK);
                let from = out.len();
                // Two values are sometimes what a record is, also one with values.
                let is_record = random.below(2) == 0;
                let near = time + random.below(50_000);
                target.put(&mut out, if is_record { near } else { random.below(1 << 47) }, 8);
                let word = 5 << 3 | random.below(2) << 2 | random.below(2) | if is_record { MAIN << 16 } else { 0 };
                target.put(&mut out, if is_record { word } else { random.below(1 << 50) }, 8);
                let longest = if random.below(9) == 0 { 1900 } else { 60 };
                let len = random.below(longest);
                target.put(&mut out, len, 2);
                out.extend((0..len).map(|_| random.below(256) as u8));
                out.resize(from + (out.len() - from).next_multiple_of(8), 0xa5);
            }
            kind => target.record(&mut out, own, kind % 2, false, random.below(9), MAIN),
        }
    }
    (out, starts)
}

/// Damages some records: their magic, their time, their depth; takes words out and puts others in.
fn damage(random: &mut Random, bytes: &mut Vec<u8>, starts: &[usize], big: bool) {
    let mut places: Vec<usize> =
        (0..starts.len() / 150).map(|_| starts[random.below(starts.len() as u64) as usize]).collect();
    places.sort_unstable();
    for &at in places.iter().rev() {
        match random.below(5) {
            // The lowest byte of the second word has the magic.
            0 => bytes[at + if big { 15 } else { 8 }] ^= 1 << (3 + random.below(3)),
            // A time that no other record is near.
            1 => bytes[at + if big { 1 } else { 6 }] ^= 0x80,
            2 => bytes[at + 8 + random.below(8) as usize] ^= 1 << random.below(8),
            3 => drop(bytes.drain(at..(at + 8 * (1 + random.below(6) as usize)).min(bytes.len()))),
            _ => {
                let junk: Vec<u8> = (0..8 * (1 + random.below(40))).map(|_| random.below(256) as u8).collect();
                bytes.splice(at..at, junk);
            }
        }
    }
    bytes.truncate(bytes.len() - random.below(24) as usize);
}

fn collect(mut stream: Box<dyn CallStream + '_>) -> Vec<CallRecord> {
    let mut records = Vec::new();
    while stream.fill(&mut records) {}
    records
}

/// The records of a stretch, lost ones where it has no beginning.
fn between(records: &[CallRecord], from: u64, to: u64) -> Vec<CallRecord> {
    let mut last = 0;
    let is_in = |record: &&CallRecord| match record.kind {
        CallKind::Lost => from == 0 && last <= to,
        _ => {
            last = record.time;
            (from..=to).contains(&record.time)
        }
    };
    records.iter().filter(is_in).copied().collect()
}

/// A folder, and all records of its task.
fn whole(folder: &Folder, see: impl FnOnce(&dyn CallSource, Vec<CallRecord>)) {
    let trace = open(folder);
    let source = trace.reader.calls().unwrap();
    see(source, collect(source.open(0)));
}

const SPECS: &str = "argspec:work@arg1,arg2,arg3/s\n";

#[test]
fn a_stretch_has_what_reading_from_the_beginning_finds() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut read, mut all) = (0, 0);
    for round in 0..24 {
        let target = Target { big: round % 2 == 1, ..LITTLE_64 };
        let first = [1_000_000, 0x7ffd_0000_0000][round / 2 % 2];
        let (mut bytes, starts) = records(&mut random, target, first, 4000);
        let is_damaged = round % 3 > 0;
        if is_damaged {
            damage(&mut random, &mut bytes, &starts, target.big);
        }
        whole(&folder(target, SPECS, bytes), |source, found| {
            let span = 4000 * 3000;
            for stretch in 0..16 {
                let from = first + random.below(span + span / 8);
                let to = from + random.below([1, 5_000, 1_000_000, span][stretch % 4]);
                let (from, to) = match stretch {
                    0 => (0, to),
                    1 => (from, u64::MAX),
                    2 => (0, first),
                    3 => (from, from),
                    _ => (from, to),
                };
                let some = collect(source.open_between(0, from, to));
                // Records to which damage gives another time are not in order, and not compared.
                let in_order = first - 40_000..=first + span;
                let of = |mut records: Vec<CallRecord>| {
                    let mut is_known = true;
                    records.retain(|record| {
                        is_known = in_order.contains(&record.time) || is_known && record.kind == CallKind::Lost;
                        is_known
                    });
                    records
                };
                let wanted = of(between(&found, from, to));
                assert_eq!(of(between(&some, from, to)), wanted, "round {round}: {from} to {to}");
                if !is_damaged && to - from < 1_000_000 {
                    read += some.len() - wanted.len();
                    all += found.len() - wanted.len();
                }
            }
        });
    }
    assert!(read * 4 < all, "{read} of {all} records are read and not wanted");
}

/// Cuts are made where reading from the beginning finds a record, also in damaged files.
#[test]
fn cuts_of_damaged_files_are_records() {
    let mut random = Random(0x9e37_79b9_7f4a_7c13);
    let mut cuts = 0;
    for round in 0..24 {
        let target = Target { big: round % 2 == 1, ..LITTLE_64 };
        let (mut bytes, starts) = records(&mut random, target, 1_000_000_000, 3000);
        damage(&mut random, &mut bytes, &starts, target.big);
        let folder = folder(target, SPECS, bytes.clone());
        let places = super::open::tests_support::places(&folder, super::tests::ROOT, &bytes, 7);
        for size in [1 << 10, 5000, 1 << 14] {
            let found = super::open::tests_support::cut(&folder, super::tests::ROOT, &bytes, 7, size);
            cuts += found.len() - 1;
            for slice in &found[1..] {
                assert!(places.binary_search(&slice.from).is_ok(), "round {round}: {} is not a record", slice.from);
            }
        }
    }
    assert!(cuts > 300, "{cuts} cuts were made");
}

/// The records of a processor in the files of perf: tasks come and go, and get names that look like records.
fn perf_records(random: &mut Random, target: Target, first: u64, count: usize) -> Vec<u8> {
    let (mut out, mut time) = (Vec::new(), first);
    for _ in 0..count {
        time += random.below(3000);
        let tid = 7 + 70_000 * random.below(20);
        let (kind, flags, body): (u64, u64, &[(u64, usize)]) = match random.below(6) {
            // The name is the header of a record that is not there.
            0 => (3, 0, &[(7, 4), (tid, 4), (14 | 24 << 48, 8), (0, 8)]),
            1 => (7, 0, &[(7, 4), (6, 4), (tid, 4), (6, 4), (time, 8)]),
            2 => (99, 0, &[(random.below(u64::MAX), 8)]),
            3 => (14, 0x2000, &[]),
            _ => (14, 0, &[]),
        };
        let size = 24 + body.iter().map(|(_, len)| len).sum::<usize>();
        for &(value, len) in [(kind, 4), (flags, 2), (size as u64, 2)].iter().chain(body) {
            target.put(&mut out, value, len);
        }
        for (value, len) in [(7, 4), (tid, 4), (time, 8)] {
            target.put(&mut out, value, len);
        }
    }
    out
}

#[test]
fn a_stretch_of_a_file_of_perf_is_found_without_reading_it() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..6u64 {
        let target = Target { big: round % 2 == 1, is_64_bit: true };
        let first = [1_000_000, 1 << 51][round as usize / 2 % 2];
        let bytes = perf_records(&mut random, target, first, 60_000);
        let order = if target.big { ByteOrder::Big } else { ByteOrder::Little };
        let times = |from: usize, to: usize| {
            let (mut at, mut found) = (from, Vec::new());
            while let Some((next, event)) = perf::next(&bytes[..to], order, at) {
                found.extend(event.unwrap().map(|event| (at, event.time)));
                at = next;
            }
            found
        };
        let all = times(0, bytes.len());
        let last = all.last().unwrap().1;
        for _ in 0..30 {
            let from = first + random.below(last - first);
            let to = from + random.below(100_000);
            let (start, end) = perf::byte_range(&bytes, order, from, to);
            let is_in = |(_, time): &&(usize, u64)| (from..=to).contains(time);
            let found = times(start, end);
            let wanted: Vec<_> = all.iter().filter(is_in).collect();
            assert_eq!(found.iter().filter(is_in).collect::<Vec<_>>(), wanted, "{round} {from} {to}");
            assert!(end - start < bytes.len() / 3, "{round}: {} of {} bytes", end - start, bytes.len());
        }
        assert_eq!(perf::byte_range(&bytes, order, 0, u64::MAX), (0, bytes.len()));
    }
}

/// After damage reading goes on where a record begins for sure, and the damage is reported: as a stretch after it is read, too.
#[test]
fn a_damaged_file_of_perf_is_read_on() {
    let mut random = Random(0x0fed_cba9_8765_4321);
    for round in 0..4 {
        let target = Target { big: round % 2 == 1, is_64_bit: true };
        let order = if target.big { ByteOrder::Big } else { ByteOrder::Little };
        let mut bytes = perf_records(&mut random, target, 1_000_000, 20_000);
        let read = |bytes: &[u8]| {
            let (mut at, mut found, mut faults) = (0, Vec::new(), Vec::new());
            while let Some((next, event)) = perf::next(bytes, order, at) {
                assert!(next > at);
                match event {
                    Ok(event) => found.extend(event.map(|event| (at, event.time))),
                    Err(error) => faults.push(error.place().offset.unwrap() as usize),
                }
                at = next;
            }
            (found, faults)
        };
        let whole = read(&bytes).0;
        let (damaged, time) = whole[whole.len() / 3];
        bytes[damaged + 6..damaged + 8].fill(0);
        let (found, faults) = read(&bytes);
        assert_eq!(faults, [damaged], "told once");
        let behind = found.iter().find(|(at, _)| *at > damaged).expect("it goes on").0;
        assert!(behind - damaged < 3 << 16, "{}", behind - damaged);
        let is_read = |(at, _): &&(usize, u64)| *at < damaged || *at >= behind;
        assert_eq!(found, whole.iter().filter(is_read).copied().collect::<Vec<_>>());
        // Events and calls find the same.
        let parts = perf::cut(&bytes, order);
        assert_eq!((parts[0].from, parts.last().unwrap().to), (0, bytes.len()));
        assert_eq!(parts.last().unwrap().end, whole.last().unwrap().1);
        let to = time + 3_000_000;
        let (start, end) = perf::byte_range(&bytes, order, to, to + 50_000);
        let is_in = |(_, time): &&(usize, u64)| (to..=to + 50_000).contains(time);
        let near = found.iter().filter(|(at, _)| (start..end).contains(at));
        assert_eq!(near.filter(is_in).count(), found.iter().filter(is_in).count());
    }
}
