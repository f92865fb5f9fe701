//! Where an event stands on a timeline.

use std::collections::HashMap;

use crate::Who;

/// Where an event stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventPlace {
    /// On a thread.
    Thread(i64),
    /// On a track that the trace numbers itself.
    Track(i64),
    /// On a CPU.
    Cpu(u64),
    /// On its stream: nothing else is known.
    Stream,
}

/// Place of an event by its own fields: their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatedPlace {
    /// Number of the thread or track ([`Who::id`]).
    pub id: Option<i64>,
    /// The thread that its CPU turns to ([`Switch::next`](crate::Switch::next)).
    pub next: Option<i64>,
    /// CPU of its packet.
    pub cpu: Option<u64>,
}

/// The threads that run on the CPUs of some machines, as far as events say so.
#[derive(Clone, Debug, Default)]
pub struct Running(HashMap<(u32, u64), i64>);

impl Running {
    /// The thread that a CPU of a machine runs, after a switch to it.
    #[inline]
    pub fn thread(&self, machine: u32, cpu: u64) -> Option<i64> {
        self.0.get(&(machine, cpu)).copied()
    }

    /// Where an event of a machine stands. Events must come in the order of time.
    ///
    /// An interrupt belongs to its CPU. A half of a pair that names no thread belongs to the one that runs, since what a
    /// thread begins may end on another CPU.
    ///
    /// ```
    /// use tracemill_semantics::{EventPlace, Running, StatedPlace, Who};
    ///
    /// let mut running = Running::default();
    /// let (switch, system_call) = (Who { is_of_cpu: true, ..Who::default() }, Who { is_half: true, ..Who::default() });
    /// let said = StatedPlace { cpu: Some(1), next: Some(42), ..StatedPlace::default() };
    /// assert_eq!(running.place(0, &switch, said), EventPlace::Cpu(1));
    /// assert_eq!(running.place(0, &system_call, StatedPlace { next: None, ..said }), EventPlace::Thread(42));
    /// ```
    #[inline]
    pub fn place(&mut self, machine: u32, who: &Who, said: StatedPlace) -> EventPlace {
        if let (Some(next), Some(cpu)) = (said.next, said.cpu) {
            self.0.insert((machine, cpu), next);
        }
        match (said.id, said.cpu) {
            (Some(track), _) if who.is_track => EventPlace::Track(track),
            (Some(thread), None) => EventPlace::Thread(thread),
            (None, None) => EventPlace::Stream,
            (_, Some(cpu)) if who.is_of_cpu => EventPlace::Cpu(cpu),
            (Some(thread), Some(_)) => EventPlace::Thread(thread),
            (None, Some(cpu)) if who.is_half => {
                self.0.get(&(machine, cpu)).map_or(EventPlace::Cpu(cpu), |&thread| EventPlace::Thread(thread))
            }
            (None, Some(cpu)) => EventPlace::Cpu(cpu),
        }
    }
}
