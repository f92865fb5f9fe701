#!/usr/bin/env python3
"""Make idle/night.jsonl: the machine of the bakery at night, as events of ftrace in JSON lines. It was not recorded.

The same bytes each time. Prints what the trace has, from its own books: tests and docs/analyze.md quote these numbers.
"""

import json
import pathlib
import random

MS, US = 1_000_000, 1_000
BEGIN = 1_795_298_400 * 1_000_000_000  # 2026-11-21 22:00:00 UTC
SLEEP_AT, SLEEP_FOR = BEGIN + 1_500 * MS, 30_000 * MS
END = BEGIN + 2_500 * MS + SLEEP_FOR
HZ, FIRST_TICK = 250, 4_294_900_000
LEAVE = 0xFFFF_FFFF
NAMES = {0: "swapper", 57: "kworker/0:1", 58: "kworker/1:1", 641: "oven-1", 900: "systemd-sleep"}

rng = random.Random(22)
lines = []
busy = {0: [], 1: []}  # times at which a CPU is not idle


def emit(ns, cpu, name, /, **payload):
    lines.append((ns, len(lines), {"ns": ns, "name": name, "cpu": cpu, "payload": payload}))


def monotonic(ns):
    """The clock of timers, which stops while the machine is suspended."""
    return ns - BEGIN + 7_200_000_000_000 - max(0, min(ns - SLEEP_AT, SLEEP_FOR))


def ticks(ns):
    return FIRST_TICK + (monotonic(ns) - monotonic(BEGIN)) * HZ // 1_000_000_000


def switch(ns, cpu, before, after, state=1):
    emit(ns, cpu, "sched_switch", prev_comm=NAMES[before], prev_pid=before, prev_prio=120, prev_state=state,
         next_comm=NAMES[after], next_pid=after, next_prio=120)


def wake(ns, cpu, tid, target):
    emit(ns, cpu, "sched_waking", comm=NAMES[tid], pid=tid, prio=120, success=1, target_cpu=target)


def jitter(low, high):
    return rng.randint(low, high)


def hrtimer(set_at, due, cpu, address, function):
    """Sets a timer, and runs it a little late. Gives the time at which it is done."""
    emit(set_at, cpu, "hrtimer_start", hrtimer=address, function=function, expires=monotonic(due), softexpires=monotonic(due))
    begin = due + jitter(2 * US, 9 * US)
    emit(begin, cpu, "hrtimer_expire_entry", hrtimer=address, now=monotonic(begin), function=function)
    end = begin + jitter(900, 2_500)
    emit(end, cpu, "hrtimer_expire_exit", hrtimer=address)
    return begin, end


def work(queued, ns, cpu, tid, address, function, length):
    emit(queued, 0, "workqueue_queue_work", work=address, function=function, workqueue="events", req_cpu=cpu, cpu=cpu)
    emit(ns, cpu, "workqueue_execute_start", work=address, function=function)
    emit(ns + length, cpu, "workqueue_execute_end", work=address, function=function)
    return ns + length


def tick(due, number, last, last_wheel):
    """Every 50 ms on CPU 0; each fourth one has a timer of the wheel, which queues a work."""
    begin, at = hrtimer(last + 10 * US, due, 0, 0xFFFF_8880_0001_0000, "tick_nohz_handler")
    emit(at - 300, 0, "softirq_raise", vec=1)
    at += jitter(300, 900)
    emit(at, 0, "softirq_entry", vec=1)
    if number % 4 == 3:
        timer = 0xFFFF_8880_0002_0000
        expires = ticks(due) - (2 if number % 8 == 7 else 0)
        set_at = last_wheel + 16 * US
        emit(set_at, 0, "timer_start", timer=timer, function="delayed_work_timer_fn", expires=expires, now=ticks(set_at))
        emit(at + 300, 0, "timer_expire_entry", timer=timer, now=ticks(at + 300), function="delayed_work_timer_fn")
        queued = at + 700
        wake(queued + 200, 0, 57, 0)
        emit(at + 1_400, 0, "timer_expire_exit", timer=timer)
        at += 1_900
        emit(at, 0, "softirq_exit", vec=1)
        switch(at + 2 * US, 0, 0, 57, 0)
        at = work(queued, at + 3 * US, 0, 57, 0xFFFF_8880_0003_0000, "vmstat_update", jitter(20 * US, 45 * US))
        switch(at + 1 * US, 0, 57, 0)
        at += 2 * US
    else:
        at += jitter(700, 1_500)
        emit(at, 0, "softirq_exit", vec=1)
    busy[0].append((begin - 1 * US, at + 1 * US))


