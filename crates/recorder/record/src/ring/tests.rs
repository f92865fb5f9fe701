//! Rings in plain memory: what a reader finds of events, of those that signal handlers write inside of them, and of what has
//! no room; by itself, so that Miri can run it, and in `steps` at every instruction of an event.

use super::write::write;
use super::*;
use tracemill_ring::condition::PlainValue;
use tracemill_ring::{Header, slots};

use super::event_buf::EventBuf;
use crate::field::{FieldClass, Fields, sealed};

const SLOT: u64 = 4096;
/// Events of one number that fit into a slot.
const FULL: u64 = (SLOT - packet::LEN as u64) / 16;
const STREAM: u64 = 1;
const FLIGHT: u64 = 2;

impl Mapping {
    /// A mapping of no file.
    pub(super) fn in_memory(len: usize) -> Mapping {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        Mapping { base: base.cast(), len }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// A ring and its writer.
pub(super) struct Ring {
    mapping: Mapping,
    pub(super) writer: RingWriter,
}

impl Ring {
    pub(super) fn new(mode: u64, count: u64) -> Ring {
        clock::choose();
        let mapping = Mapping::in_memory(header::LEN + (count * SLOT) as usize);
        mapping.put(0, &header::MAGIC);
        mapping.u32(header::KIND).store(1, Ordering::Relaxed);
        mapping.put(header::UUID, &[7; 16]);
        for (at, value) in [(header::SLOT_SIZE, SLOT), (header::SLOTS, count), (header::MODE, mode)] {
            mapping.u64(at).store(value, Ordering::Relaxed);
        }
        let writer = RingWriter::new();
        writer.open(&mapping, 0, false);
        Ring { mapping, writer }
    }

    pub(super) fn put(&self, number: u64) {
        assert!(write(&self.writer, 1, &(number,)));
    }

    pub(super) fn number(&self, at: usize) -> u64 {
        self.mapping.u64(at).load(Ordering::Acquire)
    }

    /// Takes the oldest slot away, as the consumer does when it has moved it.
    fn take(&self) {
        self.mapping.u64(header::TAKEN).fetch_add(1, Ordering::Release);
    }

    /// Numbers of the events, as readers of the ring find them. No slot is damaged, no event torn, and no time goes back.
    pub(super) fn read(&self) -> Vec<u64> {
        let mut bytes = Vec::with_capacity(self.mapping.len);
        for at in (0..self.mapping.len).step_by(8) {
            bytes.extend_from_slice(&self.number(at).to_le_bytes());
        }
        let header = Header::read(&bytes, bytes.len() as u64).expect("a ring");
        let found = slots(&header, &bytes, None);
        assert!(found.damaged.is_empty(), "{:?}", found.damaged);
        let mut numbers = Vec::new();
        for slot in found.packets {
            let packet = &bytes[slot.offset as usize..(slot.offset + slot.content) as usize];
            let mask = (1 << packet::CLOCK_BITS) - 1;
            let (mut last, end) = (u64_at(packet, packet::BEGIN) & mask, u64_at(packet, packet::END) & mask);
            let (events, rest) = packet[packet::LEN..].as_chunks::<16>();
            assert!(rest.is_empty(), "the content ends inside of an event");
            for event in events {
                let word = u64_at(event, 0);
                assert_eq!(word >> packet::CLOCK_BITS, 1, "an event without its class");
                assert!(word & mask >= last && word & mask <= end, "{last}, {word:x}, {end}");
                last = word & mask;
                numbers.push(u64_at(event, 8));
            }
        }
        numbers
    }
}

#[test]
fn bytes_of_every_length_are_copied() {
    let bytes: Vec<u8> = (1..=80).collect();
    for len in 0..=bytes.len() {
        let mut to = vec![0; len + 8];
        // SAFETY: so many bytes are there, of this test alone.
        let mut place = unsafe { EventBuf::new(to.as_mut_ptr(), len) };
        place.put_bytes(&bytes[..len]);
        assert_eq!(place.left, 0);
        assert!(to[..len] == bytes[..len] && to[len..] == [0; 8], "{len}");
    }
}

#[test]
fn a_flight_ring_keeps_the_last_slots() {
    let ring = Ring::new(FLIGHT, 2);
    (0..FULL * 5 + 3).for_each(|number| ring.put(number));
    assert_eq!(ring.read(), (FULL * 4..FULL * 5 + 3).collect::<Vec<_>>());
    assert_eq!((ring.number(header::DONE), ring.number(header::DISCARDED)), (5, 0));
}

#[test]
fn a_stream_ring_discards_and_goes_on() {
    let ring = Ring::new(STREAM, 2);
    (0..FULL * 3).for_each(|number| ring.put(number));
    assert_eq!(ring.read(), (0..FULL * 2).collect::<Vec<_>>());
    assert_eq!(ring.number(header::DISCARDED), FULL);
    ring.take();
    ring.put(7);
    assert_eq!(ring.read(), (FULL..FULL * 2).chain([7]).collect::<Vec<_>>());
    // The packet that follows says how many are missing before it.
    assert_eq!(ring.number(header::LEN + packet::DISCARDED), FULL);
    ring.writer.ask_to_flush();
    ring.put(8);
    assert_eq!(ring.number(header::DONE), 3);
    ring.take();
    ring.put(9);
    assert_eq!(ring.read(), [7, 9]);
    assert_eq!(ring.number(header::DISCARDED), FULL + 1);
    ring.writer.close();
    assert!(!ring.writer.is_open() && ring.writer.is_quiet());
}

#[test]
fn the_longest_event_fills_a_slot_and_a_longer_one_is_discarded() {
    let ring = Ring::new(FLIGHT, 2);
    let longest = (SLOT - packet::LEN as u64 - packet::EVENT_LEN - 4) as usize;
    assert!(write(&ring.writer, 1, &("x".repeat(longest).as_str(),)));
    assert_eq!(ring.number(header::LEN + packet::CONTENT), SLOT * 8);
    assert!(write(&ring.writer, 1, &("x".repeat(longest + 1).as_str(),)));
    assert_eq!((ring.number(header::DISCARDED), ring.number(header::LEN + packet::DISCARDED)), (1, 1));
}

/// A number in whose place a signal handler interrupts the event.
struct Interrupted<'a>(&'a Ring, u64);

impl sealed::Sealed for Interrupted<'_> {}

impl Fields for Interrupted<'_> {
    const CLASSES: &'static [FieldClass] = &[FieldClass::Unsigned(64)];

