//! Rows of `states`: there are more of them than events, so they are kept as they are and shown without cells between.

use tracemill_semantics::states::{CpuStatus, InterruptKind, Ns, ThreadState};

use crate::kernel::rows::state_row::{CPU, IRQ, RowForm, STATE_KINDS, StateKey, StateOf, StateRow, THREAD};

/// Rows of `states` in their order: by their beginnings, then by their kinds and numbers.
///
/// A row is known when it ends. What has a place (`StateRows::reserve`) since its beginning needs no sorting.
#[derive(Clone, Default)]
pub struct StateRows {
    /// Places in the order of time.
    places: Vec<Place>,
    /// The time of the last one.
    last: u64,
    /// How many of them have a row.
    placed: usize,
    /// Rows that have no place.
    rows: Vec<Packed>,
    /// Rows that are not packed.
    others: Vec<StateRow>,
    /// The time that others count from, [`ROOM`] before the beginning of the first row.
    begin: Option<Ns>,
    order: Vec<u32>,
    /// Their columns.
    pub form: RowForm,
    /// The smallest and the largest number of each column, by its key.
    extents: [Option<(i128, i128)>; StateKey::ALL.len()],
    /// The states and statuses that occur, as bits.
    statuses: u32,
    states: u32,
}

/// A row that had a place, in 12 bytes, or a gap between two places.
#[derive(Clone, Copy)]
struct Place {
    /// Its length in ns; the lower digits of a gap.
    length: u32,
    /// A [code](Place::code) and the thread that the row is about, or that of its CPU; the upper digits of a gap.
    word: u32,
    /// ns since the place before, or since the gap between them.
    since: u16,
    /// The CPU that the row is about.
    cpu: u16,
}

/// Bits of a place's word for a thread. No kernel has numbers of threads with more than 22.
const THREAD_BITS: u32 = 26;
/// Codes of places without a row, and of gaps; after them those of rows.
const NO_ROW: u32 = 0;
const GAP: u32 = 1;
const CPUS: u32 = 2;
const UNKNOWN_CPUS: u32 = CPUS + CpuStatus::ALL.len() as u32;
const THREADS: u32 = UNKNOWN_CPUS + CpuStatus::ALL.len() as u32;
const _: () = assert!(THREADS + ThreadState::ALL.len() as u32 <= 1 << (u32::BITS - THREAD_BITS));

impl Place {
    /// The code of its kind.
    #[inline]
    fn code(self) -> u32 {
        self.word >> THREAD_BITS
    }

    /// The thread.
    #[inline]
    fn thread(self) -> u32 {
        self.word & ((1 << THREAD_BITS) - 1)
    }

    /// A gap of so many ns; `None` when that is longer than a trace.
    fn gap(length: u64) -> Option<Place> {
        let upper = u32::try_from(length >> u32::BITS).ok().filter(|upper| upper >> THREAD_BITS == 0)?;
        Some(Place { length: length as u32, word: GAP << THREAD_BITS | upper, since: 0, cpu: 0 })
    }

    /// The place of a row, whose number is that of a CPU or of a thread, which has a place already.
    #[inline]
    fn with_row(self, length: u32, number: i64, other: i64, what: What) -> Option<Place> {
        let (code, cpu, thread) = match what {
            What::Cpu(status) => (CPUS + status as u32, number, other),
            What::Unknown(status) => (UNKNOWN_CPUS + status as u32, number, 0),
            What::Thread(state) => (THREADS + state as u32, 0, number),
            What::Irq(_) | What::Other => return None,
        };
        let cpu = u16::try_from(cpu).ok()?;
        let thread = u32::try_from(thread).ok().filter(|thread| thread >> THREAD_BITS == 0)?;
        Some(Place { length, word: code << THREAD_BITS | thread, cpu, ..self })
    }

