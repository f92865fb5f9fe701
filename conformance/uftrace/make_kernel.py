#!/usr/bin/env python3
"""Makes a data folder of uftrace with kernel data of the function graph tracer, for machines whose kernel has none.

    make_kernel.py OUT_DIR [--cpus N] [--tasks N] [--calls N] [--first-tid N] [--events] [--move] [--torn] [--loss]
                   [--sched] [--fork] [--big-endian] [--32-bit] [--recorder VERSION]

User functions call the kernel; each task stays on its processor, unless --move lets it go to others of its own between and
inside of calls. With more tasks than processors they share them. With --torn some records are not there: calls of the kernel that nobody left or entered. With --loss one page says
that events were lost before it, with --events there are tracepoints too, some of tasks that are not traced. With --sched
tasks give their processors away and get them back, and with --fork all tasks but the first one are forked by it. The same
numbers make the same folder.
"""
import argparse
import os
import random
import struct

BASE = 0x400000
USER = {"main": 0x1000, "work": 0x1100, "read": 0x1200, "fork": 0x1300}
NAMES = ["do_syscall_64", "__x64_sys_read", "ksys_read", "vfs_read", "rw_verify_area", "schedule", "asm_exc_page_fault"]
PAGE = 4096


class Machine:
    """Byte order, and the size of a `long`."""

    def __init__(self, order, long):
        self.order, self.long = order, long
        self.kernel_base = 0xFFFFFFFF81000000 if long == 8 else 0xC1000000
        self.kernel = {name: self.kernel_base + 0x1000 * at for at, name in enumerate(NAMES)}

    def pack(self, layout, *values):
        """`struct.pack`, where `L` is a `long`."""
        return struct.pack(self.order + layout.replace("L", "Q" if self.long == 8 else "I"), *values)

    def event_header(self, kind, delta):
        """Kind and time of a record: bits count from the other end in big endian."""
        return self.pack("I", kind | delta << 5 if self.order == "<" else kind << 27 | delta)


COMMON = [("unsigned short common_type", 2, 0), ("unsigned char common_flags", 1, 0),
          ("unsigned char common_preempt_count", 1, 0), ("int common_pid", 4, 1)]


def fields(declarations, offset=0):
    """The lines of fields that follow one another."""
    text = ""
    for declaration, size, signed in declarations:
        text += f"\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        offset += size
    return text


def event_format(name, number, own, line):
    return f"name: {name}\nID: {number}\nformat:\n{fields(COMMON)}\n{fields(own, 8)}\nprint fmt: {line}\n"


def header(machine):
    long = machine.long
    function = ("unsigned long func", long, 0)
    page = (f"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n"
            f"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{8 + long};\tsize:{PAGE - 8 - long};\tsigned:1;\n")
    files = [
        ("events/header_page", page),
        ("events/ftrace/funcgraph_entry/format",
         event_format("funcgraph_entry", 11, [function, ("int depth", 4, 1)],
                      '"--> %ps (%d)", (void *)REC->func, REC->depth')),
        ("events/ftrace/funcgraph_exit/format",
         event_format("funcgraph_exit", 10, [
             function, ("int depth", 4, 1), ("unsigned int overrun", 4, 0),
             ("unsigned long long calltime", 8, 0), ("unsigned long long rettime", 8, 0)],
             '"<-- %ps (%d)", (void *)REC->func, REC->depth')),
        ("events/tm/tm_read/format",
         event_format("tm_read", 400, [
             ("char comm[8]", 8, 1), ("int fd", 4, 1), ("unsigned int flags", 4, 0), ("__data_loc char[] path", 4, 1)],
             '"%s fd=%d flags=%s path=%s", REC->comm, REC->fd, '
             '__print_flags(REC->flags, "|", { 0x1, "RD" }, { 0x2, "WR" }), __get_str(path)')),
        ("events/tm/tm_switch/format",
         event_format("tm_switch", 401, [("int prev_pid", 4, 1), ("int next_pid", 4, 1)],
                      '"%d ==> %d", REC->prev_pid, REC->next_pid')),
    ]
    out = f"PAGE_SIZE: {PAGE}\nLONG_SIZE: {long}\nENDIAN: {'LE' if machine.order == '<' else 'BE'}\n"
    for name, text in files:
        out += f"TRACEFS: {name}: {len(text)}\n{text}"
    return out


