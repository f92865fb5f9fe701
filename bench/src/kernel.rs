//! A trace in the shape of LTTng's kernel tracer: some CPUs, each with threads that wait, are woken, run and call the
//! system, interrupts in between, and now and then a thread that is made and ends. Events are as small as the tracer's.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// CPUs of the machine, unless another number is wanted.
pub(crate) const CPUS: u32 = 4;
/// Threads that each CPU has all the time.
const THREADS: i32 = 12;
/// Bytes of a packet.
const PACKET_BYTES: usize = 64 << 10;
/// Bytes of the header and the context of a packet.
const HEAD_BYTES: usize = 5 + 2 * 8 + 2 * 4 + 8 + 4;
/// One in so many slices of a CPU's time makes a thread, unless another number is wanted.
pub(crate) const FORK_EVERY: u64 = 40;

const TYPES: &str = "typealias integer { size = 8; align = 8; signed = 0; } := u8;
typealias integer { size = 16; align = 8; signed = 0; } := u16;
typealias integer { size = 32; align = 8; signed = 0; } := u32;
typealias integer { size = 64; align = 8; signed = 0; } := u64;
typealias integer { size = 32; align = 8; signed = 1; } := i32;
typealias integer { size = 64; align = 8; signed = 1; } := i64;
typealias integer { size = 8; align = 8; signed = 1; encoding = UTF8; } := char;
";

const HEAD: &str =
    "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u8 stream_id; }; };
env { hostname = \"mill\"; domain = \"kernel\"; sysname = \"Linux\"; tracer_name = \"lttng-modules\"; tracer_major = 2;
    tracer_minor = 13; tracer_patchlevel = 0; };
clock { name = monotonic; freq = 1000000000; offset_s = 1700000000; };
typealias integer { size = 32; align = 8; map = clock.monotonic.value; } := stamp;
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
stream {
    id = 0;
    packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size;
        u64 events_discarded; u32 cpu_id; };
    event.header := struct { u16 id; stamp timestamp; };
};
";

