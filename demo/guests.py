#!/usr/bin/env python3
"""Make guests/host.jsonl: a machine that runs a virtual machine and two containers, as events of LTTng in JSON lines. It was not
recorded.

The same bytes each time. Prints what the trace has, from its own books: tests and docs/analyze.md quote these numbers.
"""

import json
import pathlib
import random

US, MS = 1_000, 1_000_000
BEGIN = 1_795_255_200 * 1_000_000_000  # 2026-11-21 10:00:00 UTC
END = BEGIN + 400 * MS
HOST_NS, WEB_NS, DB_NS = (4026531835, 4026531836), (4026532501, 4026532502), (4026532611, 4026532612)
# Thread: name, process, namespaces.
THREADS = {3101: ("CPU 0/KVM", 3100, HOST_NS), 3102: ("CPU 1/KVM", 3100, HOST_NS), 4200: ("nginx", 4200, WEB_NS),
           4300: ("postgres", 4300, DB_NS), 900: ("dockerd", 900, HOST_NS)}
EPT_VIOLATION, EXTERNAL_INTERRUPT, HLT, IO_INSTRUCTION, MSR_WRITE = 48, 1, 12, 30, 32

rng = random.Random(29)
lines = []
running = {0: 0, 1: 0}
books = {"exits": {}, "guest": {}}


def emit(ns, cpu, name, /, **payload):
    tid = running[cpu]
    comm, pid, (cgroup_ns, pid_ns) = THREADS.get(tid, (f"swapper/{cpu}", 0, HOST_NS))
    context = {"tid": tid, "pid": pid, "procname": comm, "cgroup_ns": cgroup_ns, "pid_ns": pid_ns}
    lines.append((ns, len(lines), {"ns": ns, "name": name, "cpu": cpu, "stream_context": context, "payload": payload}))


def switch(ns, cpu, tid, state=1):
    before = running[cpu]
    name = lambda tid: THREADS[tid][0] if tid else f"swapper/{cpu}"
    emit(ns, cpu, "sched_switch", prev_comm=name(before), prev_tid=before, prev_prio=20, prev_state=state if before else 0,
         next_comm=name(tid), next_tid=tid, next_prio=20)
    running[cpu] = tid


def wake(ns, cpu, tid, target):
    emit(ns, cpu, "sched_waking", comm=THREADS[tid][0], tid=tid, prio=20, target_cpu=target)


def call(ns, cpu, name, length, ret, **arguments):
    emit(ns, cpu, f"syscall_entry_{name}", **arguments)
    emit(ns + length, cpu, f"syscall_exit_{name}", ret=ret)


def vcpu(cpu, tid, number, other):
    """A thread that runs a CPU of the virtual machine; `other` is a thread that takes its CPU now and then."""
    at = BEGIN + (1 + number) * MS
    switch(at, cpu, tid)
    emit(at + 500, cpu, "syscall_exit_futex", ret=0)
    emit(at + 1 * US, cpu, "syscall_entry_ioctl", fd=20 + number, cmd=44672, arg=0)
    turn = 0
    while at < END - 25 * MS:
        at += rng.randint(4, 30) * US
        emit(at, cpu, "kvm_x86_entry", vcpu_id=number)
        entered = at
        at += rng.randint(300, 2_500) * US
        turn += 1
        kinds = [EPT_VIOLATION, IO_INSTRUCTION, MSR_WRITE, HLT, EXTERNAL_INTERRUPT]
        reason = kinds[(turn * 3 + number) % 5] if turn % 7 else EXTERNAL_INTERRUPT
        emit(at, cpu, "kvm_x86_exit", exit_reason=reason, guest_rip=0xFFFF_FFFF_8100_0000 + 16 * turn, isa=1, info1=0, info2=0)
        books["exits"][tid, reason] = books["exits"].get((tid, reason), 0) + 1
        books["guest"][tid] = books["guest"].get(tid, 0) + at - entered
        if reason == HLT:
            switch(at + 6 * US, cpu, 0)
            at += rng.randint(2_000, 9_000) * US
            wake(at, cpu, tid, cpu)
            switch(at + 5 * US, cpu, tid)
            at += 5 * US
        elif reason == EXTERNAL_INTERRUPT and turn % 7 == 0:
            wake(at + 2 * US, cpu, other, cpu)
            switch(at + 8 * US, cpu, other, state=0)
            length = rng.randint(1_000, 5_000) * US
            name, size = ("write", rng.randint(2_000, 9_000)) if other == 4200 else ("read", rng.randint(8_000, 64_000))
            emit(at + 10 * US, cpu, "syscall_exit_epoll_wait", ret=1)
            call(at + 20 * US, cpu, name, 30 * US, size, fd=7, buf=0, count=size)
            emit(at + length - 10 * US, cpu, "syscall_entry_epoll_wait", epfd=5, maxevents=64, timeout=-1)
            switch(at + length, cpu, tid)
            at += length
        else:
            at += rng.randint(2, 40 if reason == EPT_VIOLATION else 12) * US
    emit(at + 40 * US, cpu, "syscall_exit_ioctl", ret=0)
    switch(at + 50 * US, cpu, 0)
    emit(END - number, cpu, "timer_hrtimer_cancel", hrtimer=0)


def main():
    running[0] = 900
    for tid, (comm, pid, namespaces) in THREADS.items():
        emit(BEGIN, 0, "lttng_statedump_process_state", tid=tid, vtid=tid, pid=pid, vpid=pid, ppid=1, vppid=1, name=comm, type=0,
             mode=1, submode=0, status=5, ns_level=0)
        emit(BEGIN, 0, "lttng_statedump_process_cgroup_ns", tid=tid, ns_inum=namespaces[0])
        emit(BEGIN, 0, "lttng_statedump_process_pid_ns", tid=tid, vtid=tid, vpid=pid, vppid=1, ns_level=0, ns_inum=namespaces[1])
    for at, (tid, path) in enumerate([(4200, "/docker/web"), (4300, "/docker/db"), (3101, "/machine/guest"), (3102, "/machine/guest")]):
        emit(BEGIN + (100 + at) * US, 0, "cgroup_attach_task", dst_root=1, dst_id=40 + at, dst_level=2, pid=tid,
             comm=THREADS[tid][0], dst_path=path)
    switch(BEGIN + 500 * US, 0, 0)
    vcpu(0, 3101, 0, 4200)
    vcpu(1, 3102, 1, 4300)
    lines.sort(key=lambda line: line[:2])
    folder = pathlib.Path(__file__).parent / "guests"
    folder.mkdir(exist_ok=True)
    with open(folder / "host.jsonl", "w") as out:
        for _, _, event in lines:
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    print(f"{len(lines)} events")
    for (tid, reason), count in sorted(books["exits"].items()):
        print(f"thread {tid}, reason {reason}: {count} exits")
    for tid, total in sorted(books["guest"].items()):
        print(f"thread {tid}: {total} ns in the virtual machine")


main()
