"""Random kernel traces: events of a small machine that sometimes contradicts itself, as CTF of LTTng."""

import random
import struct

# Event classes of LTTng 2.x: concept, and fields as (name, type, field of the concept).
CLASSES = {
    "sched_switch": ("switch", [("_prev_comm", "text", "prev_comm"), ("_prev_tid", "i32", "prev"), ("_prev_state", "i64", "state"),
                                ("_next_comm", "text", "next_comm"), ("_next_tid", "i32", "next"), ("_next_prio", "i32", "prio")]),
    **{f"sched_{name}": ("wake", [("_comm", "text", "comm"), ("_tid", "i32", "tid"), ("_prio", "i32", "prio"), ("_target_cpu", "i32", "cpu")])
       for name in ("waking", "wakeup", "wakeup_new")},
    "sched_migrate_task": ("migrate", [("_comm", "text", None), ("_tid", "i32", "tid"), ("_orig_cpu", "i32", "from"), ("_dest_cpu", "i32", "cpu")]),
    "sched_process_fork": ("fork", [("_parent_tid", "i32", "parent"), ("_parent_pid", "i32", "ppid"), ("_child_comm", "text", "comm"),
                                    ("_child_tid", "i32", "child"), ("_child_pid", "i32", "pid")]),
    "sched_process_exec": ("exec", [("_filename", "text", "name"), ("_tid", "i32", "tid")]),
    "sched_process_exit": ("exit", [("_tid", "i32", "tid")]),
    "sched_process_free": ("free", [("_tid", "i32", "tid")]),
    "sched_pi_setprio": ("prio", [("_tid", "i32", "tid"), ("_newprio", "i32", "prio")]),
    "irq_handler_entry": ("irq_entry", [("_irq", "i32", "nr"), ("_name", "text", "name")]),
    "irq_handler_exit": ("irq_exit", [("_irq", "i32", "nr"), ("_ret", "i32", None)]),
    "irq_softirq_raise": ("soft_raise", [("_vec", "u32", "nr")]),
    "irq_softirq_entry": ("soft_entry", [("_vec", "u32", "nr")]),
    "irq_softirq_exit": ("soft_exit", [("_vec", "u32", "nr")]),
    "timer_hrtimer_expire_entry": ("timer_entry", [("_hrtimer", "u64", None)]),
    "timer_hrtimer_expire_exit": ("timer_exit", [("_hrtimer", "u64", None)]),
    "x86_irq_vectors_reschedule_entry": ("ipi_entry", [("_vector", "i32", None)]),
    "x86_irq_vectors_reschedule_exit": ("ipi_exit", [("_vector", "i32", None)]),
    "lttng_statedump_process_state": ("dump_task", [("_tid", "i32", "tid"), ("_pid", "i32", "pid"), ("_ppid", "i32", "ppid"),
                                                    ("_name", "text", "comm"), ("_type", "i32", "type"), ("_mode", "i32", "mode"),
                                                    ("_status", "i32", "status")]),
    "lttng_statedump_file_descriptor": ("dump_file", [("_pid", "i32", "pid"), ("_fd", "i32", "fd"), ("_filename", "text", "name")]),
    "block_rq_insert": ("rq_insert", [("_dev", "u32", "dev"), ("_sector", "u64", "sector"), ("_nr_sector", "u32", "nr_sector"),
                                      ("_rwbs", "u32", "rwbs"), ("_tid", "i32", "tid"), ("_comm", "text", "comm")]),
    "block_rq_issue": ("rq_issue", [("_dev", "u32", "dev"), ("_sector", "u64", "sector"), ("_nr_sector", "u32", "nr_sector"),
                                    ("_rwbs", "u32", "rwbs"), ("_tid", "i32", "tid"), ("_comm", "text", "comm")]),
    "block_rq_complete": ("rq_complete", [("_dev", "u32", "dev"), ("_sector", "u64", "sector"), ("_nr_sector", "u32", "nr_sector"),
                                          ("_rwbs", "u32", "rwbs")]),
    "kmem_mm_page_alloc": ("page_alloc", [("_page", "u64", None), ("_order", "u32", "order")]),
    "kmem_mm_page_free": ("page_free", [("_page", "u64", None), ("_order", "u32", "order")]),
    "kmem_kmalloc": ("slab_alloc", [("_call_site", "u64", "site"), ("_ptr", "u64", "ptr"), ("_bytes_alloc", "u64", "bytes")]),
    "kmem_kfree": ("slab_free", [("_call_site", "u64", None), ("_ptr", "u64", "ptr")]),
    "net_if_receive_skb": ("net_in", [("_len", "u32", "len"), ("_name", "text", "dev")]),
    "net_dev_xmit": ("net_out", [("_len", "u32", "len"), ("_name", "text", "dev")]),
    "power_cpu_frequency": ("frequency", [("_state", "u32", "khz"), ("_cpu_id", "u32", "cpu")]),
    "writeback_start": (None, [("_n", "i32", None)]),
}
# System calls: their arguments, as (name, type, field of the concept).
CALLS = {
    "read": [("_fd", "i32", "fd")], "write": [("_fd", "i32", "fd")], "recvmmsg": [("_fd", "i32", "fd")],
    "openat": [("_filename", "text", "path")], "close": [("_fd", "i32", "fd")], "dup": [("_fildes", "i32", "fd")],
    "dup2": [("_oldfd", "i32", "fd"), ("_newfd", "i32", "new")], "socket": [("_family", "i32", None)], "fsync": [("_fd", "i32", "fd")],
    "futex": [("_uaddr", "u64", "uaddr"), ("_op", "i32", "op")], "mmap": [("_len", "u64", None)], "clone": [("_flags", "u64", None)],
    "sendfile64": [("_out_fd", "i32", None), ("_in_fd", "i32", "fd")], "exit_group": [("_error_code", "i32", None)],
    "clock_nanosleep": [("_flags", "i32", None)], "kill": [("_pid", "i32", None)],
}
for call, arguments in CALLS.items():
    CLASSES["syscall_entry_" + call] = ("sys_entry", arguments)
    if call != "exit_group":
        CLASSES["syscall_exit_" + call] = ("sys_exit", [("_ret", "i64", "ret")])