    fn encoded_len(&self) -> usize {
        8
    }

    fn put(&self, place: &mut EventBuf<'_>) {
        for _ in 0..2 {
            self.0.put(self.1 + 1);
        }
        place.put(self.1.to_le_bytes());
    }

    fn value(&self, _: usize) -> PlainValue<'_> {
        PlainValue::Integer(self.1.into())
    }
}

#[test]
fn events_inside_of_an_event_stand_behind_it() {
    let ring = Ring::new(FLIGHT, 4);
    for number in 0..FULL {
        // Miri takes its time to read a ring.
        if cfg!(miri) && number % 50 != 0 {
            assert!(write(&ring.writer, 1, &Interrupted(&ring, number * 10)));
            continue;
        }
        let found = ring.read().len();
        assert!(write(&ring.writer, 1, &Interrupted(&ring, number * 10)));
        let all = ring.read();
        let discarded = ring.number(header::DISCARDED);
        assert_eq!(all.len() as u64 + discarded, (number + 1) * 3);
        // Events for which the slot has no room are discarded: a handler does not switch slots.
        assert_eq!(all[found], number * 10);
        assert!(all[found + 1..].iter().all(|inner| *inner == number * 10 + 1));
    }
    assert!(ring.number(header::DISCARDED) > 0 && ring.number(header::DONE) > 0);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod steps {
    //! The processor stops after each instruction of an event (the trap flag): there a signal handler writes another event,
    //! and a reader looks. Other processors see stores of x86-64 in the order of the program, so they see no other states.

    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

    use super::*;

    /// The ring of the run.
    static RING: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
    /// Depth of what is stepped through: the event, or one of a handler.
    static LEVEL: AtomicUsize = AtomicUsize::new(0);
    /// Instructions of each so far.
    static STEPS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    /// Instruction at which a handler comes, of each; and whether it came.
    static AT: [AtomicUsize; 2] = [const { AtomicUsize::new(usize::MAX) }; 2];
    static CAME: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    /// The events that a reader saw last: they stay there.
    static SEEN: Mutex<(Vec<u64>, Vec<u64>)> = Mutex::new((Vec::new(), Vec::new()));

    /// Runs something, one instruction at a time.
    fn stepped(work: impl FnOnce()) {
        // SAFETY: the flag makes the processor call the handler of SIGTRAP, which is there; nothing else changes.
        unsafe { core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        work();
        // SAFETY: as above.
        unsafe { core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    }

    /// A reader, if anything changed that it could see.
    fn look(ring: &Ring) {
        let mut seen = SEEN.lock().expect("nobody else");
        let slots = (ring.mapping.len - header::LEN) / SLOT as usize;
        let places = (0..slots).flat_map(|slot| {
            [packet::SEQUENCE, packet::CONTENT, packet::END].map(|at| header::LEN + slot * SLOT as usize + at)
        });
        let state: Vec<u64> =
            [header::DONE, header::DISCARDED].into_iter().chain(places).map(|at| ring.number(at)).collect();
        if state != seen.0 {
            let found = ring.read();
            assert!(found.starts_with(&seen.1), "what was there is gone: {:?}, then {found:?}", seen.1);
            *seen = (state, found);
        }
    }

    extern "C" fn on_step(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the ring of the run outlives it.
        let ring = unsafe { &*RING.load(Ordering::Relaxed) };
        let level = LEVEL.load(Ordering::Relaxed);
        let step = STEPS[level].fetch_add(1, Ordering::Relaxed);
        if step == AT[level].load(Ordering::Relaxed) {
            CAME[level].store(true, Ordering::Relaxed);
            if level == 0 && AT[1].load(Ordering::Relaxed) != usize::MAX {
                LEVEL.store(1, Ordering::Relaxed);
                stepped(|| ring.put(2));
                LEVEL.store(0, Ordering::Relaxed);
            } else {
                ring.put(2 + level as u64);
            }
        }
        look(ring);
    }

    /// Writes an event that handlers interrupt at these instructions, into a ring that `prepare` made. Says which came.
    fn run(prepare: fn() -> Ring, at: [usize; 2]) -> [bool; 2] {
        let mut ring = Box::new(prepare());
        let before = ring.read();
        let discarded = ring.number(header::DISCARDED);
        RING.store(&raw mut *ring, Ordering::Relaxed);
        *SEEN.lock().expect("nobody else") = (Vec::new(), before.clone());
        for level in 0..2 {
            AT[level].store(at[level], Ordering::Relaxed);
            STEPS[level].store(0, Ordering::Relaxed);
            CAME[level].store(false, Ordering::Relaxed);
        }
        stepped(|| ring.put(1));
        let came = [0, 1].map(|level| CAME[level].load(Ordering::Relaxed));
        // Whatever happened inside, the next event is whole.
        ring.put(4);
        let after = ring.read();
        let lost = ring.number(header::DISCARDED) - discarded;
        let tried = 2 + came.iter().filter(|came| **came).count() as u64;
        assert!(after.starts_with(&before), "{at:?}");
        let new = &after[before.len()..];
        assert_eq!(new.len() as u64 + lost, tried, "{at:?}: {new:?}, {lost} discarded");
        let mut different = new.to_vec();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() == new.len() && new.iter().all(|number| (1..=4).contains(number)), "{at:?}: {new:?}");
        came
    }

    fn with_room() -> Ring {
        let ring = Ring::new(FLIGHT, 3);
        ring.put(100);
        ring
    }

    fn filled(ring: Ring, count: u64) -> Ring {
        (0..count).for_each(|number| ring.put(100 + number));
        ring
    }

    fn full() -> Ring {
        filled(Ring::new(FLIGHT, 3), FULL)
    }

    fn nearly_full() -> Ring {
        filled(Ring::new(FLIGHT, 3), FULL - 1)
    }

    fn without_room() -> Ring {
        filled(Ring::new(STREAM, 2), 2 * FULL)
    }

    fn to_be_flushed() -> Ring {
        let ring = filled(Ring::new(STREAM, 2), 3);
        ring.writer.ask_to_flush();
        ring
    }

    fn new() -> Ring {
        Ring::new(STREAM, 2)
    }

    #[test]
    fn events_are_whole_at_every_instruction() {
        // SAFETY: the handler is a function of this module, and no other test uses the signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_step as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
        }
        let is_long = std::env::var_os("TRACEMILL_LONG").is_some();
        for prepare in [with_room, full, nearly_full, without_room, to_be_flushed, new] {
            // Without a handler, then with one at each instruction.
            run(prepare, [usize::MAX; 2]);
            let mut count = 0;
            while run(prepare, [count, usize::MAX])[0] {
                count += 1;
            }
            assert!(count > 20, "{count} instructions");
            // A second handler inside of the first one.
            let (outer, inner) = if is_long { (7, 5) } else { (97, 31) };
            for at in (0..count).step_by(outer) {
                let mut within = 0;
                while run(prepare, [at, within])[1] {
                    within += inner;
                }
            }
        }
    }
}
