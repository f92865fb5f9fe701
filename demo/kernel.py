#!/usr/bin/env python3
"""Makes the kernel trace of the demo: a machine of two CPUs on which one request of many is late.

    demo/kernel.py [OUT_DIR]      # demo/kernel/bakery when none is given; the same bytes each time

The trace has the shape of LTTng 2.10 (CTF 1.8, one channel, a stream per CPU), but no kernel recorded it: a small
simulation of a machine did. Its parts are tasks, interrupts, a disk, a network card and a lock; a story tells the tasks
what to do. What is true in the story can therefore be said exactly: the script prints it, demo/README.md repeats it.

The story. `counter` serves orders over the network: its main thread receives them, two ovens (threads) answer them.
Each answer is noted in the log, under a lock. A third thread, `oven-log`, takes the lock now and then to write the log
to the disk. Once the disk is slow while it holds the lock, and an order arrives. Its oven waits for the lock, thus for
the disk; and `grind`, a batch job that somebody gave a better priority, keeps the oven from its CPU, before and after.
"""
import collections
import heapq
import pathlib
import random
import struct
import sys

# 2026-11-21 08:31:10.25 UTC in ns, within the time of the recorded traces; the machine started 70 minutes before.
START_NS = 1_795_249_870_250_000_000
BOOT_NS = START_NS - 4_212_250_000_000
US, MS = 1_000, 1_000_000
END = 572 * MS

UUID = bytes.fromhex("3f6b8e0c51d24a7e9a0c7d5e21b4f6a8")
PACKET_SIZE = 16 * 1024

# The order that is late, and what makes it late.
LATE_ORDER = 23
SLOW_DISK = 31 * MS
# Chosen so that grind takes the CPU of the late order, and has it again when its oven could go on.
GRIND_EVERY = 37_500 * US
# Events of CPU 1 in this time find no room in the buffers.
LOSS = (550 * MS, 553 * MS)

DISK = 8 << 20
DISK_IRQ, NET_IRQ = 24, 27
TIMER, NET_RX, BLOCK, SCHED, RCU = 1, 3, 4, 7, 9
ENOENT, EAGAIN, ECHILD = -2, -11, -10
LOG_LOCK, ORDERS = 0x7F3A_5C00_12A0, 0x7F3A_5C00_1340

# How the fields of events are written: struct's letter, and the words of the metadata.
KINDS = {
    "u16": ("H", "integer { size = 16; align = 8; signed = 0; encoding = none; base = 10; }"),
    "u32": ("I", "integer { size = 32; align = 8; signed = 0; encoding = none; base = 10; }"),
    "u64": ("Q", "integer { size = 64; align = 8; signed = 0; encoding = none; base = 10; }"),
    "i32": ("i", "integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; }"),
    "i64": ("q", "integer { size = 64; align = 8; signed = 1; encoding = none; base = 10; }"),
    "x32": ("I", "integer { size = 32; align = 8; signed = 0; encoding = none; base = 16; }"),
    "x64": ("Q", "integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; }"),
    "comm": ("16s", "integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }"),
    "text": ("", "string"),
    "tids": ("", ""),
}