NAMES = list(CLASSES)
PACKED = {"i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q"}


class Event:
    def __init__(self, time, cpu, name, fields, context):
        self.time, self.cpu, self.name, self.fields, self.context = time, cpu, name, fields, context

    @property
    def concept(self):
        return CLASSES[self.name][0]

    def of_concept(self):
        """The fields as those of the concept."""
        of = {key: self.fields[name] for name, _, key in CLASSES[self.name][1] if key}
        if self.name.startswith(("syscall_entry_", "syscall_exit_")):
            of["name"] = self.name.split("_", 2)[2]
        if self.name == "sched_waking":
            of["from"] = of["cpu"]
        return of

    def __str__(self):
        fields = " ".join(f"{key.lstrip('_')}={value}" for key, value in self.fields.items())
        return f"{self.time} cpu{self.cpu} {self.name} {fields}" + ("" if self.context is None else f" (tid={self.context})")


class Loss:
    """Events were lost on a CPU behind one of its packets."""

    def __init__(self, time, cpu, count):
        self.time, self.cpu, self.count = time, cpu, count

    def __str__(self):
        return f"{self.time} cpu{self.cpu} {self.count} events lost"


class Kernel:
    """Makes events."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.cpus = rng.randint(1, 3)
        self.tids = rng.sample(range(1, 12), rng.randint(2, 8))
        self.nonsense = rng.choice([0, 0.02, 0.1, 0.4])
        self.losses = rng.choice([0, 0, 0.01, 0.05])
        self.has_context = rng.random() < 0.3
        self.same_times = rng.choice([0.02, 0.3])
        self.running = [0] * self.cpus
        self.pids = {tid: rng.choice(self.tids) for tid in self.tids}
        self.calls = {}
        self.stacks = [[] for _ in range(self.cpus)]
        self.addresses = [0x1000, 0x2000]
        # CPUs whose events are missing, most of the time none; then times are long enough for streams to begin late.
        self.missing = {cpu for cpu in range(self.cpus) if rng.random() < 0.3} if rng.random() < 0.4 else set()
        self.scale = 1_000_000 if rng.random() < 0.4 else 1
        self.counted = rng.choice([None, self.cpus, self.cpus + 1])
        self.now = 1000 * self.scale
        only = rng.random() < 0.3
        self.kinds = [(make, weight) for make, weight in self.weights() if not only or weight >= 3]

    def weights(self):
        return [(self.switch, 10), (self.wake, 7), (self.call, 10), (self.ret, 10), (self.irq, 5), (self.softirq, 5), (self.timer, 2),
                (self.fork, 1), (self.end, 2), (self.request, 2), (self.page, 2), (self.slab, 1), (self.packet, 1), (self.dump, 1), (self.other, 1)]

    def events(self, count):
        for _ in range(count):
            if self.rng.random() >= self.same_times:
                self.now += self.rng.choice([1, 2, 5, 10, 30]) * self.scale
            cpu = self.rng.randrange(self.cpus)
            if cpu in self.missing:
                list(self.rng.choices(*zip(*self.kinds))[0](cpu))
                continue
            if self.rng.random() < self.losses:
                yield Loss(self.now, cpu, self.rng.randint(1, 9))
                continue
            cur = self.running[cpu]
            make = self.rng.choices(*zip(*self.kinds))[0]
            for name, values in make(cpu):
                fields = {field: value for (field, _, _), value in zip(CLASSES[name][1], values)}
                context = cur
                if self.has_context and self.rng.random() < self.nonsense / 4:
                    context = self.rng.choice(self.tids)
                yield Event(self.now, cpu, name, fields, context if self.has_context else None)

    def tid(self):
        return self.rng.choice(self.tids)

    def is_odd(self):
        return self.rng.random() < self.nonsense

    def comm(self, tid):
        return f"new{tid}" if self.rng.random() < 0.1 else f"t{tid}"

    def switch(self, cpu):
        prev = self.tid() if self.is_odd() else self.running[cpu]
        following = self.rng.choice([0, *self.tids])
        if following in self.running and not self.is_odd():
            following = 0
        self.running[cpu] = following
        self.stacks[cpu] = []
        state = self.rng.choice([0, 0, 1, 1, 1, 2, 4, 16, 32, 64, 128, 256, 1024] if self.is_odd() else [0, 1, 1, 2])
        yield "sched_switch", (self.comm(prev), prev, state, self.comm(following), following, self.rng.choice([20, 120]))

    def wake(self, cpu):
        tid = self.tid()
        target = self.rng.randrange(self.cpus)
        if self.rng.random() < 0.15:
            yield "sched_migrate_task", (self.comm(tid), tid, self.rng.randrange(self.cpus), target)
        else:
            name = self.rng.choice(["sched_waking", "sched_wakeup", "sched_wakeup_new"])
            yield name, (self.comm(tid), tid, self.rng.choice([20, 120]), target)

    def call(self, cpu):
        name = self.rng.choice(list(CALLS))
        if name == "exit_group" and not self.is_odd():
            name = "futex"
        self.calls[self.running[cpu]] = name
        fd = self.rng.randrange(3, 7)
        values = {
            "openat": (self.rng.choice(["/a", "/b", "/c"]),), "dup2": (fd, self.rng.randrange(3, 7)), "sendfile64": (fd, self.rng.randrange(3, 7)),
            "futex": (self.rng.choice(self.addresses), self.rng.choice([0, 128, 9 | 128 | 256, 1, 129, 6, 7, 5, 2, 13])),
        }
        yield "syscall_entry_" + name, values.get(name, (fd,))

    def ret(self, cpu):
        name = self.calls.pop(self.running[cpu], None)
        if name is None or name == "exit_group" or self.is_odd():
            name = "read"
            if not self.is_odd():
                return
        large = [5, 6, 0, -2, -11, -4095, -4096, -110, 4] if name != "mmap" else [-(1 << 40), -12, 1 << 40]
        yield "syscall_exit_" + name, (self.rng.choice(large),)

    def irq(self, cpu):
        stack, number = self.stacks[cpu], self.rng.choice([1, 9])
        if stack and stack[-1][0] == "irq" and self.rng.random() < 0.7 or self.is_odd():
            number = stack.pop()[1] if stack and stack[-1][0] == "irq" else number
            yield "irq_handler_exit", (number, 1)
        else:
            stack.append(("irq", number))
            yield "irq_handler_entry", (number, self.rng.choice([f"dev{number}", "other"]) if self.is_odd() else f"dev{number}")

    def softirq(self, cpu):
        stack, number = self.stacks[cpu], self.rng.choice([1, 3, 4, 7, 12])
        if self.rng.random() < 0.3:
            yield "irq_softirq_raise", (number,)
        elif stack and stack[-1][0] == "soft" and self.rng.random() < 0.7 or self.is_odd():
            number = stack.pop()[1] if stack and stack[-1][0] == "soft" else number
            yield "irq_softirq_exit", (number,)
        else:
            stack.append(("soft", number))
            yield "irq_softirq_entry", (number,)

    def timer(self, cpu):
        name = self.rng.choice(["timer_hrtimer_expire_entry", "timer_hrtimer_expire_exit", "x86_irq_vectors_reschedule_entry",
                                "x86_irq_vectors_reschedule_exit"])
        yield name, (1,)

    def fork(self, cpu):
        parent, child = self.running[cpu], self.tid()
        if self.is_odd():
            parent = self.rng.choice([0, 2, *self.tids])
        ppid = self.pids.get(parent, parent)
        self.pids[child] = pid = self.rng.choice([child, ppid])
        yield "sched_process_fork", (parent, ppid, self.comm(child), child, pid)

    def end(self, cpu):
        tid = self.tid() if self.is_odd() else self.running[cpu]
        choice = self.rng.randrange(4)
        if choice == 0:
            yield "sched_process_exec", ("/usr/bin/" + self.rng.choice(["ls", "a-name-that-is-too-long"]), tid)
        elif choice == 1:
            yield "sched_process_exit", (tid,)
        elif choice == 2:
            yield "sched_process_free", (self.tid(),)
        else:
            yield "sched_pi_setprio", (tid, self.rng.choice([5, 6]))

    def request(self, cpu):
        name = self.rng.choice(["block_rq_insert", "block_rq_issue", "block_rq_issue", "block_rq_complete", "block_rq_complete"])
        # A request that completes as another kind than it was issued as is none of the contradictions of real traces.
        sector = self.rng.choice([64, 128])
        values = (self.rng.choice([8388608, 8388624]), sector, self.rng.choice([8, 8, 8, 0]), sector // 128)
        yield name, values if name == "block_rq_complete" else (*values, self.running[cpu], self.comm(self.running[cpu]))

    def page(self, cpu):
        yield self.rng.choice(["kmem_mm_page_alloc", "kmem_mm_page_free"]), (1, self.rng.choice([0, 0, 1, 3]))

    def slab(self, cpu):
        pointer, site = self.rng.choice([0x100, 0x200]), self.rng.choice([7, 8])
        if self.rng.random() < 0.5:
            yield "kmem_kmalloc", (site, pointer, self.rng.choice([32, 64]))
        else:
            yield "kmem_kfree", (site, pointer)

    def packet(self, cpu):
        yield self.rng.choice(["net_if_receive_skb", "net_dev_xmit"]), (self.rng.choice([60, 1500]), self.rng.choice(["eth0", "lo"]))

    def dump(self, cpu):
        tid = self.tid()
        if self.rng.random() < 0.4:
            yield "lttng_statedump_file_descriptor", (self.pids[tid], self.rng.randrange(3, 7), self.rng.choice(["/x", "/y"]))
        else:
            choose = self.rng.choice
            yield "lttng_statedump_process_state", (tid, self.pids[tid], choose(self.tids), self.comm(tid), choose([0, 0, 0, 1]),
                                                    choose([-1, 0, 1, 2]), choose([1, 2, 3, 4, 5, 5, 5, 6, 7, 0]))

    def other(self, cpu):
        if self.rng.random() < 0.5:
            yield "power_cpu_frequency", (self.rng.choice([1000, 2000]), self.rng.randrange(self.cpus))
        else:
            yield "writeback_start", (1,)


def metadata(has_context, counted):
    text = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := stamp;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
env { hostname = "random"; domain = "kernel"; tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 12; };
COUNTED
clock { name = monotonic; freq = 1000000000; offset = 0; };
stream { id = 0; event.header := struct { u32 id; stamp timestamp; };
"""
    text = text.replace("COUNTED", "" if counted is None else f"env {{ nr_cpus = {counted}; }};")
    if has_context:
        text += "event.context := struct { i32 _tid; };\n"
    text += ("packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; u64 packet_size;"
             " u64 packet_seq_num; u64 events_discarded; u32 cpu_id; };\n};\n")
    for number, name in enumerate(NAMES):
        fields = " ".join(f"{'string' if of == 'text' else of} {field};" for field, of, _ in CLASSES[name][1])
        text += f"event {{ name = \"{name}\"; id = {number}; stream_id = 0; fields := struct {{ {fields} }}; }};\n"
    return text


