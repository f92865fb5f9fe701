#!/usr/bin/env python3
"""Makes a data folder of uftrace with kernel data of the function graph tracer, for machines whose kernel has none.

    make_kernel.py OUT_DIR [--cpus N] [--tasks N] [--calls N] [--first-tid N] [--loss] [--events]

User functions call the kernel; each task stays on its processor. With --loss one page says that events were lost before
it, with --events there are tracepoints too. The same numbers make the same folder.
"""
import argparse
import os
import random
import struct

BASE = 0x400000
USER = {"main": 0x1000, "work": 0x1100, "read": 0x1200}
KERNEL_BASE = 0xFFFFFFFF81000000
KERNEL = {name: KERNEL_BASE + 0x1000 * at for at, name in enumerate(
    ["do_syscall_64", "__x64_sys_read", "ksys_read", "vfs_read", "rw_verify_area", "schedule", "asm_exc_page_fault"])}
PAGE = 4096
COMMON = [("unsigned short common_type", 0, 2, 0), ("unsigned char common_flags", 2, 1, 0),
          ("unsigned char common_preempt_count", 3, 1, 0), ("int common_pid", 4, 4, 1)]
HEADER_PAGE = ("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
               "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
               "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
               "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n")


def event_format(name, number, fields, line):
    text = f"name: {name}\nID: {number}\nformat:\n"
    for group in (COMMON, fields):
        for declaration, offset, size, signed in group:
            text += f"\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        text += "\n"
    return text + f"print fmt: {line}\n"


def header():
    long = ("unsigned long func", 8, 8, 0)
    files = [
        ("events/header_page", HEADER_PAGE),
        ("events/ftrace/funcgraph_entry/format",
         event_format("funcgraph_entry", 11, [long, ("int depth", 16, 4, 1)],
                      '"--> %ps (%d)", (void *)REC->func, REC->depth')),
        ("events/ftrace/funcgraph_exit/format",
         event_format("funcgraph_exit", 10, [
             long, ("int depth", 16, 4, 1), ("unsigned int overrun", 20, 4, 0),
             ("unsigned long long calltime", 24, 8, 0), ("unsigned long long rettime", 32, 8, 0)],
             '"<-- %ps (%d)", (void *)REC->func, REC->depth')),
        ("events/tm/tm_read/format",
         event_format("tm_read", 400, [
             ("char comm[8]", 8, 8, 1), ("int fd", 16, 4, 1), ("unsigned int flags", 20, 4, 0),
             ("__data_loc char[] path", 24, 4, 1)],
             '"%s fd=%d flags=%s path=%s", REC->comm, REC->fd, '
             '__print_flags(REC->flags, "|", { 0x1, "RD" }, { 0x2, "WR" }), __get_str(path)')),
    ]
    out = "PAGE_SIZE: 4096\nLONG_SIZE: 8\nENDIAN: LE\n"
    for name, text in files:
        out += f"TRACEFS: {name}: {len(text)}\n{text}"
    return out


class Cpu:
    """The pages of a processor."""

    def __init__(self):
        self.pages, self.records, self.time, self.start = [], b"", 0, 0

    def add(self, time, data):
        data += b"\0" * (-len(data) % 4)
        if self.records and len(self.records) + len(data) + 16 > PAGE - 16:
            self.flush()
        if not self.records:
            self.start = self.time = time
        delta = time - self.time
        if delta >= 1 << 27:
            self.records += struct.pack("<II", 30 | (delta & 0x7FFFFFF) << 5, delta >> 27)
            delta = 0
        self.records += struct.pack("<I", len(data) // 4 | delta << 5) + data
        self.time = time

    def flush(self, lost=0):
        if self.records:
            page = struct.pack("<QQ", self.start, len(self.records)) + self.records
            self.pages.append(page.ljust(PAGE, b"\0"))
            self.records = b""

    def bytes(self, loss):
        self.flush()
        if loss and len(self.pages) > 1:
            page = bytearray(self.pages[1])
            commit = struct.unpack_from("<Q", page, 8)[0]
            if 16 + commit + 8 <= PAGE:
                struct.pack_into("<Q", page, 8, commit | 3 << 30)
                struct.pack_into("<Q", page, 16 + commit, 12)
                self.pages[1] = bytes(page)
        return b"".join(self.pages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--first-tid", type=int, default=1000)
    parser.add_argument("--loss", action="store_true")
    parser.add_argument("--events", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out)
    draw = random.Random(7)
    cpus = [Cpu() for _ in range(args.cpus)]
    tids = [args.first_tid + at for at in range(args.tasks)]
    records = {tid: b"" for tid in tids}
    rows = []

    def user(tid, time, kind, depth, name):
        records[tid] += struct.pack("<QQ", time, kind | 5 << 3 | depth << 6 | (BASE + USER[name] + 4) << 16)

    for at, tid in enumerate(tids):
        time = 5_000_000_000 + at * 137
        cpu = at % args.cpus

        def kernel(kind, depth, name):
            data = struct.pack("<HBBiQiI", 11 if kind == 0 else 10, 0, 0, tid, KERNEL[name], depth, 0)
            if kind:
                data += struct.pack("<QQ", 0, 0)
            rows.append((cpu, time, data))

        def step():
            nonlocal time
            time += draw.randrange(50, 3000)

        kernel(1, 1, "vfs_read")
        step()
        user(tid, time, 0, 0, "main")
        step()
        for call in range(args.calls):
            depth = 1
            user(tid, time, 0, depth, "work")
            step()
            user(tid, time, 0, depth + 1, "read")
            step()
            names = ["do_syscall_64", "__x64_sys_read", "ksys_read", "vfs_read", "rw_verify_area"]
            names = names[:draw.randrange(1, 6)]
            for level, name in enumerate(names):
                kernel(0, level, name)
                step()
            if args.events and call % 3 == 0:
                data = struct.pack("<HBBi8siII", 400, 0, 0, tid, b"prog", call - 2, call % 5, 28 | 5 << 16)
                rows.append((cpu, time, data + b"/tmp\0"))
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

    features = 0x3E7
    info = struct.pack("<8sIHBBQQHxxxxxx", b"Ftrace!\0", 4, 40, 1, 2, features, 0x89, 1024)
    info += b"exename:/srv/prog\ncmdline:uftrace record -k ./prog\n"
    info += f"taskinfo:lines=2\ntaskinfo:nr_tid={len(tids)}\ntaskinfo:tids={','.join(map(str, tids))}\n".encode()
    write("info", info)
    lines = f'SESS timestamp=4.000000000 pid={tids[0]} sid=0123456789abcdef exename="/srv/prog"\n'
    for tid in tids:
        lines += f"TASK timestamp=4.000000001 tid={tid} pid={tids[0]}\n"
    write("task.txt", lines)
    write("sid-0123456789abcdef.map", "00400000-00410000 r-xp 00000000 00:00 0                          /srv/prog\n"
          "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n")
    symbols = "".join(f"{address:016x} T {name}\n" for name, address in USER.items())
    write("prog.sym", f"# symbols: {len(USER)}\n# path name: /srv/prog\n{symbols}0000000000001300 ? __sym_end\n")
    write("kallsyms", "".join(f"{address:x} T {name}\n" for name, address in KERNEL.items())
          + f"{KERNEL_BASE + 0x10000:x} T _etext\n")
    write("kernel_header", header())
    write("default.opts", "")
    for tid in tids:
        write(f"{tid}.dat", records[tid])
    for at, cpu in enumerate(cpus):
        write(f"kernel-cpu{at}.dat", cpu.bytes(args.loss and at == 0))


main()
