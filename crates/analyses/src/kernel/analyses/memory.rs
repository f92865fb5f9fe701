//! `memory`: pages and objects of the kernel that threads allocate and free (`docs/kernel.md`, section 3.7).

use std::cell::RefCell;
use std::rc::Rc;

use tracemill_semantics::states::{CpuIndex, Current, Happening, Machines, Map, Ns, Observer, Thread};
use tracemill_semantics::{Concept, Field};

use crate::kernel::aggregate::aggregate_map::{AggregateMap, SumKey, SumRows, rows_of};
use crate::kernel::aggregate::keys::thread_of;
use crate::kernel::aggregate::latest::Latest;
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, PeriodRole, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, FormWord, RowNouns, SUMS};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::rows::column_of::{ColumnOf, cells_of, column, own_column};
use crate::kernel::table::{Column, Order, Table, Unit};
use crate::kernel::value::{Cell, Value};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "memory",
    about: "pages and objects of the kernel that threads allocate and free",
    forms: &[
        AnalysisForm::plain(&["thread"], SUMS, RowNouns::for_groups(&["threads"])),
        AnalysisForm {
            option: "--by site",
            word: None,
            keys: &["site"],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["sites"]),
        },
        AnalysisForm {
            option: "--slab",
            word: Some(FormWord::Slab),
            keys: &["thread"],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["threads"]),
        },
        AnalysisForm {
            option: "--slab --by site",
            word: Some(FormWord::Slab),
            keys: &["site"],
            takes: SUMS,
            nouns: RowNouns::for_groups(&["sites"]),
        },
    ],
    needs: &[&[Concept::PageAlloc, Concept::PageFree, Concept::SlabAlloc, Concept::SlabFree]],
    needs_for: &[("slab", &[Concept::SlabAlloc]), ("site", &[Concept::SlabAlloc])],
    wants: &[
        (Concept::PageAlloc, "pages that were allocated"),
        (Concept::PageFree, "pages that were freed"),
        (Concept::SlabAlloc, "objects of the kernel (--slab)"),
    ],
    over_periods: None,
    example: "memory --limit 5",
    make: |query| Box::new(Memory::new(query)),
};

/// Objects of a machine that are kept at most, to know their sizes when they are freed.
const MAX_OBJECTS: usize = 1 << 20;

/// The largest order of a block of pages: no kernel has one.
const MAX_ORDER: i64 = 62;

struct Memory {
    query: AnalysisQuery,
    /// Objects instead of pages?
    is_slab: bool,
    /// Only objects have the place of the call that made them.
    is_by_site: bool,
    /// By step, machine, and thread or site: a number, and what it is.
    groups: AggregateMap<4, Sums>,
    level: i128,
    peak: i128,
    bad_orders: u64,
    role: PeriodRole,
    objects: Rc<RefCell<Objects>>,
}

/// Objects that are allocated.
#[derive(Default)]
struct Objects {
    /// By machine and address.
    known: Map<u32, Latest<i128, Object>>,
    unmatched_frees: u64,
    dropped: u64,
    /// The sums of the last event, and the place where its object was made.
    last: Option<(Sums, Option<i128>)>,
}

impl Objects {
    fn apply(&mut self, machine: u32, happening: &Happening<'_>) -> Option<(Sums, Option<i128>)> {
        let integer = |field| happening.values.integer(field);
        // Without an address the allocation failed, and the call that frees nothing frees nothing.
        let pointer = integer(Field::Ptr).filter(|pointer| *pointer != 0)?;
        if happening.concept == Concept::SlabAlloc {
            let (bytes, site) = (integer(Field::Bytes)?.max(0), integer(Field::Site));
            let known = self.known.entry(machine).or_insert_with(|| Latest::new(MAX_OBJECTS));
            self.dropped += u64::from(known.insert(pointer, Object { bytes, site }).is_some());
            return Some((Sums { allocs: 1, allocated: bytes, ..Sums::default() }, site));
        }
        let object = self.known.get_mut(&machine).and_then(|known| known.remove(&pointer));
        self.unmatched_frees += u64::from(object.is_none());
        let Object { bytes, site } = object.unwrap_or(Object { bytes: 0, site: None });
        Some((Sums { frees: 1, freed: bytes, ..Sums::default() }, site))
    }
}

/// An object that is allocated.
struct Object {
    bytes: i128,
    site: Option<i128>,
}