    /// The subject of its row; `None` without a row.
    #[inline]
    fn what(self) -> Option<What> {
        let at = |codes: u32| (self.code() - codes) as usize;
        match self.code() {
            NO_ROW | GAP => None,
            CPUS..UNKNOWN_CPUS => Some(What::Cpu(CpuStatus::ALL[at(CPUS)])),
            UNKNOWN_CPUS..THREADS => Some(What::Unknown(CpuStatus::ALL[at(UNKNOWN_CPUS)])),
            _ => Some(What::Thread(ThreadState::ALL[at(THREADS)])),
        }
    }

    /// ns that pass up to it.
    #[inline]
    fn passed(self) -> u64 {
        if self.code() == GAP {
            u64::from(self.thread()) << u32::BITS | u64::from(self.length)
        } else {
            self.since.into()
        }
    }

    /// The number of the CPU or the thread that its row is about.
    #[inline]
    fn number(self) -> u32 {
        if self.code() < THREADS { self.cpu.into() } else { self.thread() }
    }
}

/// Stands for no place.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// A row in 40 bytes.
#[derive(Clone, Copy)]
struct Packed {
    from: u64,
    to: u64,
    number: i64,
    /// The thread of a CPU, the CPU of an interrupt, the place of a row that is not packed.
    other: i64,
    machine: u32,
    what: What,
}

/// Kind of a packed row.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// A CPU whose thread is known.
    Cpu(CpuStatus),
    /// A CPU whose thread is not.
    Unknown(CpuStatus),
    Thread(ThreadState),
    Irq(InterruptKind),
    /// One that is kept as it is: a disk, or one whose times are far from those of others.
    Other,
}

impl StateRow {
    /// Its kind and its number, unpacked.
    #[inline]
    fn what(&self) -> (What, i64) {
        match self.of {
            StateOf::Cpu { tid: Some(tid), status } => (What::Cpu(status), tid),
            StateOf::Cpu { tid: None, status } => (What::Unknown(status), 0),
            StateOf::Thread(state) => (What::Thread(state), 0),
            StateOf::Irq { kind, cpu } => (What::Irq(kind), cpu as i64),
            StateOf::Disk { .. } => (What::Other, 0),
        }
    }
}

impl What {
    /// The content of the row; `other` is the number that is packed beside its kind.
    #[inline]
    fn to_state(self, other: i64) -> StateOf {
        match self {
            What::Cpu(status) => StateOf::Cpu { tid: Some(other), status },
            What::Unknown(status) => StateOf::Cpu { tid: None, status },
            What::Thread(state) => StateOf::Thread(state),
            What::Irq(kind) => StateOf::Irq { kind, cpu: other as u64 },
            What::Other => unreachable!("rows that are not packed are kept as they are"),
        }
    }

    /// The kind of the row.
    #[inline]
    fn kind(self) -> Option<usize> {
        match self {
            What::Cpu(_) | What::Unknown(_) => Some(CPU),
            What::Thread(_) => Some(THREAD),
            What::Irq(_) => Some(IRQ),
            What::Other => None,
        }
    }
}

impl StateRows {
    pub(crate) fn new(form: RowForm) -> Self {
        StateRows { form, ..StateRows::default() }
    }

    /// A place for a row of a CPU or a thread that begins at a time, which is not before that of other places.
    #[inline]
    pub(crate) fn reserve(&mut self, at: Ns) -> u32 {
        let begin = *self.begin.get_or_insert(at.saturating_sub(Ns::from(ROOM)));
        let from = at.checked_sub(begin).and_then(|since| u64::try_from(since).ok());
        let since = from.and_then(|from| from.checked_sub(self.last));
        let (Some(from), Some(since)) = (from, since) else { return NO_PLACE };
        let (gap, since) = match u16::try_from(since) {
            Ok(since) => (None, since),
            Err(_) => match Place::gap(since) {
                Some(gap) => (Some(gap), 0),
                None => return NO_PLACE,
            },
        };
        if self.places.len() >= NO_PLACE as usize - 1 {
            return NO_PLACE;
        }
        self.places.extend(gap);
        self.places.push(Place { length: 0, word: NO_ROW << THREAD_BITS, since, cpu: 0 });
        self.last = from;
        self.places.len() as u32 - 1
    }