/// Declares the event classes, as constants that are their ids.
macro_rules! classes {
    ($($id:ident = $name:literal, $fields:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Class { $($id,)* }

        const CLASSES: &[(&str, &str)] = &[$(($name, $fields),)*];
    };
}

classes! {
    SWITCH = "sched_switch", "char _prev_comm[16]; i32 _prev_tid; i32 _prev_prio; i64 _prev_state; char _next_comm[16]; \
        i32 _next_tid; i32 _next_prio;";
    WAKING = "sched_waking", "char _comm[16]; i32 _tid; i32 _prio; i32 _target_cpu;";
    WAKEUP_NEW = "sched_wakeup_new", "char _comm[16]; i32 _tid; i32 _prio; i32 _target_cpu;";
    FORK = "sched_process_fork", "char _parent_comm[16]; i32 _parent_tid; i32 _parent_pid; char _child_comm[16]; \
        i32 _child_tid; i32 _child_pid;";
    EXIT = "sched_process_exit", "char _comm[16]; i32 _tid; i32 _prio;";
    FREE = "sched_process_free", "char _comm[16]; i32 _tid; i32 _prio;";
    IRQ_ENTRY = "irq_handler_entry", "i32 _irq; string _name;";
    IRQ_EXIT = "irq_handler_exit", "i32 _irq; i32 _ret;";
    SOFT_RAISE = "irq_softirq_raise", "u32 _vec;";
    SOFT_ENTRY = "irq_softirq_entry", "u32 _vec;";
    SOFT_EXIT = "irq_softirq_exit", "u32 _vec;";
    TIMER_ENTRY = "timer_hrtimer_expire_entry", "u64 _hrtimer; i64 _now; u64 _function;";
    TIMER_EXIT = "timer_hrtimer_expire_exit", "u64 _hrtimer;";
    PAGE_ALLOC = "kmem_mm_page_alloc", "u64 _page; u64 _pfn; u32 _order; u32 _gfp_flags; i32 _migratetype;";
    PAGE_FREE = "kmem_mm_page_free", "u64 _page; u64 _pfn; u32 _order;";
    READ = "syscall_entry_read", "u32 _fd; u64 _count;";
    READ_END = "syscall_exit_read", "i64 _ret; u64 _buf;";
    WRITE = "syscall_entry_write", "u32 _fd; u64 _buf; u64 _count;";
    WRITE_END = "syscall_exit_write", "i64 _ret;";
    OPEN = "syscall_entry_openat", "i32 _dfd; string _filename; i32 _flags; u16 _mode;";
    OPEN_END = "syscall_exit_openat", "i64 _ret;";
    CLOSE = "syscall_entry_close", "u32 _fd;";
    CLOSE_END = "syscall_exit_close", "i64 _ret;";
    FUTEX = "syscall_entry_futex", "u64 _uaddr; i32 _op; u32 _val; u64 _utime; u64 _uaddr2; u32 _val3;";
    FUTEX_END = "syscall_exit_futex", "i64 _ret; u64 _uaddr; u64 _uaddr2;";
    CLONE = "syscall_entry_clone", "u64 _clone_flags; u64 _newsp; u64 _parent_tid; u64 _child_tid;";
    CLONE_END = "syscall_exit_clone", "i64 _ret;";
}

/// Writes the trace; its metadata last, so that a trace that has them is whole.
pub(crate) fn write_trace(path: &Path, events: u64, cpus: u32, fork_every: u64) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    for cpu in 0..cpus {
        let mut of = SimulatedCpu::new(cpu, fork_every, File::create(path.join(format!("channel0_{cpu}")))?);
        let count = events / u64::from(cpus) + u64::from(u64::from(cpu) < events % u64::from(cpus));
        // A slice may be some events too long: those do not matter.
        while of.count < count {
            of.slice()?;
        }
        of.end_packet()?;
        of.out.flush()?;
    }
    let mut metadata = format!("/* CTF 1.8 */\n{TYPES}{HEAD}");
    for (id, (name, fields)) in CLASSES.iter().enumerate() {
        metadata +=
            &format!("event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} }}; }};\n");
    }
    fs::write(path.join("metadata"), metadata)
}

struct SimulatedThread {
    tid: i32,
    /// The system call that it waits in.
    waits_in: Option<Class>,
}

/// A CPU, its threads and its stream.
struct SimulatedCpu {
    number: u32,
    fork_every: u64,
    out: BufWriter<File>,
    packet: Vec<u8>,
    /// Time of the packet's first event, and of the last one.
    begin: u64,
    now: u64,
    count: u64,
    slices: u64,
    random: u64,
    threads: Vec<SimulatedThread>,
    /// The thread that runs.
    current: Option<usize>,
    /// A thread that has ended and is not freed.
    child: Option<i32>,
    last_tid: i32,
}

impl SimulatedCpu {
    fn new(number: u32, fork_every: u64, file: File) -> Self {
        let first = 1000 + number as i32 * 100;
        SimulatedCpu {
            number,
            fork_every,
            out: BufWriter::new(file),
            packet: vec![0; HEAD_BYTES],
            begin: 1_000_000,
            now: 1_000_000 + u64::from(number) * 37,
            count: 0,
            slices: 0,
            random: 0x9E37_79B9_7F4A_7C15 ^ u64::from(number + 1),
            threads: (first..first + THREADS).map(|tid| SimulatedThread { tid, waits_in: None }).collect(),
            current: None,
            child: None,
            last_tid: 10_000 + number as i32 * 5_000_000,
        }
    }