TASK = "comm:comm tid:i32 prio:i32"
RETURN = "ret:i64"
# Name and fields of each event class, in the order of their ids.
EVENTS = {
    "lttng_statedump_start": "",
    "lttng_statedump_end": "",
    "lttng_statedump_process_state": "tid:i32 vtid:i32 pid:i32 vpid:i32 ppid:i32 vppid:i32 name:comm type:i32 mode:i32 "
    "submode:i32 status:i32 ns_level:u32",
    "lttng_statedump_file_descriptor": "pid:i32 fd:i32 flags:x32 fmode:x32 filename:text",
    "lttng_statedump_block_device": "dev:u32 diskname:text",
    "lttng_statedump_interrupt": "irq:u32 name:text action:text",
    "lttng_statedump_network_interface": "name:text address_ipv4:text",
    "sched_switch": "prev_comm:comm prev_tid:i32 prev_prio:i32 prev_state:i64 next_comm:comm next_tid:i32 "
    "next_prio:i32",
    "sched_waking": f"{TASK} target_cpu:i32",
    "sched_wakeup": f"{TASK} target_cpu:i32",
    "sched_wakeup_new": f"{TASK} target_cpu:i32",
    "sched_migrate_task": f"{TASK} orig_cpu:i32 dest_cpu:i32",
    "sched_process_fork": "parent_comm:comm parent_tid:i32 parent_pid:i32 child_comm:comm child_tid:i32 vtids:tids "
    "child_pid:i32",
    "sched_process_exec": "filename:text tid:i32 old_tid:i32",
    "sched_process_exit": TASK,
    "sched_process_wait": TASK,
    "sched_process_free": TASK,
    "signal_generate": "sig:i32 errno:i32 code:i32 comm:comm pid:i32 group:i32 result:i32",
    "irq_handler_entry": "irq:i32 name:text",
    "irq_handler_exit": "irq:i32 ret:i32",
    "irq_softirq_raise": "vec:u32",
    "irq_softirq_entry": "vec:u32",
    "irq_softirq_exit": "vec:u32",
    "x86_irq_vectors_local_timer_entry": "vector:i32",
    "x86_irq_vectors_local_timer_exit": "vector:i32",
    "x86_irq_vectors_reschedule_entry": "vector:i32",
    "x86_irq_vectors_reschedule_exit": "vector:i32",
    "x86_exceptions_page_fault_user": "address:x64 ip:x64 error_code:x64",
    "timer_hrtimer_expire_entry": "hrtimer:x64 now:i64 function:x64",
    "timer_hrtimer_expire_exit": "hrtimer:x64",
    "block_rq_insert": "dev:u32 sector:u64 nr_sector:u32 bytes:u32 tid:i32 rwbs:u32 comm:comm",
    "block_rq_issue": "dev:u32 sector:u64 nr_sector:u32 bytes:u32 tid:i32 rwbs:u32 comm:comm",
    "block_rq_complete": "dev:u32 sector:u64 nr_sector:u32 error:i32 rwbs:u32",
    "kmem_mm_page_alloc": "page:x64 pfn:u64 order:u32 gfp_flags:x32 migratetype:i32",
    "kmem_mm_page_free": "page:x64 pfn:u64 order:u32",
    "net_if_receive_skb": "skbaddr:x64 len:u32 name:text",
    "net_dev_queue": "skbaddr:x64 len:u32 name:text",
    "net_dev_xmit": "skbaddr:x64 rc:i32 len:u32 name:text",
    "syscall_exit_ioctl": f"{RETURN} arg:u64",
    "syscall_entry_epoll_wait": "epfd:i32 maxevents:i32 timeout:i32",
    "syscall_exit_epoll_wait": RETURN,
    "syscall_entry_recvfrom": "fd:i32 size:u64 flags:u32",
    "syscall_exit_recvfrom": f"{RETURN} ubuf:x64",
    "syscall_entry_sendto": "fd:i32 buff:x64 len:u64 flags:u32",
    "syscall_exit_sendto": RETURN,
    "syscall_entry_futex": "uaddr:x64 op:i32 val:u32 utime:x64 uaddr2:x64 val3:u32",
    "syscall_exit_futex": f"{RETURN} uaddr:x64 uaddr2:x64",
    "syscall_entry_openat": "dfd:i32 filename:text flags:i32 mode:u16",
    "syscall_exit_openat": RETURN,
    "syscall_entry_newfstat": "fd:u32",
    "syscall_exit_newfstat": f"{RETURN} statbuf:x64",
    "syscall_entry_read": "fd:u32 count:u64",
    "syscall_exit_read": f"{RETURN} buf:x64",
    "syscall_entry_write": "fd:u32 buf:x64 count:u64",
    "syscall_exit_write": RETURN,
    "syscall_entry_fsync": "fd:u32",
    "syscall_exit_fsync": RETURN,
    "syscall_entry_close": "fd:u32",
    "syscall_exit_close": RETURN,
    "syscall_entry_clock_nanosleep": "which_clock:i32 flags:i32 rqtp:x64",
    "syscall_exit_clock_nanosleep": f"{RETURN} rmtp:x64",
    "syscall_entry_mmap": "addr:x64 len:u64 prot:i32 flags:i32 fd:i32 offset:u64",
    "syscall_exit_mmap": "ret:x64",
    "syscall_entry_munmap": "addr:x64 len:u64",
    "syscall_exit_munmap": RETURN,
    "syscall_entry_clone": "clone_flags:x64 newsp:x64 parent_tid:x64 child_tid:x64",
    "syscall_exit_clone": RETURN,
    "syscall_entry_execve": "filename:text",
    "syscall_exit_execve": RETURN,
    "syscall_entry_wait4": "upid:i32 options:i32",
    "syscall_exit_wait4": f"{RETURN} stat_addr:i32",
    "syscall_entry_exit_group": "error_code:i32",
}
IDS = {name: number for number, name in enumerate(EVENTS)}
FIELDS = {name: [field.split(":") for field in fields.split()] for name, fields in EVENTS.items()}

WAIT = object()


class Task:
    """A thread."""

    def __init__(self, tid, comm, pid=None, ppid=1, prio=120, cpu=0, is_kernel=False, pinned=False):
        self.tid, self.comm, self.pid, self.ppid, self.prio = tid, comm, pid or tid, ppid, prio
        self.cpu, self.is_kernel, self.pinned = cpu, is_kernel, pinned
        self.frame, self.is_waiting, self.wait_state = None, True, 1

    @property
    def words(self):
        return self.comm, self.tid, self.prio


class Frame:
    """Steps that a CPU takes: those of a task, of an interrupt or of soft interrupts. `left` is what the last one still
    takes, none for idle CPUs."""

    def __init__(self, steps, kind):
        self.steps, self.kind, self.left, self.until = steps, kind, None if steps is None else 0, 0


class Cpu:
    def __init__(self, number):
        self.number, self.idle = number, Task(0, f"swapper/{number}", prio=120, cpu=number)
        self.idle.frame = Frame(None, "task")
        self.task, self.stack, self.queue = self.idle, [self.idle.frame], []
        # Interrupts that came during one, raised soft interrupts, a better task that waits, the clock's next tick.
        self.held, self.raised, self.resched, self.has_tick = [], {}, False, False
        self.ticket = 0