    /// Puts a row of the first machine into a place that begins when it does; false when it needs more room. `other` is the
    /// thread of a CPU.
    #[inline]
    pub(crate) fn try_set(&mut self, (from, to): (Ns, Ns), number: i64, other: i64, what: What, place: u32) -> bool {
        let (Some(place), Ok(length)) = (self.places.get_mut(place as usize), u32::try_from(to - from)) else {
            return false;
        };
        let Some(row) = place.with_row(length, number, other, what) else { return false };
        *place = row;
        self.placed += 1;
        true
    }

    /// Adds a row, which may have a place.
    #[inline]
    pub(crate) fn push(&mut self, row: &StateRow, place: u32) {
        let (what, other) = row.what();
        if !self.try_set((row.from, row.to), row.number, other, what, place) {
            self.push_late(row);
        }
    }

    fn push_late(&mut self, row: &StateRow) {
        // Rows are found by their ends: one that is found later may begin before the first one.
        let begin = *self.begin.get_or_insert(row.from.saturating_sub(Ns::from(ROOM)));
        let (what, other) = row.what();
        let StateRow { number, machine, .. } = *row;
        let since = |at: Ns| u64::try_from(at.checked_sub(begin)?).ok();
        match (since(row.from), since(row.to)) {
            (Some(from), Some(to)) if what.kind().is_some() => {
                self.rows.push(Packed { from, to, number, other, machine, what });
            }
            (from, _) => {
                let from = from.unwrap_or(if row.from < begin { 0 } else { u64::MAX });
                let other = self.others.len() as i64;
                self.rows.push(Packed { from, to: from, number, other, machine, what: What::Other });
                self.others.push(row.clone());
            }
        }
    }