    /// A number below another one.
    fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % most
    }

    fn write_event(&mut self, class: Class, fields: &[&[u8]]) -> std::io::Result<()> {
        let size = 6 + fields.iter().map(|field| field.len()).sum::<usize>();
        if self.packet.len() + size > PACKET_BYTES {
            self.end_packet()?;
        }
        self.now += 300 + self.below(2500);
        if self.packet.len() == HEAD_BYTES {
            self.begin = self.now;
        }
        self.packet.extend((class as u16).to_le_bytes());
        self.packet.extend((self.now as u32).to_le_bytes());
        fields.iter().for_each(|field| self.packet.extend_from_slice(field));
        self.count += 1;
        Ok(())
    }

    fn end_packet(&mut self) -> std::io::Result<()> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend(0xc1fc_1fc1_u32.to_le_bytes());
        head.push(0);
        head.extend(self.begin.to_le_bytes());
        head.extend(self.now.to_le_bytes());
        head.extend((self.packet.len() as u32 * 8).to_le_bytes());
        head.extend((PACKET_BYTES as u32 * 8).to_le_bytes());
        head.extend(0u64.to_le_bytes());
        head.extend(self.number.to_le_bytes());
        self.packet[..HEAD_BYTES].copy_from_slice(&head);
        self.packet.resize(PACKET_BYTES, 0);
        self.out.write_all(&self.packet)?;
        self.packet.truncate(HEAD_BYTES);
        Ok(())
    }

    /// The events up to the switch of a CPU to another thread, and those of that thread.
    fn slice(&mut self) -> std::io::Result<()> {
        self.slices += 1;
        let next = match self.below(5) {
            0 => None,
            _ => Some(self.below(self.threads.len() as u64) as usize).filter(|next| Some(*next) != self.current),
        };
        if let Some(next) = next {
            self.wake(self.threads[next].tid)?;
        }
        self.switch(next)?;
        let Some(next) = next else { return Ok(()) };
        if let Some(class) = self.threads[next].waits_in.take() {
            self.end(class)?;
        }
        for _ in 0..=self.below(3) {
            let class = self.call()?;
            if self.below(6) == 0 {
                self.threads[next].waits_in = Some(class);
                return Ok(());
            }
            self.end(class)?;
        }
        if self.slices.is_multiple_of(self.fork_every) {
            self.fork(self.threads[next].tid)?;
        }
        Ok(())
    }

    fn wake(&mut self, tid: i32) -> std::io::Result<()> {
        let cpu = (self.number as i32).to_le_bytes();
        let waking: [&[u8]; 4] = [&comm(tid), &tid.to_le_bytes(), &20i32.to_le_bytes(), &cpu];
        match self.below(3) {
            0 => {
                let timer = (0xffff_8800_0000_0000 + self.below(64) * 256).to_le_bytes();
                self.write_event(Class::TIMER_ENTRY, &[&timer, &self.now.to_le_bytes(), &timer])?;
                self.write_event(Class::WAKING, &waking)?;
                self.write_event(Class::TIMER_EXIT, &[&timer])
            }
            1 => {
                let (irq, vec) = (27i32.to_le_bytes(), 3u32.to_le_bytes());
                self.write_event(Class::IRQ_ENTRY, &[&irq, b"eth0-rx-0\0"])?;
                self.write_event(Class::SOFT_RAISE, &[&vec])?;
                self.write_event(Class::IRQ_EXIT, &[&irq, &1i32.to_le_bytes()])?;
                self.write_event(Class::SOFT_ENTRY, &[&vec])?;
                self.write_event(Class::WAKING, &waking)?;
                self.write_event(Class::SOFT_EXIT, &[&vec])
            }
            _ => self.write_event(Class::WAKING, &waking),
        }
    }

    fn switch(&mut self, next: Option<usize>) -> std::io::Result<()> {
        let of = |at: Option<usize>| at.map_or(0, |at| self.threads[at].tid);
        let (prev_tid, next_tid) = (of(self.current), of(next));
        let state = match self.current {
            Some(at) if self.threads[at].waits_in.is_some() => 1i64,
            Some(_) => self.below(2) as i64,
            None => 0,
        };
        if prev_tid == next_tid {
            return Ok(());
        }
        let prio = 20i32.to_le_bytes();
        self.switch_to(prev_tid, state, next_tid, &prio)?;
        self.current = next;
        Ok(())
    }

    fn switch_to(&mut self, prev: i32, state: i64, next: i32, prio: &[u8]) -> std::io::Result<()> {
        let (prev_comm, next_comm) = (comm(prev), comm(next));
        let (prev, next) = (prev.to_le_bytes(), next.to_le_bytes());
        self.write_event(Class::SWITCH, &[&prev_comm, &prev, prio, &state.to_le_bytes(), &next_comm, &next, prio])
    }

    fn call(&mut self) -> std::io::Result<Class> {
        let fd = (3 + self.below(9) as u32).to_le_bytes();
        let count = (1 + self.below(4096)).to_le_bytes();
        let address = (0x7f00_0000_0000 + self.below(32) * 64).to_le_bytes();
        match self.below(12) {
            0..4 => self.write_event(Class::READ, &[&fd, &count]).map(|()| Class::READ_END),
            4..8 => self.write_event(Class::WRITE, &[&fd, &address, &count]).map(|()| Class::WRITE_END),
            8 => {
                let fields: [&[u8]; 4] = [&(-100i32).to_le_bytes(), b"/var/lib/mill/grist\0", &[0; 4], &[0; 2]];
                self.write_event(Class::OPEN, &fields).map(|()| Class::OPEN_END)
            }
            9 => self.write_event(Class::CLOSE, &[&fd]).map(|()| Class::CLOSE_END),
            _ => {
                let op = (self.below(2) as i32 | 128).to_le_bytes();
                self.write_event(Class::FUTEX, &[&address, &op, &[0; 4], &[0; 8], &[0; 8], &[0; 4]])
                    .map(|()| Class::FUTEX_END)
            }
        }
    }

    fn end(&mut self, class: Class) -> std::io::Result<()> {
        if self.below(4) == 0 {
            let page = self.below(1 << 20).to_le_bytes();
            if self.below(2) == 0 {
                self.write_event(Class::PAGE_ALLOC, &[&page, &page, &[0; 4], &[0; 4], &[0; 4]])?;
            } else {
                self.write_event(Class::PAGE_FREE, &[&page, &page, &[0; 4]])?;
            }
        }
        let ret = match self.below(16) {
            0 => -11,
            _ if matches!(class, Class::READ_END | Class::WRITE_END) => 1 + self.below(4096) as i64,
            _ if matches!(class, Class::OPEN_END) => 3 + self.below(9) as i64,
            _ => 0,
        };
        let ret = ret.to_le_bytes();
        match class {
            Class::READ_END => self.write_event(class, &[&ret, &[0; 8]]),
            Class::FUTEX_END => self.write_event(class, &[&ret, &[0; 8], &[0; 8]]),
            _ => self.write_event(class, &[&ret]),
        }
    }

    /// A thread makes another one, which runs and ends.
    fn fork(&mut self, parent: i32) -> std::io::Result<()> {
        if let Some(child) = self.child.take() {
            self.write_event(Class::FREE, &[&comm(child), &child.to_le_bytes(), &20i32.to_le_bytes()])?;
        }
        self.last_tid += 1;
        let (child, prio) = (self.last_tid, 20i32.to_le_bytes());
        let (tid, pid) = (child.to_le_bytes(), parent.to_le_bytes());
        self.write_event(Class::CLONE, &[&[0; 8], &[0; 8], &[0; 8], &[0; 8]])?;
        self.write_event(Class::FORK, &[&comm(parent), &pid, &pid, &comm(parent), &tid, &tid])?;
        self.write_event(Class::WAKEUP_NEW, &[&comm(parent), &tid, &prio, &(self.number as i32).to_le_bytes()])?;
        self.write_event(Class::CLONE_END, &[&i64::from(child).to_le_bytes()])?;
        self.switch_to(parent, 0, child, &prio)?;
        self.write_event(Class::CLONE_END, &[&[0; 8]])?;
        let class = self.call()?;
        self.end(class)?;
        self.write_event(Class::EXIT, &[&comm(child), &tid, &prio])?;
        self.switch_to(child, 64, parent, &prio)?;
        self.child = Some(child);
        Ok(())
    }
}

/// The name of a thread.
fn comm(tid: i32) -> [u8; 16] {
    let mut comm = [0; 16];
    let name = if tid == 0 { "swapper".to_string() } else { format!("miller-{}", tid % 100) };
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}