/// Allocations and frees: events, and pages or bytes.
#[derive(Clone, Copy, Default)]
struct Sums {
    allocs: u64,
    frees: u64,
    allocated: i128,
    freed: i128,
}

impl Sum for Sums {
    fn add(&mut self, other: Sums) {
        self.allocs += other.allocs;
        self.frees += other.frees;
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.freed = self.freed.saturating_add(other.freed);
    }
}

impl Aggregate for Sums {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.allocs);
        packing.number(&mut self.frees);
        packing.number(&mut self.allocated);
        packing.number(&mut self.freed);
    }
}

/// Kinds of numbers in keys. Addresses may take all 64 bits: those that do are negative numbers here.
const UNKNOWN: i64 = 0;
const NUMBER: i64 = 1;
const UPPER: i64 = 2;

/// A thread or a site in a key.
fn key_of(number: Option<i128>) -> [i64; 2] {
    match number {
        None => [0, UNKNOWN],
        Some(number) => match i64::try_from(number) {
            Ok(number) => [number, NUMBER],
            Err(_) => [number as i64, UPPER],
        },
    }
}

fn number_of([.., number, kind]: &SumKey<4>) -> Option<i128> {
    match *kind {
        UNKNOWN => None,
        UPPER => Some((*number as u64).into()),
        _ => Some((*number).into()),
    }
}

/// A row of a thread or of a site.
#[derive(Default)]
struct SumsRow<'r> {
    number: Option<i128>,
    thread: Option<&'r Thread>,
    sums: Sums,
}

impl<'r> SumsRow<'r> {
    const TID: ColumnOf<'r, Self> = column("tid", Unit::Name, |row| Value::integer(row.number));
    const COMM: ColumnOf<'r, Self> =
        column("comm", Unit::Name, |row| Value::text(row.thread.and_then(|thread| thread.comm.as_deref())));
    const SITE: ColumnOf<'r, Self> =
        own_column("site", Unit::Address, "address in the kernel that asked for the objects", |row| {
            Value::integer(row.number)
        });
    const ALLOCS: ColumnOf<'r, Self> = own_column("allocs", Unit::Count, "allocations", |row| row.sums.allocs.into());
    const FREES: ColumnOf<'r, Self> = own_column("frees", Unit::Count, "frees", |row| row.sums.frees.into());
    const BYTES: ColumnOf<'r, Self> =
        own_column("bytes", Unit::Count, "bytes that were allocated", |row| row.sums.allocated.into());
    const BYTES_FREED: ColumnOf<'r, Self> =
        own_column("bytes_freed", Unit::Count, "bytes that were freed", |row| row.sums.freed.into());
    const PAGES_ALLOCATED: ColumnOf<'r, Self> =
        own_column("pages_allocated", Unit::Count, "pages that were allocated", |row| row.sums.allocated.into());
    const PAGES_FREED: ColumnOf<'r, Self> =
        own_column("pages_freed", Unit::Count, "pages that were freed", |row| row.sums.freed.into());

    const PAGES: &'r [ColumnOf<'r, Self>] = &[Self::ALLOCS, Self::FREES, Self::PAGES_ALLOCATED, Self::PAGES_FREED];
    const OBJECTS: &'r [ColumnOf<'r, Self>] = &[Self::ALLOCS, Self::FREES, Self::BYTES, Self::BYTES_FREED];
    const PAGES_BY_THREAD: &'r [ColumnOf<'r, Self>] =
        &[Self::TID, Self::COMM, Self::ALLOCS, Self::FREES, Self::PAGES_ALLOCATED, Self::PAGES_FREED];
    const OBJECTS_BY_THREAD: &'r [ColumnOf<'r, Self>] =
        &[Self::TID, Self::COMM, Self::ALLOCS, Self::FREES, Self::BYTES, Self::BYTES_FREED];
    const OBJECTS_BY_SITE: &'r [ColumnOf<'r, Self>] =
        &[Self::SITE, Self::ALLOCS, Self::FREES, Self::BYTES, Self::BYTES_FREED];
}

struct Groups {
    is_slab: bool,
    is_by_site: bool,
    machines: Rc<Machines>,
}