def encoded(event):
    data = struct.pack("<IQ", NAMES.index(event.name), event.time)
    if event.context is not None:
        data += struct.pack("<i", event.context)
    for field, of, _ in CLASSES[event.name][1]:
        value = event.fields[field]
        data += value.encode() + b"\0" if of == "text" else struct.pack(PACKED[of], value)
    return data


def write(folder, items, has_context, counted, cut):
    """Writes events and losses as a trace; `cut(cpu)` tells before an event whether a packet ends there. Gives the times that the
    stream of each CPU covers: a last packet that ends where it begins does not state its end."""
    covered = {}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(metadata(has_context, counted))
    for cpu in sorted({item.cpu for item in items if isinstance(item, Event)}):
        packets, present, lost, begin, last = [], [], 0, None, None
        for item in (item for item in items if item.cpu == cpu):
            if isinstance(item, Loss) or present and cut(cpu):
                if present:
                    packets.append((begin, last, present, lost))
                    present, begin = [], None
                lost += item.count if isinstance(item, Loss) else 0
            if isinstance(item, Event):
                begin = item.time if begin is None else begin
                present.append(item)
                last = item.time
        if present:
            packets.append((begin, last, present, lost))
        covered[cpu] = (packets[0][0], packets[-1][1] if packets[-1][0] < packets[-1][1] else None)
        data = b""
        for number, (begin, last, events, lost) in enumerate(packets):
            body = b"".join(map(encoded, events))
            size = 8 * (8 + 52 + len(body))
            data += struct.pack("<II", 0xC1FC1FC1, 0) + struct.pack("<QQQQQQI", begin, last, size, size, number, lost, cpu) + body
        (folder / f"channel0_{cpu}").write_bytes(data)
    return covered