    /// Looks for the smallest and the largest numbers.
    fn measure(&mut self) {
        let (mut times, mut durations): ([Range<u64>; 2], Range<u64>) = Default::default();
        // By the kinds of rows that are packed: those that the rows are about, and the others.
        let (mut numbers, mut others): ([Range<i64>; STATE_KINDS], [Range<i64>; STATE_KINDS]) = Default::default();
        let (mut statuses, mut states) = (0, 0);
        for Packed { from, to, number, other, what, .. } in self.rows.iter().copied() {
            match what {
                What::Cpu(status) | What::Unknown(status) => statuses |= 1 << status as u32,
                What::Thread(state) => states |= 1 << state as u32,
                What::Irq(_) => {}
                What::Other => continue,
            }
            let kind = what.kind().unwrap_or_default();
            times[0].widen(from);
            times[1].widen(to);
            durations.widen(to.saturating_sub(from));
            numbers[kind].widen(number);
            others[kind].widen(other);
        }
        // Places are many. Times of beginnings are in their order.
        let [mut of_cpus, mut of_threads, mut tids, mut lengths] = [[u32::MAX, 0]; 4];
        let mut ends = [u64::MAX, 0];
        let widened = |edges: &mut [u32; 2], number: u32| *edges = [edges[0].min(number), edges[1].max(number)];
        let (mut from, mut begins) = (0, None);
        for place in &self.places {
            from += place.passed();
            let code = place.code();
            match code {
                NO_ROW | GAP => continue,
                CPUS..THREADS => {
                    statuses |= 1 << ((code - CPUS) % CpuStatus::ALL.len() as u32);
                    widened(&mut of_cpus, place.cpu.into());
                    widened(&mut tids, place.thread());
                }
                _ => {
                    states |= 1 << (code - THREADS);
                    widened(&mut of_threads, place.thread());
                }
            }
            widened(&mut lengths, place.length);
            let to = from + u64::from(place.length);
            ends = [ends[0].min(to), ends[1].max(to)];
            begins = Some((begins.map_or(from, |(first, _)| first), from));
        }
        if let Some((first, last)) = begins {
            [first, last].iter().for_each(|from| times[0].widen(*from));
            ends.iter().for_each(|to| times[1].widen(*to));
            lengths.iter().for_each(|length| durations.widen((*length).into()));
        }
        for (is_other, kind, [low, high]) in [(false, CPU, of_cpus), (true, CPU, tids), (false, THREAD, of_threads)] {
            let range = if is_other { &mut others[kind] } else { &mut numbers[kind] };
            if low <= high {
                [low, high].iter().for_each(|number| range.widen((*number).into()));
            }
        }
        (self.statuses, self.states) = (statuses, states);
        let mut found: Vec<(StateKey, i128)> = Vec::new();
        for (key, times) in [StateKey::From, StateKey::To].into_iter().zip(times) {
            found.extend(times.edges().map(|since| (key, self.time(since))));
        }
        found.extend(durations.edges().map(|length| (StateKey::Duration, length.into())));
        // Numbers of CPUs have no sign.
        found.extend(numbers[CPU].edges().map(|cpu| (StateKey::Cpu, (cpu as u64).into())));
        found.extend(others[IRQ].edges().map(|cpu| (StateKey::Cpu, (cpu as u64).into())));
        found.extend(others[CPU].edges().chain(numbers[THREAD].edges()).map(|tid| (StateKey::Tid, tid.into())));
        found.extend(numbers[IRQ].edges().map(|number| (StateKey::Nr, number.into())));
        for row in &self.others {
            found.extend([(StateKey::From, row.from), (StateKey::To, row.to), (StateKey::Duration, row.duration())]);
            match &row.of {
                StateOf::Cpu { tid, status } => {
                    let cpu = (row.number as u64).into();
                    found.extend([(StateKey::Cpu, cpu), (StateKey::Tid, tid.unwrap_or(0).into())]);
                    self.statuses |= 1 << *status as u32;
                }
                StateOf::Thread(state) => {
                    found.push((StateKey::Tid, row.number.into()));
                    self.states |= 1 << *state as u32;
                }
                StateOf::Disk { waiting, driver, .. } => {
                    found.push((StateKey::Dev, row.number.into()));
                    found.extend([(StateKey::Waiting, (*waiting).into()), (StateKey::Driver, (*driver).into())]);
                }
                StateOf::Irq { cpu, .. } => {
                    found.extend([(StateKey::Nr, row.number.into()), (StateKey::Cpu, (*cpu).into())]);
                }
            }
        }
        self.extents = Default::default();
        for (key, number) in found {
            let (low, high) = self.extents[key as usize].get_or_insert((number, number));
            (*low, *high) = ((*low).min(number), (*high).max(number));
        }
    }