class Machine:
    """Runs tasks on two CPUs, and writes down what a tracer would."""

    def __init__(self):
        self.now, self.order, self.plan = 0, 0, []
        self.cpus = [Cpu(0), Cpu(1)]
        self.events, self.lost = [[], []], 0
        self.chance = random.Random(23)
        self.is_disk_busy, self.requests, self.disk_times = False, collections.deque(), []
        self.pages = 0x12_0000

    # Time.

    def at(self, time, what, *words):
        self.order += 1
        heapq.heappush(self.plan, (time, self.order, what, words))

    def run(self, end):
        while self.plan and self.plan[0][0] <= end:
            self.now, _, what, words = heapq.heappop(self.plan)
            what(*words)

    def emit(self, cpu, name, *values):
        cpu = cpu if isinstance(cpu, int) else cpu.number
        if cpu == 1 and LOSS[0] <= self.now < LOSS[1]:
            self.lost += 1
        else:
            self.events[cpu].append((self.now, name, values))

    def about(self, ns):
        return ns + self.chance.randrange(ns // 3 + 1)

    # CPUs: the top frame runs; hard interrupts interrupt all but themselves, soft ones only tasks.

    def resume(self, cpu):
        top = cpu.stack[-1]
        cpu.ticket += 1
        if top.left is not None:
            top.until = self.now + top.left
            self.at(top.until, self.step, cpu, cpu.ticket)

    def step(self, cpu, ticket):
        if ticket != cpu.ticket:
            return
        top = cpu.stack[-1]
        try:
            spent = next(top.steps)
        except StopIteration:
            if top.kind == "task":
                return self.switch(cpu, 32)
            cpu.stack.pop()
        else:
            if spent is WAIT:
                cpu.task.is_waiting, top.left = True, 0
                return self.switch(cpu, cpu.task.wait_state)
            top.left = spent
        self.go_on(cpu)

    def go_on(self, cpu):
        top = cpu.stack[-1]
        if cpu.held and top.kind != "hard":
            self.push(cpu, cpu.held.pop(0), "hard")
        elif cpu.raised and top.kind == "task":
            self.push(cpu, self.soft_interrupts(cpu), "soft")
        elif cpu.resched and top.kind == "task":
            self.switch(cpu, 256)
        else:
            self.resume(cpu)

    def push(self, cpu, steps, kind):
        cpu.stack.append(Frame(steps, kind))
        self.resume(cpu)

    def interrupt(self, cpu, steps):
        top = cpu.stack[-1]
        if top.kind == "hard":
            cpu.held.append(steps)
        else:
            if top.left is not None:
                top.left = top.until - self.now
            self.push(cpu, steps, "hard")

    def switch(self, cpu, state):
        """The best task runs next; one that was preempted comes first among its equals."""
        last, cpu.resched = cpu.task, False
        if state == 256 and last is not cpu.idle:
            cpu.queue.insert(0, last)
        first = min(cpu.queue, key=lambda task: task.prio, default=cpu.idle)
        if first is not cpu.idle:
            cpu.queue.remove(first)
        if first is not last:
            shown = 0 if last is cpu.idle else state
            self.emit(cpu, "sched_switch", last.comm, last.tid, last.prio, shown, *first.words)
            if first.frame.left is not None:
                first.frame.left += self.about(900)
        first.cpu, cpu.task, cpu.stack = cpu.number, first, [first.frame]
        if first is not cpu.idle and not cpu.has_tick:
            cpu.has_tick = True
            self.at((self.now // (4 * MS) + 1) * 4 * MS + cpu.number * 1300 * US, self.tick, cpu)
        self.go_on(cpu)

    # Interrupts.

    def tick(self, cpu):
        cpu.has_tick = cpu.task is not cpu.idle
        if cpu.has_tick:
            timer = 0xFFFF_8880_3FC0_0000 + cpu.number * 0x10_0000
            self.interrupt(cpu, self.timer_interrupt(cpu, timer, self.ticked(cpu)))
            self.at(self.now + 4 * MS, self.tick, cpu)

    def ticked(self, cpu):
        yield self.about(700)
        self.raise_soft(cpu, TIMER)
        if self.now // (4 * MS) % 2 == 0:
            yield 250
            self.raise_soft(cpu, SCHED)

    def timer_interrupt(self, cpu, timer, work):
        self.emit(cpu, "x86_irq_vectors_local_timer_entry", 236)
        yield self.about(400)
        self.emit(cpu, "timer_hrtimer_expire_entry", timer, START_NS - BOOT_NS + self.now, 0xFFFF_FFFF_8110_2B40)
        yield 300
        yield from work
        yield self.about(300)
        self.emit(cpu, "timer_hrtimer_expire_exit", timer)
        yield self.about(400)
        self.emit(cpu, "x86_irq_vectors_local_timer_exit", 236)

    def reschedule_interrupt(self, cpu):
        self.emit(cpu, "x86_irq_vectors_reschedule_entry", 253)
        yield self.about(300)
        cpu.resched = True
        self.emit(cpu, "x86_irq_vectors_reschedule_exit", 253)
        yield 100

    def device_interrupt(self, cpu, irq, name, vector, work):
        self.emit(cpu, "irq_handler_entry", irq, name)
        yield self.about(2 * US)
        self.raise_soft(cpu, vector, work)
        yield self.about(600)
        self.emit(cpu, "irq_handler_exit", irq, 1)
        yield self.about(300)

    def raise_soft(self, cpu, vector, *work):
        self.emit(cpu, "irq_softirq_raise", vector)
        cpu.raised.setdefault(vector, []).extend(work)

    def soft_interrupts(self, cpu):
        while cpu.raised:
            vector = min(cpu.raised)
            self.emit(cpu, "irq_softirq_entry", vector)
            for work in cpu.raised.pop(vector):
                yield self.about(800)
                yield from work(cpu)
            yield self.about(900)
            self.emit(cpu, "irq_softirq_exit", vector)
            yield 200

    # Tasks.

    def wake(self, cpu, task, name="sched_wakeup"):
        """`cpu` wakes a task that waits; it goes to an idle CPU when its own is busy."""
        if not task.is_waiting:
            return
        task.is_waiting = False
        if name == "sched_wakeup":
            self.emit(cpu, "sched_waking", *task.words, task.cpu)
            yield self.about(200)
        own, other = self.cpus[task.cpu], self.cpus[1 - task.cpu]
        is_busy = own.task is not own.idle or own.queue
        if is_busy and other.task is other.idle and not other.queue and not task.pinned:
            self.emit(cpu, "sched_migrate_task", *task.words, task.cpu, other.number)
            task.cpu, own = other.number, other
            yield self.about(300)
        self.emit(cpu, name, *task.words, task.cpu)
        own.queue.append(task)
        if own.task is own.idle or task.prio < own.task.prio:
            if own is cpu:
                own.resched = True
            else:
                self.at(self.now + self.about(900), lambda: self.interrupt(own, self.reschedule_interrupt(own)))
        yield self.about(300)

    def start(self, task, steps):
        task.frame = Frame(steps, "task")

    def call(self, task, name, entry, exit_, body=None):
        """A system call; `exit_` is what it returns, and what else its exit shows. A body may return another result."""
        self.emit(task.cpu, f"syscall_entry_{name}", *entry)
        yield self.about(500)
        if body is not None:
            result = yield from body
            exit_ = exit_ if result is None else (result, *exit_[1:])
        self.emit(task.cpu, f"syscall_exit_{name}", *exit_)
        yield self.about(150)
        return exit_[0]

    def sleep(self, task, until):
        def body():
            yield self.about(400)
            if until > self.now:
                self.at(until, self.sleep_ends, task)
                yield WAIT
                yield self.about(300)

        return self.call(task, "clock_nanosleep", (1, 1, 0x7FFD_0000_0000 + task.tid * 64), (0, 0), body())

    def sleep_ends(self, task):
        cpu = self.cpus[task.cpu]
        timer = 0xFFFF_C900_0000_0000 + task.tid * 0x4000
        self.interrupt(cpu, self.timer_interrupt(cpu, timer, self.wake(cpu, task)))

    def page(self, task, order=0):
        self.pages += 1 << order
        address = 0xFFFF_EA00_0000_0000 + self.pages * 64
        self.emit(task.cpu, "kmem_mm_page_alloc", address, self.pages, order, 0x6200CA, 1)
        return self.pages, order

    def free_page(self, task, page):
        self.emit(task.cpu, "kmem_mm_page_free", 0xFFFF_EA00_0000_0000 + page[0] * 64, *page)

    # The disk: one request at a time.

    def submit(self, task, sector, sectors, is_write, takes, done):
        request = (sector, sectors, int(is_write), takes, done)
        self.emit(task.cpu, "block_rq_insert", *self.request_words(request, task))
        yield self.about(1200)
        self.requests.append(request)
        if not self.is_disk_busy:
            self.issue(task.cpu, task)
            yield self.about(1500)

    def request_words(self, request, task):
        sector, sectors, write = request[:3]
        return DISK, sector, sectors, sectors * 512, task.tid, write, task.comm

    def issue(self, cpu, task):
        request = self.requests.popleft()
        self.is_disk_busy = True
        self.emit(cpu, "block_rq_issue", *self.request_words(request, task))
        self.at(self.now + request[3], self.disk_interrupt, request, self.now)

    def disk_interrupt(self, request, issued):
        cpu = self.cpus[0]
        name, done = "ahci[0000:00:1f.2]", lambda cpu: self.complete(cpu, request, issued)
        self.interrupt(cpu, self.device_interrupt(cpu, DISK_IRQ, name, BLOCK, done))

    def complete(self, cpu, request, issued):
        sector, sectors, write, _, done = request
        self.emit(cpu, "block_rq_complete", DISK, sector, sectors, 0, write)
        self.disk_times.append(self.now - issued)
        self.is_disk_busy = False
        yield self.about(900)
        yield from self.wake(cpu, done)
        if self.requests:
            self.issue(cpu, cpu.task)
            yield self.about(700)


class Bakery(Machine):
    """The story: who is on the machine, and what they do."""

    def __init__(self):
        super().__init__()
        self.flusher = Task(57, "kworker/u4:1", ppid=2, is_kernel=True, cpu=1)
        self.journal = Task(212, "jbd2/sda1-8", ppid=2, is_kernel=True)
        self.sessiond = Task(388, "lttng-sessiond")
        self.clerk = Task(520, "clerk", cpu=0)
        self.main = Task(640, "counter")
        self.ovens = [Task(641, "oven-1", pid=640, cpu=1), Task(642, "oven-2", pid=640, cpu=1)]
        self.logger = Task(643, "oven-log", pid=640)
        self.grind = Task(700, "grind", prio=115, cpu=1, pinned=True)
        first = [Task(1, "systemd", ppid=0), Task(2, "kthreadd", ppid=0, is_kernel=True)]
        self.tasks = [*first, self.flusher, self.journal, self.sessiond, self.clerk, self.main, *self.ovens,
                      self.logger, self.grind]
        self.owner, self.lock_waiters, self.lock_waits = None, [], []
        self.arrived, self.inbox, self.idle_ovens = 0, [], []
        self.orders, self.times, self.notes, self.slow_since = collections.deque(), {}, 0, None
        self.is_flushing, self.children = None, 0

        cpu = self.cpus[0]
        self.sessiond.is_waiting, cpu.task = False, self.sessiond
        self.start(self.sessiond, self.dump())
        cpu.stack = [self.sessiond.frame]
        for task, steps in [(self.main, self.receive()), (self.logger, self.write_log()), (self.grind, self.burst()),
                            (self.clerk, self.fork()), (self.journal, self.commit()), (self.flusher, self.flush())]:
            self.start(task, steps)
        for oven in self.ovens:
            self.start(oven, self.bake(oven))
            self.idle_ovens.append(oven)
        # Threads that sleep when the trace begins, until when.
        ends = [(self.logger, 22 * MS), (self.grind, 9 * MS), (self.clerk, 61 * MS), (self.flusher, 97 * MS)]
        for task, time in ends:
            self.at(time, self.sleep_ends, task)
        self.at(6 * MS, self.arrive)
        self.resume(cpu)

    def dump(self):
        """The session daemon starts the trace; the tracer lists what is there."""
        task = self.sessiond
        yield 20 * US
        self.emit(task.cpu, "lttng_statedump_start")
        for other in self.tasks:
            yield self.about(900)
            mode, status = (5, 5) if other.is_kernel else (1, 6 if other is task else 5)
            self.emit(task.cpu, "lttng_statedump_process_state", other.tid, other.tid, other.pid, other.pid, other.ppid,
                      other.ppid, other.comm, int(other.is_kernel), mode, 0, status, 0)
        files = [(640, 3, "socket:[18211]"), (640, 4, "anon_inode:[eventpoll]"), (640, 5, "/var/log/bakery/orders.log"),
                 (700, 3, "/srv/grain/rye.csv"), (520, 1, "/dev/pts/0")]
        for pid, fd, name in files:
            yield self.about(700)
            self.emit(task.cpu, "lttng_statedump_file_descriptor", pid, fd, 0x8002, 0x1F, name)
        yield self.about(800)
        self.emit(task.cpu, "lttng_statedump_block_device", DISK, "sda")
        for irq, name, action in [(DISK_IRQ, "PCI-MSI", "ahci[0000:00:1f.2]"), (NET_IRQ, "PCI-MSI", "eth0")]:
            yield self.about(600)
            self.emit(task.cpu, "lttng_statedump_interrupt", irq, name, action)
        yield self.about(600)
        self.emit(task.cpu, "lttng_statedump_network_interface", "eth0", "192.0.2.17")
        yield self.about(600)
        self.emit(task.cpu, "lttng_statedump_end")
        yield 5 * US
        self.emit(task.cpu, "syscall_exit_ioctl", 0, 0)
        yield 60 * US
        yield from self.call(task, "epoll_wait", (7, 16, -1), (1,), self.block())

    def block(self):
        yield WAIT

    # Orders. The customer sends the next one a while after the answer.

    def arrive(self):
        if self.now < END - 4 * MS:
            cpu = self.cpus[0]
            self.arrived += 1
            self.times[self.arrived] = [self.now, None]
            self.interrupt(cpu, self.device_interrupt(cpu, NET_IRQ, "eth0", NET_RX, self.received))

    def received(self, cpu):
        self.emit(cpu, "net_if_receive_skb", 0xFFFF_8880_1A00_0000 + self.arrived * 256, 86, "eth0")
        self.inbox.append(self.arrived)
        yield self.about(1500)
        yield from self.wake(cpu, self.main)

    def receive(self):
        """The main thread, which waits in epoll_wait when the trace begins."""
        task = self.main
        self.emit(task.cpu, "syscall_exit_epoll_wait", 1)
        while True:
            while True:
                got = 54 if self.inbox else EAGAIN
                if (yield from self.call(task, "recvfrom", (3, 2048, 64), (got, 0x5591_0000_2000))) == EAGAIN:
                    break
                yield self.about(9 * US)
                self.orders.append(self.inbox.pop(0))
                if self.idle_ovens:
                    oven = self.idle_ovens.pop(0)
                    yield from self.futex_wake(task, ORDERS, oven)
            wait = None if self.inbox else self.block()
            yield from self.call(task, "epoll_wait", (4, 16, -1), (1,), wait)

    def futex_wake(self, task, address, other):
        def body():
            yield from self.wake(self.cpus[task.cpu], other)
            return 1

        return self.call(task, "futex", (address, 129, 1, 0, 0, 0), (1, address, 0), body())

    def bake(self, task):
        """An oven, which waits for orders when the trace begins."""
        self.emit(task.cpu, "syscall_exit_futex", 0, ORDERS, 0)
        while True:
            while self.orders:
                yield from self.answer(task, self.orders.popleft())

            def body():
                if self.orders:
                    return EAGAIN
                self.idle_ovens.append(task)
                yield WAIT

            yield from self.call(task, "futex", (ORDERS, 128, 0, 0, 0, 0), (0, ORDERS, 0), body())

    def answer(self, task, order):
        yield self.about(40 * US)
        recipe = ["rye", "spelt", "wheat", "oat"][order % 4]
        yield from self.call(task, "openat", (-100, f"/etc/bakery/today/{recipe}", 0, 0), (ENOENT,), self.work(2 * US))
        path = f"/usr/share/bakery/{recipe}"
        fd = yield from self.call(task, "openat", (-100, path, 0, 0), (6 + self.ovens.index(task),), self.work(3 * US))
        yield from self.call(task, "newfstat", (fd,), (0, 0x7FFE_1000_0000))
        got = 1312 + order % 7, 0x5591_0001_0000
        yield from self.call(task, "read", (fd, 4096), got, self.read_page(task, order))
        yield from self.call(task, "close", (fd,), (0,))
        yield self.about(260 * US)
        yield from self.lock(task)
        self.notes += 1
        yield self.about(330 * US)
        yield from self.unlock(task)
        yield self.about(15 * US)
        yield from self.call(task, "sendto", (3, 0x5591_0002_0000, 640, 64), (640,), self.send(task, order))

    def read_page(self, task, order):
        """The first orders for a recipe read it from the disk; then it is in the cache."""
        yield self.about(700)
        self.page(task)
        yield self.about(1500)
        if order <= 4:
            task.wait_state = 2
            yield from self.submit(task, 204_800 + order * 8, 8, False, self.about(420 * US), task)
            yield WAIT
            task.wait_state = 1
            yield self.about(1200)

    def send(self, task, order):
        skb = 0xFFFF_8880_1B00_0000 + order * 256
        yield self.about(1500)
        self.emit(task.cpu, "net_dev_queue", skb, 706, "eth0")
        yield self.about(900)
        self.emit(task.cpu, "net_dev_xmit", skb, 0, 706, "eth0")
        self.times[order][1] = self.now
        yield self.about(1200)
        self.at(self.now + self.about(9 * MS), self.arrive)

    def work(self, ns):
        yield self.about(ns)

    # The lock, as the C library has it: system calls only when somebody waits.

    def lock(self, task):
        yield 60
        while self.owner is not None:
            since = self.now

            def body():
                if self.owner is None:
                    return EAGAIN
                self.lock_waiters.append(task)
                yield WAIT
                yield 300

            yield from self.call(task, "futex", (LOG_LOCK, 128, 2, 0, 0, 0), (0, LOG_LOCK, 0), body())
            self.lock_waits.append((task.tid, self.now - since))
        self.owner = task

    def unlock(self, task):
        yield 60
        self.owner = None
        if self.lock_waiters:
            yield from self.futex_wake(task, LOG_LOCK, self.lock_waiters.pop(0))

    def write_log(self):
        """The logger, which sleeps when the trace begins."""
        task = self.logger
        self.emit(task.cpu, "syscall_exit_clock_nanosleep", 0, 0)
        turn = 0
        while True:
            yield self.about(20 * US)
            yield from self.lock(task)
            size = 0
            while self.notes:
                take = min(self.notes, 4)
                self.notes -= take
                size += take * 96
                yield self.about(8 * US)
                entry, exit_ = (5, 0x5591_0003_0000, take * 96), (take * 96,)
                yield from self.call(task, "write", entry, exit_, self.write_page(task))
            if size:
                yield from self.call(task, "fsync", (5,), (0,), self.sync(task))
            yield self.about(6 * US)
            yield from self.unlock(task)
            turn += 1
            yield from self.sleep(task, (22 + 40 * turn) * MS)
            if self.arrived >= LATE_ORDER - 1 and not self.slow_since:
                # The write that the late order meets begins right after the order came.
                while self.arrived < LATE_ORDER:
                    yield from self.sleep(task, self.now + 400 * US)

    def write_page(self, task):
        yield self.about(900)
        self.page(task)
        yield self.about(1800)

    def sync(self, task):
        task.wait_state = 2
        self.is_flushing = task
        yield self.about(1500)
        yield from self.wake(self.cpus[task.cpu], self.journal)
        yield WAIT
        task.wait_state = 1
        yield self.about(900)

    def commit(self):
        """The kernel thread that writes the journal of the file system."""
        task, sector = self.journal, 1_050_000
        while True:
            yield self.about(9 * US)
            is_slow = self.arrived == LATE_ORDER and not self.slow_since
            self.slow_since = self.slow_since or (self.now if is_slow else None)
            task.wait_state = 2
            yield from self.submit(task, sector, 16, True, SLOW_DISK if is_slow else self.about(380 * US), task)
            yield WAIT
            task.wait_state = 1
            sector += 16
            yield self.about(5 * US)
            yield from self.wake(self.cpus[task.cpu], self.is_flushing)
            yield self.about(2 * US)
            yield WAIT

    def flush(self):
        """The kernel thread that writes what was changed, two requests at a time."""
        task, sector = self.flusher, 4_194_304
        while True:
            for _ in range(2):
                yield self.about(7 * US)
                yield from self.submit(task, sector, 64, True, self.about(700 * US), task)
                sector += 64
            self.at(self.now + 110 * MS, self.sleep_ends, task)
            for _ in range(3):
                yield WAIT

    # The batch job.

    def burst(self):
        """Grinds for some milliseconds, sleeps, and so on."""
        task, turn = self.grind, 0
        self.emit(task.cpu, "syscall_exit_clock_nanosleep", 0, 0)
        while True:
            turn += 1
            pages = []
            for part in range(12):
                yield self.about(500 * US)
                if part % 3 == 0:
                    yield from self.call(task, "read", (3, 65536), (65536, 0x5600_0000_0000), self.work(9 * US))
                address = 0x5600_0000_0000 + part * 4096
                self.emit(task.cpu, "x86_exceptions_page_fault_user", address, 0x5555_0000_1180, 6)
                yield self.about(300)
                pages.append(self.page(task, part % 4))
            for page in pages:
                yield self.about(1 * US)
                self.free_page(task, page)
            yield from self.sleep(task, 9 * MS + GRIND_EVERY * turn)

    # The clerk runs a program now and then.

    def fork(self):
        task = self.clerk
        self.emit(task.cpu, "syscall_exit_clock_nanosleep", 0, 0)
        while True:
            yield self.about(90 * US)
            child = Task(9000 + self.children, "clerk", ppid=task.tid, cpu=1 - task.cpu)
            self.children += 1

            def clone():
                yield self.about(30 * US)
                for _ in range(3):
                    self.page(task)
                    yield self.about(600)
                self.emit(task.cpu, "sched_process_fork", *task.words[:2], task.pid, child.comm, child.tid, [child.tid],
                          child.pid)
                self.start(child, self.weigh(child))
                yield self.about(4 * US)
                yield from self.wake(self.cpus[task.cpu], child, "sched_wakeup_new")
                return child.tid

            yield from self.call(task, "clone", (0x0120_0011, 0, 0, 0x7F00_1000_09D0), (child.tid,), clone())

            def wait():
                self.emit(task.cpu, "sched_process_wait", *task.words)
                yield 300
                if child.frame.steps.gi_frame is not None:
                    yield WAIT
                yield self.about(2 * US)
                self.at(self.now + 3 * MS, self.forget, child)
                return child.tid

            yield from self.call(task, "wait4", (-1, 0), (child.tid, 0), wait())
            yield from self.call(task, "wait4", (-1, 1), (ECHILD, 0))
            yield from self.sleep(task, self.now + 148 * MS)

    def forget(self, child):
        """The last of a task goes when no CPU can look at it any more."""
        cpu = self.cpus[0]

        def free(cpu):
            self.emit(cpu, "sched_process_free", *child.words)
            yield self.about(800)

        def work():
            yield 300
            self.raise_soft(cpu, RCU, free)

        self.interrupt(cpu, self.timer_interrupt(cpu, 0xFFFF_8880_3FC0_0000, work()))

    def weigh(self, task):
        """A short life: it returns from clone, becomes another program, looks around, and ends."""
        yield self.about(6 * US)
        self.emit(task.cpu, "syscall_exit_clone", 0)
        yield self.about(25 * US)
        program = "/usr/bin/weigh"

        def execve():
            yield self.about(60 * US)
            self.page(task)
            yield self.about(5 * US)
            task.comm = "weigh"
            self.emit(task.cpu, "sched_process_exec", program, task.tid, task.tid)
            yield self.about(12 * US)

        yield from self.call(task, "execve", (program,), (0,), execve())
        pages = []
        for number in range(6):
            yield self.about(11 * US)
            self.emit(task.cpu, "x86_exceptions_page_fault_user", 0x7F10_0000_0000 + number * 4096, 0x7F10_0000_1090, 4)
            yield self.about(400)
            pages.append(self.page(task))
        yield from self.call(task, "openat", (-100, "/etc/ld.so.preload", 0x8_0000, 0), (ENOENT,), self.work(2 * US))
        fd = yield from self.call(task, "openat", (-100, "/dev/scale", 0, 0), (3,), self.work(4 * US))
        yield from self.call(task, "mmap", (0, 8192, 3, 34, -1, 0), (0x7F10_2000_0000,), self.work(1 * US))
        for _ in range(2):
            yield from self.call(task, "read", (fd, 16), (16, 0x7F10_2000_0000), self.work(3 * US))
            yield self.about(120 * US)
        yield from self.call(task, "close", (fd,), (0,))
        yield from self.call(task, "munmap", (0x7F10_2000_0000, 8192), (0,), self.work(1 * US))
        yield from self.call(task, "write", (1, 0x5580_0000_0000, 24), (24,), self.work(5 * US))
        self.emit(task.cpu, "syscall_entry_exit_group", 0)
        yield self.about(9 * US)
        for page in pages:
            self.free_page(task, page)
            yield self.about(500)
        self.emit(task.cpu, "sched_process_exit", *task.words)
        yield self.about(4 * US)
        self.emit(task.cpu, "signal_generate", 17, 0, 1, self.clerk.comm, self.clerk.tid, 1, 0)
        yield self.about(900)
        yield from self.wake(self.cpus[task.cpu], self.clerk)
        yield self.about(3 * US)


# The trace as LTTng writes it.


def metadata():
    uuid = UUID.hex()
    uuid = "-".join([uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]])
    parts = [f"""/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = le;
	packet.header := struct {{
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{
	hostname = "bakery";
	domain = "kernel";
	sysname = "Linux";
	kernel_release = "4.19.0";
	kernel_version = "simulated by demo/kernel.py";
	tracer_name = "lttng-modules";
	tracer_major = 2;
	tracer_minor = 10;
	tracer_patchlevel = 0;
}};

clock {{
	name = "monotonic";
	uuid = "7c1d2b3e-64f0-4f5a-8d11-0a9e5c2b7f43";
	description = "Monotonic Clock";
	freq = 1000000000; /* Frequency, in Hz */
	/* clock value offset from Epoch is: offset * (1/freq) */
	offset = {BOOT_NS};
}};

typealias integer {{
	size = 32; align = 8; signed = false;
	map = clock.monotonic.value;
}} := uint32_clock_monotonic_t;

typealias integer {{
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
}} := uint64_clock_monotonic_t;

struct packet_context {{
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
}};

struct event_header_large {{
	enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
	variant <id> {{
		struct {{
			uint32_clock_monotonic_t timestamp;
		}} compact;
		struct {{
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		}} extended;
	}} v;
}} align(8);

stream {{
	id = 0;
	event.header := struct event_header_large;
	packet.context := struct packet_context;
}};
"""]
    for name, fields in FIELDS.items():
        lines = []
        for field, kind in fields:
            word = KINDS[kind][1]
            if kind == "tids":
                lines.append(f"\t\tuint8_t __{field}_length;\n\t\t{KINDS['i32'][1]} _{field}[ __{field}_length ];\n")
            else:
                size = "[16]" if kind == "comm" else ""
                lines.append(f"\t\t{word} _{field}{size};\n")
        body = "".join(lines)
        parts.append(f"\nevent {{\n\tname = \"{name}\";\n\tid = {IDS[name]};\n\tstream_id = 0;\n"
                     f"\tfields := struct {{\n{body}\t}};\n}};\n")
    return "".join(parts)


def encode(time, name, values):
    data = struct.pack("<HI", IDS[name], time & 0xFFFF_FFFF)
    assert len(values) == len(FIELDS[name]), name
    for (_, kind), value in zip(FIELDS[name], values):
        if kind == "text":
            data += value.encode() + b"\0"
        elif kind == "tids":
            data += struct.pack(f"<B{len(value)}i", len(value), *value)
        else:
            data += struct.pack("<" + KINDS[kind][0], value.encode()[:15] if kind == "comm" else value)
    return data


def packets(cpu, events, lost):
    """The packets of a CPU. A buffer is full before a loss, so that a packet ends there."""
    header = struct.calcsize("<I16sIQ") + struct.calcsize("<QQQQQQI")
    out, content, begin, end, discarded = [], b"", None, None, 0

    def close():
        head = struct.pack("<I16sIQ", 0xC1FC1FC1, UUID, 0, cpu)
        bits = (header + len(content)) * 8
        head += struct.pack("<QQQQQQI", begin, end, bits, PACKET_SIZE * 8, len(out), discarded, cpu)
        out.append((head + content).ljust(PACKET_SIZE, b"\0"))

    last = 0
    for time, name, values in events:
        assert time >= last, (time, name)
        is_loss = last < LOSS[0] <= time and lost
        last, time = time, time + START_NS - BOOT_NS
        data = encode(time, name, values)
        if content and (is_loss or header + len(content) + len(data) > PACKET_SIZE):
            close()
            content, begin = b"", None
        if is_loss:
            discarded = lost
        begin = begin or time
        content, end = content + data, time
    close()
    return b"".join(out)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "kernel" / "bakery")
    folder.mkdir(parents=True, exist_ok=True)
    bakery = Bakery()
    bakery.run(END)
    (folder / "metadata").write_text(metadata())
    for cpu in (0, 1):
        (folder / f"channel0_{cpu}").write_bytes(packets(cpu, bakery.events[cpu], bakery.lost if cpu else 0))
    answers(bakery)


def answers(bakery):
    times = {order: end - begin for order, (begin, end) in bakery.times.items() if end}
    late = times.pop(LATE_ORDER)
    print(f"events: {len(bakery.events[0])} on CPU 0, {len(bakery.events[1])} on CPU 1, {bakery.lost} lost there")
    print(f"orders answered: {len(times) + 1}; order {LATE_ORDER} took {late} ns, the others {min(times.values())} to "
          f"{max(times.values())} ns")
    print(f"disk requests: {len(bakery.disk_times)}, the slowest took {max(bakery.disk_times)} ns")
    print("waits for the lock:", ", ".join(f"thread {tid} {time} ns" for tid, time in bakery.lock_waits))
    print(f"children: {bakery.children}")


if __name__ == "__main__":
    main()