class Cpu:
    """The pages of a processor."""

    def __init__(self, machine):
        self.machine = machine
        self.pages, self.records, self.time, self.start = [], b"", 0, 0
        self.last, self.losable = b"", []

    def add(self, time, data):
        data += b"\0" * (-len(data) % 4)
        if self.records and len(self.records) + len(data) + 16 > PAGE - 16:
            self.flush()
        if not self.records:
            self.start = self.time = time
            # Reading ahead the peer tells of what was lost too early, unless a call ended before it.
            if self.last.startswith(self.machine.pack("H", 10)):
                self.losable.append(len(self.pages))
        delta = time - self.time
        if delta >= 1 << 27:
            self.records += self.machine.event_header(30, delta & 0x7FFFFFF) + self.machine.pack("I", delta >> 27)
            delta = 0
        self.records += self.machine.event_header(len(data) // 4, delta) + data
        self.time, self.last = time, data

    def flush(self):
        if self.records:
            self.pages.append((self.start, self.records))
            self.records = b""

    def bytes(self, lost_page):
        """The pages; before that of this number events were lost."""
        self.flush()
        out = b""
        for at, (start, records) in enumerate(self.pages):
            commit, count = len(records), b""
            if at == lost_page and 8 + 2 * self.machine.long + commit <= PAGE:
                commit, count = commit | 3 << 30, self.machine.pack("L", 12)
            out += (self.machine.pack("QL", start, commit) + records + count).ljust(PAGE, b"\0")
        return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--first-tid", type=int, default=1000)
    parser.add_argument("--loss", action="store_true")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--move", action="store_true")
    parser.add_argument("--torn", action="store_true")
    parser.add_argument("--sched", action="store_true")
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--big-endian", action="store_true")
    parser.add_argument("--32-bit", dest="is_32_bit", action="store_true")
    parser.add_argument("--recorder", default="v0.13", help="the version of uftrace that the data says it is from")
    args = parser.parse_args()
    os.makedirs(args.out)
    machine = Machine(">" if args.big_endian else "<", 4 if args.is_32_bit else 8)
    # Random numbers of --move and --torn do not change those of the others.
    draw, oddities = random.Random(7), random.Random(11)
    cpus = [Cpu(machine) for _ in range(args.cpus)]
    tids = [args.first_tid + at for at in range(args.tasks)]
    records = {tid: b"" for tid in tids}
    rows, switches = [], []

    def user(tid, time, kind, depth, name):
        word = kind | 5 << 3 | depth << 6 | (BASE + USER[name] + 4) << 16
        records[tid] += machine.pack("QQ", time, word)

    for at, tid in enumerate(tids):
        time = 5_000_000_000 + at * 137
        cpu = at % args.cpus

        def common(number, of=None):
            return machine.pack("HBBi", number, 0, 0, tid if of is None else of)

        def kernel(kind, depth, name):
            nonlocal cpu
            if args.move and oddities.random() < 0.05:
                cpu = oddities.choice(range(at % args.cpus, args.cpus, args.tasks))
            if args.torn and oddities.random() < 0.05:
                return
            data = common(11 if kind == 0 else 10) + machine.pack("Li", machine.kernel[name], depth)
            if kind:
                data += machine.pack("IQQ", 0, 0, 0)
            rows.append((cpu, time, data))

        def step():
            nonlocal time
            time += draw.randrange(50, 3000)

        def switch(time, is_out):
            """The system tells that a task gave its processor away, sometimes because it must, or got it back."""
            kind = (0x2000 | 0x4000 * oddities.randrange(2)) if is_out else 0
            switches.append((cpu, time, machine.pack("IHHIIQ", 14, kind, 24, tids[0], tid, time)))

        kernel(1, 1, "vfs_read")
        step()
        is_child = args.fork and at > 0
        if is_child:
            time += 5000
            kernel(1, 2, "do_syscall_64")
            step()
            user(tid, time, 1, 1, "fork")
        else:
            user(tid, time, 0, 0, "main")
        step()
        if args.fork and at == 0:
            for name in ("fork", "do_syscall_64"):
                user(tid, time, 0, 1, name) if name == "fork" else kernel(0, 0, name)
                step()
            kernel(1, 0, "do_syscall_64")
            step()
            user(tid, time, 1, 1, "fork")
            step()
        for call in range(args.calls):
            depth = 1
            user(tid, time, 0, depth, "work")
            step()
            user(tid, time, 0, depth + 1, "read")
            step()
            names = NAMES[:draw.randrange(1, 6)]
            for level, name in enumerate(names):
                kernel(0, level, name)
                step()
            if args.sched and call % 4 == 2:
                level = len(names)
                kernel(0, level, "schedule")
                step()
                switch(time, True)
                if at % 2 == 0 or call % 8 == 2:
                    step()
                    switch(time, False)
                    step()
                    kernel(1, level, "schedule")
                else:
                    # The kernel is seen at work again before.
                    step()
                    kernel(1, level, "schedule")
                    switch(time + 30, False)
                step()
            if args.events and call % 3 == 0:
                data = common(400) + machine.pack("8siII", b"prog", call - 2, call % 4, 28 | 5 << 16)
                rows.append((cpu, time, data + b"/tmp\0"))
                step()
            if args.events and call % 7 == 3:
                rows.append((cpu, time, common(401) + machine.pack("ii", tid, 77)))
                data = machine.pack("8siII", b"other", 1, 1, 28 | 5 << 16) + b"/etc\0"
                rows.append((cpu, time + 20, common(400, 77) + data))
                rows.append((cpu, time + 40, common(401, 77) + machine.pack("ii", 77, tid)))
                step()
            for level, name in reversed(list(enumerate(names))):
                kernel(1, level, name)
                step()
            user(tid, time, 1, depth + 1, "read")
            step()
            if call % 4 == 1:
                kernel(0, 0, "asm_exc_page_fault")
                step()
                kernel(1, 0, "asm_exc_page_fault")
                step()
            user(tid, time, 1, depth, "work")
            step()
        user(tid, time, 1, 0, "main")
        step()
        kernel(0, 0, "do_syscall_64")
    for cpu, time, data in sorted(rows, key=lambda row: row[1]):
        cpus[cpu].add(time, data)

    def write(name, content):
        with open(os.path.join(args.out, name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    features, groups = 0x3E7, 0x2889
    byte_order, word = 2 if args.big_endian else 1, 1 if args.is_32_bit else 2
    info = machine.pack("8sIHBBQQHxxxxxx", b"Ftrace!\0", 4, 40, byte_order, word, features, groups, 1024)
    info += b"exename:/srv/prog\ncmdline:uftrace record -k ./prog\n"
    info += f"taskinfo:lines=2\ntaskinfo:nr_tid={len(tids)}\ntaskinfo:tids={','.join(map(str, tids))}\n".encode()
    info += b"record_date:Sat Nov 21 12:00:00 2026\nelapsed_time:0.100000000 sec\n"
    info += f"uftrace_version:{args.recorder}\n".encode()
    write("info", info)
    lines = f'SESS timestamp=4.000000000 pid={tids[0]} sid=0123456789abcdef exename="/srv/prog"\n'
    for tid in tids:
        if args.fork and tid != tids[0]:
            lines += f"FORK timestamp=5.000005000 pid={tid} ppid={tids[0]}\n"
        else:
            lines += f"TASK timestamp=4.000000001 tid={tid} pid={tids[0]}\n"
    write("task.txt", lines)
    stack = "bf800000-bf821000" if args.is_32_bit else "7ffc00000000-7ffc00021000"
    write("sid-0123456789abcdef.map", "00400000-00410000 r-xp 00000000 00:00 0                          /srv/prog\n"
          f"{stack} rw-p 00000000 00:00 0                          [stack]\n")
    symbols = "".join(f"{address:016x} T {name}\n" for name, address in USER.items())
    write("prog.sym", f"# symbols: {len(USER)}\n# path name: /srv/prog\n{symbols}0000000000001400 ? __sym_end\n")
    write("kallsyms", "".join(f"{address:x} T {name}\n" for name, address in machine.kernel.items())
          + f"{machine.kernel_base + 0x10000:x} T _etext\n")
    write("kernel_header", header(machine))
    write("default.opts", "")
    for tid in tids:
        write(f"{tid}.dat", records[tid])
    for at, cpu in enumerate(cpus):
        losable = [page for page in cpu.losable if page >= len(cpu.pages) // 2]
        lost_page = losable[0] if args.loss and at == 0 and losable else None
        write(f"kernel-cpu{at}.dat", cpu.bytes(lost_page))
        if args.sched:
            own = sorted((time, data) for of, time, data in switches if of == at)
            write(f"perf-cpu{at}.dat", b"".join(data for _, data in own))


main()