    /// Brings the rows into their order.
    pub(crate) fn sort(&mut self) {
        self.measure();
        self.order = self.order_of();
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.rows.len() + self.placed
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows the rows, one after the other.
    pub fn for_each(&self, each: &mut dyn FnMut(&StateRow)) {
        let mut late = self.order.iter().map(|at| self.rows[*at as usize]);
        let mut next = late.next();
        let mut next_time = next.map_or(Ns::MAX, |next| self.place(next).0);
        // Rows of one time: their kinds and numbers as one number, and their places.
        let mut group: Vec<(u64, Place)> = Vec::new();
        let mut since = 0;
        // A time has places that follow each other without a gap, of which all but the first pass no time.
        for places in self.places.chunk_by(|_, next| next.code() != GAP && next.since == 0) {
            since += places[0].passed();
            group.clear();
            // There are two or three most often, so that each is brought to where it belongs at once.
            for place in places {
                let kind = match place.code() {
                    NO_ROW | GAP => continue,
                    CPUS..THREADS => CPU,
                    _ => THREAD,
                };
                let key = (kind as u64) << u32::BITS | u64::from(place.number());
                match group.last() {
                    Some((last, _)) if *last > key => {
                        let at = group.partition_point(|(known, _)| *known <= key);
                        group.insert(at, (key, *place));
                    }
                    _ => group.push((key, *place)),
                }
            }
            let time = self.time(since);
            for (key, place) in &group {
                while next_time <= time
                    && let Some(row) = next
                    && self.place(row) < (time, (key >> u32::BITS) as usize, place.number().into())
                {
                    self.show(row, each);
                    next = late.next();
                    next_time = next.map_or(Ns::MAX, |next| self.place(next).0);
                }
                let Some(what) = place.what() else { continue };
                each(&StateRow {
                    from: time,
                    to: time + Ns::from(place.length),
                    machine: 0,
                    number: place.number().into(),
                    of: what.to_state(place.thread().into()),
                });
            }
        }
        next.into_iter().chain(late).for_each(|row| self.show(row, each));
    }

    fn show(&self, row: Packed, each: &mut dyn FnMut(&StateRow)) {
        match row {
            Packed { other, what: What::Other, .. } => each(&self.others[other as usize]),
            packed => each(&self.unpacked(packed)),
        }
    }

    #[inline]
    fn unpacked(&self, packed: Packed) -> StateRow {
        let of = packed.what.to_state(packed.other);
        let (from, to) = (self.time(packed.from), self.time(packed.to));
        StateRow { from, to, machine: packed.machine, number: packed.number, of }
    }

    /// The smallest and the largest number in a column.
    pub fn extent(&self, key: StateKey) -> Option<(i128, i128)> {
        self.extents[key as usize]
    }

    /// The names and texts in a column, each at least once.
    pub fn for_each_text(&self, key: StateKey, mut each: impl FnMut(&str)) {
        match key {
            StateKey::Status => {
                CpuStatus::ALL.iter().filter(|of| self.statuses >> **of as u32 & 1 != 0).for_each(|of| each(of.name()));
            }
            StateKey::State => {
                ThreadState::ALL.iter().filter(|of| self.states >> **of as u32 & 1 != 0).for_each(|of| each(of.name()));
            }
            StateKey::Kind => self.rows.iter().for_each(|row| {
                if let What::Irq(kind) = row.what {
                    each(kind.name());
                }
            }),
            StateKey::Machine => self.form.machines.iter().for_each(|name| each(name)),
            StateKey::Disk => self.others.iter().for_each(|row| {
                if let StateOf::Disk { name: Some(name), .. } = &row.of {
                    each(name);
                }
            }),
            _ => {}
        }
    }

    /// The rows in their order.
    fn order_of(&self) -> Vec<u32> {
        // Time and kind decide most of it. Times that are centuries apart are equal here, and their rows are looked at.
        const LAST: u64 = u64::MAX >> 2;
        let key = |row: &Packed| match row.from {
            0 => 0,
            LAST.. => LAST << 2,
            from => from << 2 | self.place(*row).1 as u64,
        };
        let mut places: Vec<(u64, u32)> = self.rows.iter().zip(0..).map(|(row, at)| (key(row), at)).collect();
        sort_by_number(&mut places);
        for equal in places.chunk_by_mut(|a, b| a.0 == b.0).filter(|equal| equal.len() > 1) {
            equal.sort_by_key(|(_, at)| self.place(self.rows[*at as usize]));
        }
        places.into_iter().map(|(_, at)| at).collect()
    }

    /// Beginning, kind and number of a row.
    #[inline]
    fn place(&self, packed: Packed) -> (Ns, usize, i64) {
        match (packed.what.kind(), self.others.get(packed.other as usize)) {
            (None, Some(row)) => (row.from, row.kind(), row.number),
            (kind, _) => (self.time(packed.from), kind.unwrap_or_default(), packed.number),
        }
    }

    #[inline]
    fn time(&self, since: u64) -> Ns {
        self.begin.unwrap_or(0) + Ns::from(since)
    }
}

/// The smallest and the largest of some numbers.
#[derive(Clone, Copy, Default)]
struct Range<T>(Option<(T, T)>);

impl<T: Copy + Ord> Range<T> {
    #[inline]
    fn widen(&mut self, number: T) {
        match &mut self.0 {
            Some((low, high)) => (*low, *high) = ((*low).min(number), (*high).max(number)),
            None => self.0 = Some((number, number)),
        }
    }