def bake(due, set_at, queued):
    """A thread on CPU 1 that needs the higher frequency; a work has to wait until it is done."""
    begin, at = hrtimer(set_at, due, 1, 0xFFFF_C900_0064_1000, "hrtimer_wakeup")
    wake(at - 500, 1, 641, 1)
    switch(at + 3 * US, 1, 0, 641, 0)
    at += 4 * MS
    emit(at, 1, "cpu_frequency", state=2_400_000, cpu_id=1)
    at += jitter(4 * MS, 9 * MS)
    if queued:
        queued_at = begin + 2 * MS
        wake(queued_at + 200, 0, 58, 1)
        busy[0].append((queued_at - 10 * US, queued_at + 10 * US))
        switch(at, 1, 641, 58)
        at = work(queued_at, at + 2 * US, 1, 58, 0xFFFF_8880_0004_0000, "flush_stock", jitter(250 * US, 400 * US))
        switch(at + 1 * US, 1, 58, 0)
    else:
        switch(at, 1, 641, 0)
    emit(at + 100 * US, 1, "cpu_frequency", state=800_000, cpu_id=1)
    busy[1].append((begin - 1 * US, at + 110 * US))


def receive(ns, cpu):
    """A packet: the interrupt raises NET_RX."""
    busy[cpu].append((ns - 1 * US, ns + 20 * US))
    emit(ns, cpu, "irq_handler_entry", irq=27, name="eth0")
    emit(ns + 2 * US, cpu, "softirq_raise", vec=3)
    emit(ns + 3 * US, cpu, "irq_handler_exit", irq=27, ret=1)
    at = ns + 3 * US + jitter(400, 900)
    emit(at, cpu, "softirq_entry", vec=3)
    emit(at + jitter(4 * US, 9 * US), cpu, "softirq_exit", vec=3)


def suspend():
    wake(SLEEP_AT - 1 * MS, 0, 900, 0)
    switch(SLEEP_AT - 1 * MS + 3 * US, 0, 0, 900, 0)
    emit(SLEEP_AT - 600 * US, 0, "cpu_frequency", state=1_600_000, cpu_id=0)
    emit(SLEEP_AT, 0, "suspend_resume", action="machine_suspend", val=3, start=1)
    emit(SLEEP_AT + SLEEP_FOR, 0, "suspend_resume", action="machine_suspend", val=3, start=0)
    emit(SLEEP_AT + SLEEP_FOR + 1 * MS, 0, "cpu_frequency", state=800_000, cpu_id=0)
    switch(SLEEP_AT + SLEEP_FOR + 2 * MS, 0, 900, 0)
    busy[0].append((SLEEP_AT - 1 * MS - 2 * US, SLEEP_AT + SLEEP_FOR + 2 * MS + 3 * US))


def idle(cpu):
    """The C-states between the times at which a CPU is busy: deeper where it may sleep longer."""
    at, naps = BEGIN + 20 * US, {}
    for begin, end in sorted(busy[cpu]) + [(END, END)]:
        assert begin > at, (cpu, begin, at)
        state = 1 if begin - at < 8 * MS else 2 if begin - at < 46 * MS else 3
        emit(at, cpu, "cpu_idle", state=state, cpu_id=cpu)
        if begin < END:
            emit(begin, cpu, "cpu_idle", state=LEAVE, cpu_id=cpu)
            count, total = naps.get(state, (0, 0))
            naps[state] = (count + 1, total + begin - at)
        at = end
    return naps


def main():
    for cpu in (0, 1):
        emit(BEGIN, cpu, "cpu_frequency", state=800_000, cpu_id=cpu)
        switch(BEGIN + 10 * US + cpu, cpu, 57 + cpu, 0)
    starts = [BEGIN + 50 * MS * at for at in range(1, 30)]
    starts += [SLEEP_AT + SLEEP_FOR + 50 * MS * at for at in range(1, 20)]
    last_wheel = BEGIN
    for number, due in enumerate(starts):
        tick(due, number, due - 50 * MS, last_wheel)
        last_wheel = due if number % 4 == 3 else last_wheel
    for number, due in enumerate([BEGIN + 110 * MS, BEGIN + 510 * MS, BEGIN + 910 * MS, BEGIN + 1_310 * MS,
                                  SLEEP_AT + SLEEP_FOR + 210 * MS, SLEEP_AT + SLEEP_FOR + 610 * MS]):
        bake(due, due - 60 * MS, number % 2 == 1)
        receive(due + (40 if number % 2 else 18) * MS, 1)
    for due in starts[::3]:
        receive(due + 5 * MS, 0)
    suspend()
    for cpu in (0, 1):
        for state, (count, total) in sorted(idle(cpu).items()):
            print(f"CPU {cpu}, C-state {state}: {count} times, {total} ns")
    lines.sort(key=lambda line: line[:2])
    folder = pathlib.Path(__file__).parent / "idle"
    with open(folder / "night.jsonl", "w") as out:
        for _, _, event in lines:
            out.write(json.dumps(event, separators=(",", ":")) + "\n")
    print(f"{len(lines)} events")


main()