impl SumRows<4, Sums> for Groups {
    type Row<'r> = SumsRow<'r>;

    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SumsRow<'r>>] {
        match (self.is_slab, self.is_by_site) {
            (false, _) => SumsRow::PAGES_BY_THREAD,
            (true, false) => SumsRow::OBJECTS_BY_THREAD,
            (true, true) => SumsRow::OBJECTS_BY_SITE,
        }
    }

    fn row<'r>(&'r self, key: &SumKey<4>, sums: Sums, _: Ns) -> SumsRow<'r> {
        let number = number_of(key);
        let tid = number.filter(|_| !self.is_by_site).and_then(|tid| i64::try_from(tid).ok()).filter(|tid| *tid != 0);
        SumsRow { number, thread: tid.and_then(|tid| thread_of(&self.machines, key[1] as u32, tid)), sums }
    }

    fn machine(&self, key: &SumKey<4>) -> u32 {
        key[1] as u32
    }

    fn number(&self, key: &SumKey<4>) -> i64 {
        number_of(key).map_or(i64::MIN, |number| i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Memory {
    fn new(query: &AnalysisQuery) -> Self {
        let is_by_site = query.by.as_deref() == Some("site");
        Memory {
            query: query.clone(),
            is_slab: is_by_site || query.has(FormWord::Slab),
            is_by_site,
            groups: AggregateMap::default(),
            level: 0,
            peak: 0,
            bad_orders: 0,
            role: PeriodRole::Alone,
            objects: Rc::default(),
        }
    }

    /// Pages of an event.
    fn pages(&mut self, happening: &Happening<'_>) -> i128 {
        match happening.number(Field::Order) {
            Some(order @ 0..=MAX_ORDER) => 1 << order,
            _ => {
                self.bad_orders += 1;
                0
            }
        }
    }

    /// Memory that an event allocates or frees, and where the object of it was made.
    fn sums(&mut self, machine: u32, happening: &Happening<'_>) -> Option<(Sums, Option<i128>)> {
        match (happening.concept, self.is_slab) {
            (Concept::PageAlloc, false) => {
                Some((Sums { allocs: 1, allocated: self.pages(happening), ..Sums::default() }, None))
            }
            (Concept::PageFree, false) => {
                Some((Sums { frees: 1, freed: self.pages(happening), ..Sums::default() }, None))
            }
            (Concept::SlabAlloc | Concept::SlabFree, true) => {
                let mut objects = self.objects.borrow_mut();
                if self.role.is_tracking() {
                    objects.last = objects.apply(machine, happening);
                }
                objects.last.filter(|_| self.role.has_table())
            }
            _ => None,
        }
    }
}

impl Observer for Memory {
    fn applied(&mut self, machines: &Machines, machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Some((sums, site)) = self.sums(machine, happening) else { return };
        let query = &self.query;
        let current = cpu.map_or(Current::Unknown, |cpu| machines.cpu(cpu).current());
        if !query.has_instant(at) || !query.wants_cpu(machines, cpu) || !query.wants_thread(machines, current.thread())
        {
            return;
        }
        let [number, kind] = key_of(match current {
            _ if self.is_by_site => site,
            Current::Unknown => None,
            Current::Idle => Some(0),
            Current::Thread(thread) => Some(machines.thread(thread).tid.into()),
        });
        self.groups.entry([query.step_of(machines.begin(), at), machine.into(), number, kind]).add(sums);
        self.level = self.level.saturating_add(sums.allocated - sums.freed);
        self.peak = self.peak.max(self.level);
    }
}

impl Analysis for Memory {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        // Objects that are freed in the range may be older.
        (
            &[ReportKind::Applied],
            if self.is_slab && self.role.is_tracking() { ReportTimes::All } else { ReportTimes::Range },
        )
    }

    fn for_period(&mut self, period: &AnalysisQuery) -> Option<Box<dyn Analysis>> {
        if !self.is_slab {
            return None;
        }
        self.role = PeriodRole::Tracker;
        Some(Box::new(Memory { role: PeriodRole::View, objects: self.objects.clone(), ..Memory::new(period) }))
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let (query, is_slab) = (&self.query, self.is_slab);
        let mut all = SumsRow::default();
        let sums = self.groups.finish(query.last_step(range));
        sums.iter().for_each(|(_, sums)| all.sums.add(sums));
        let groups = Groups { is_slab, is_by_site: self.is_by_site, machines: machines.clone() };
        let (columns, rows) = rows_of(query, range, sums, groups, |_| true);
        let (amounts, largest, peak) = match is_slab {
            true => (SumsRow::OBJECTS, "bytes", "peak_bytes"),
            false => (SumsRow::PAGES, "pages_allocated", "peak_pages"),
        };
        let mut all = cells_of(amounts, &all);
        all.push((Column::new(peak, Unit::Count), Cell::Integer(self.peak)));
        let counts = [
            ("bad_orders", self.bad_orders),
            ("unmatched_frees", self.objects.borrow().unmatched_frees),
            ("dropped_objects", self.objects.borrow().dropped),
        ];
        let order = if query.step.is_some() { Order::Keys } else { Order::Largest(largest) };
        let notes = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        Table { analysis: "memory", range, columns, rows, all, order, notes, ..Table::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use tracemill_semantics::states::ConceptValues;

    use super::*;

    struct Numbers<'a>(&'a [(Field, i128)]);

    impl ConceptValues for Numbers<'_> {
        fn integer(&self, field: Field) -> Option<i128> {
            self.0.iter().find(|(own, _)| *own == field).map(|(_, value)| *value)
        }
        fn text(&self, _: Field) -> Option<Cow<'_, str>> {
            None
        }
    }

    /// Result of an analysis of some events.
    fn table(query: &AnalysisQuery, events: &[(Concept, &[(Field, i128)])]) -> Table {
        let (mut machines, mut memory) = (Machines::new(1), Memory::new(query));
        for (concept, numbers) in events {
            let happening = Happening { concept: *concept, is_legacy: false, values: &Numbers(numbers) };
            machines.apply_event(0, machines.now() + 1, Some(0), &happening, &mut memory);
        }
        let range = Some((1, machines.now()));
        let mut table = Box::new(memory).finish(&Rc::new(machines), range);
        table.sort();
        table
    }

    fn rows(table: &Table) -> Vec<Vec<Option<i128>>> {
        let number = |cell: &Cell| if let Cell::Integer(value) = cell { Some(*value) } else { None };
        table.rows.cells().iter().map(|row| row.iter().map(number).collect()).collect()
    }

    #[test]
    fn the_peak_is_the_most_that_was_in_use() {
        let page = |concept, order| (concept, vec![(Field::Order, order)]);
        let events = [
            page(Concept::PageAlloc, 3),
            page(Concept::PageFree, 2),
            page(Concept::PageAlloc, 1),
            page(Concept::PageAlloc, 1000),
            page(Concept::PageFree, -1),
        ];
        let events: Vec<_> = events.iter().map(|(concept, numbers)| (*concept, &**numbers)).collect();
        let table = table(&AnalysisQuery::default(), &events);
        assert_eq!(rows(&table), [[None, None, Some(3), Some(2), Some(10), Some(4)]]);
        let peak = table.all.last().map(|(column, cell)| (&*column.name, cell.clone()));
        assert_eq!(peak, Some(("peak_pages", Cell::Integer(8))));
        assert_eq!(table.notes, [("bad_orders", 2)]);
    }

    #[test]
    fn objects_are_matched_by_their_addresses() {
        let alloc = |pointer, bytes, site| {
            (Concept::SlabAlloc, vec![(Field::Ptr, pointer), (Field::Bytes, bytes), (Field::Site, site)])
        };
        let free = |pointer, site| (Concept::SlabFree, vec![(Field::Ptr, pointer), (Field::Site, site)]);
        let events = [
            alloc(0x10, 64, 1),
            alloc(0x20, 32, 2),
            // It failed.
            alloc(0, 4096, 1),
            free(0x10, 9),
            free(0x10, 9),
            free(0x30, 9),
            free(0, 9),
            alloc(0x10, 8, 1),
        ];
        let events: Vec<_> = events.iter().map(|(concept, numbers)| (*concept, &**numbers)).collect();
        let by_site = table(&AnalysisQuery { by: Some("site".to_string()), ..AnalysisQuery::default() }, &events);
        let expected = [
            [Some(1), Some(2), Some(1), Some(72), Some(64)],
            [Some(2), Some(1), Some(0), Some(32), Some(0)],
            [None, Some(0), Some(2), Some(0), Some(0)],
        ];
        assert_eq!(rows(&by_site), expected);
        assert_eq!(by_site.notes, [("unmatched_frees", 2)]);
        assert_eq!(by_site.all.last().map(|(_, cell)| cell.clone()), Some(Cell::Integer(96)));
        let by_thread = table(&AnalysisQuery { words: vec![FormWord::Slab], ..AnalysisQuery::default() }, &events);
        assert_eq!(rows(&by_thread), [[None, None, Some(3), Some(3), Some(104), Some(64)]]);
    }
}