    fn edges(self) -> impl Iterator<Item = T> {
        self.0.into_iter().flat_map(|(low, high)| [low, high])
    }
}

/// Time before the first row that was found, in which others may begin: two years.
const ROOM: u64 = 1 << 56;

/// Sorts places by their numbers; those of one number stay in their order. Numbers of one trace have their upper digits in
/// common, so that this takes a few passes where comparisons would take many.
fn sort_by_number(places: &mut Vec<(u64, u32)>) {
    const BITS: u32 = 11;
    let (all, any) = places.iter().fold((u64::MAX, 0), |(all, any), (number, _)| (all & number, any | number));
    let differs = all ^ any;
    let mut sorted = vec![(0, 0); places.len()];
    for shift in (0..u64::BITS).step_by(BITS as usize) {
        let digit = |number: u64| (number >> shift) as usize & ((1 << BITS) - 1);
        if digit(differs) == 0 {
            continue;
        }
        let mut next = [0u32; 1 << BITS];
        places.iter().for_each(|(number, _)| next[digit(*number)] += 1);
        let mut before = 0;
        for next in &mut next {
            before += std::mem::replace(next, before);
        }
        for place in places.iter() {
            let next = &mut next[digit(place.0)];
            sorted[*next as usize] = *place;
            *next += 1;
        }
        std::mem::swap(places, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &StateRows) -> Vec<String> {
        let mut found = Vec::new();
        rows.for_each(&mut |row| found.push(format!("{row:?}")));
        found
    }

    fn thread(from: Ns, number: i64) -> StateRow {
        StateRow { from, to: from + 5, machine: 0, number, of: StateOf::Thread(ThreadState::Wait) }
    }

    #[test]
    fn rows_of_any_time_come_back_in_their_order() {
        let mut rows = StateRows::new(RowForm::default());
        let cpu = |from, number, tid| {
            let of = StateOf::Cpu { tid, status: CpuStatus::User };
            StateRow { from, to: from + 7, machine: 0, number, of }
        };
        let disk = StateOf::Disk { name: None, waiting: 1, driver: 2 };
        let given = [
            thread(1000, 9),
            cpu(1000, -1, None),
            thread(3, 8),
            cpu(1000, 0, Some(i64::MIN)),
            thread(i128::MAX - 9, 1),
            thread(i128::MIN, 2),
            thread(-(1 << 70), 3),
            StateRow { from: 1000, to: 2000, machine: 0, number: 1, of: disk },
            StateRow { from: 1 << 55, to: 1 << 100, machine: 0, number: 1, of: StateOf::Thread(ThreadState::Dead) },
        ];
        given.iter().for_each(|row| rows.push(row, NO_PLACE));
        rows.sort();
        let found = shown(&rows);
        let mut expected = given.to_vec();
        expected.sort_by_key(|row| (row.from, row.kind(), row.number));
        assert_eq!(found, expected.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>());
        assert_eq!(rows.extent(StateKey::From), Some((i128::MIN, i128::MAX - 9)));
        assert_eq!(rows.extent(StateKey::Cpu), Some((0, u64::MAX.into())));
        let mut states = Vec::new();
        rows.for_each_text(StateKey::State, |name| states.push(name.to_string()));
        assert_eq!(states, ["WAIT", "DEAD"]);
    }

    #[test]
    fn rows_with_places_stand_between_those_without() {
        let of = |status: Option<CpuStatus>, tid| match status {
            Some(status) => StateOf::Cpu { tid, status },
            None => StateOf::Thread(ThreadState::Wait),
        };
        let row = |from: Ns, length: Ns, number: i64, status, tid| StateRow {
            from,
            to: from + length,
            machine: 0,
            number,
            of: of(status, tid),
        };
        let irq = StateOf::Irq { kind: InterruptKind::Irq, cpu: 1 };
        let given = [
            row(100, 50, 7, None, None),
            row(100, 30, 1, Some(CpuStatus::User), Some(7)),
            row(100, 20, 0, Some(CpuStatus::Idle), None),
            row(130, 1 << 40, 1, Some(CpuStatus::Idle), Some(0)),
            row(150, 5, -3, None, None),
            row(150, 6, 8, None, None),
            row(150, 6, 9, None, None),
            row(160, 6, 3, Some(CpuStatus::User), Some(1 << 40)),
        ];
        let (mut rows, mut late) = (StateRows::new(RowForm::default()), StateRows::new(RowForm::default()));
        let places: Vec<u32> = given.iter().map(|row| rows.reserve(row.from)).collect();
        // The first one stands after a gap.
        assert_eq!((places[7], rows.reserve(99), rows.len()), (8, NO_PLACE, 0));
        for (row, place) in given.iter().zip(places).rev() {
            // Its place stays empty.
            let place = if row.number == 9 { NO_PLACE } else { place };
            rows.push(row, place);
            late.push(row, NO_PLACE);
        }
        for from in [90, 100, 150, 170] {
            let row = StateRow { from, to: from + 1, machine: 0, number: 5, of: irq.clone() };
            rows.push(&row, NO_PLACE);
            late.push(&row, NO_PLACE);
        }
        rows.sort();
        late.sort();
        assert_eq!(shown(&rows), shown(&late));
        assert_eq!((rows.len(), late.len(), rows.placed), (12, 12, 4));
        assert_eq!(size_of::<Place>(), 12);
        for key in StateKey::ALL {
            assert_eq!(rows.extent(*key), late.extent(*key), "{key:?}");
        }
        assert_eq!(rows.extent(StateKey::Duration), Some((1, 1 << 40)));
    }

    #[test]
    fn places_have_gaps_of_any_length() {
        let (mut rows, mut late) = (StateRows::new(RowForm::default()), StateRows::new(RowForm::default()));
        let mut from = 1_700_000_000_000_000_000;
        for (at, gap) in
            [0, 0, 1, 65_535, 65_536, 1u64 << 32, 0, (1 << 57) + 12_345, 7, 1 << 60, 3].into_iter().enumerate()
        {
            from += Ns::from(gap);
            let place = rows.reserve(from);
            assert_eq!(place == NO_PLACE, at >= 9, "a trace is not that long: {gap}");
            let row = thread(from, at as i64);
            rows.push(&row, place);
            late.push(&row, NO_PLACE);
        }
        // Numbers that a place has no room for.
        for number in [1 << THREAD_BITS, i64::MAX] {
            for (of, number) in [
                (StateOf::Cpu { tid: Some(number), status: CpuStatus::Idle }, 1),
                (StateOf::Thread(ThreadState::Wait), number),
            ] {
                let row = StateRow { from, to: from + 1, machine: 0, number, of };
                rows.push(&row, 3);
                late.push(&row, NO_PLACE);
            }
        }
        assert_eq!(rows.placed, 9);
        rows.sort();
        late.sort();
        assert_eq!(shown(&rows), shown(&late));
        for key in StateKey::ALL {
            assert_eq!(rows.extent(*key), late.extent(*key), "{key:?}");
        }
    }

    #[test]
    fn numbers_are_sorted_and_equal_ones_stay_in_their_order() {
        let mut random = 7u64;
        for mask in [0, 0xff, 0x3ff_0000, u64::MAX, 1 << 63] {
            let number = |at: u32| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(at) | 1);
                (random & mask, at)
            };
            let mut places: Vec<(u64, u32)> = (0..500).map(number).collect();
            let mut expected = places.clone();
            expected.sort();
            sort_by_number(&mut places);
            assert_eq!(places, expected);
        }
        sort_by_number(&mut Vec::new());
    }
}
