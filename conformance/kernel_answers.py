"""Answers of each analysis about a trace, worked out from the lists of a kernel_states.Machine (docs/kernel.md, section 3).

Every answer is (rows, all) with the keys of the JSON; the order of rows is that of the sections, where they state one.
"""

import errno
import fnmatch
import itertools
import math
from collections import ChainMap, Counter, defaultdict

from kernel_states import Thread

RUNNING = ("EXIT", "INTERRUPTED")
CLASSES = {
    "open": "open openat openat2 creat socket accept accept4 dup dup2 dup3 pipe pipe2",
    "read": "read readv pread pread64 preadv preadv2 recv recvfrom recvmsg recvmmsg",
    "write": "write writev pwrite pwrite64 pwritev pwritev2 send sendto sendmsg sendmmsg",
    "sync": "sync syncfs fsync fdatasync sync_file_range sync_file_range2 msync",
    "copy": "splice tee vmsplice sendfile sendfile64 copy_file_range",
    "close": "close",
}
CLASS_OF = {name: of for of, names in CLASSES.items() for name in names.split()}
FUTEX = {0: "WAIT", 6: "LOCK_PI", 8: "TRYLOCK_PI", 9: "WAIT_BITSET", 11: "WAIT_REQUEUE_PI", 13: "LOCK_PI2"}
FUTEX_WAKES = (1, 3, 4, 5, 7, 10, 12)
PERCENTS = (50, 90, 95, 99)


def statistics(durations):
    of = sorted(durations)
    count, total = len(of), sum(of)
    if not of:
        return {"count": 0}
    mean = total / count
    variance = (sum(d * d for d in of) * count - total * total) / (count * count)
    answer = {"count": count, "total_ns": total, "min_ns": of[0], "max_ns": of[-1], "mean_ns": mean,
              "deviation_ns": math.sqrt(variance)}
    for p in PERCENTS:
        answer[f"p{p}_ns"] = of[-(-p * count // 100) - 1]
    return answer


class Question:
    """The options of a question."""

    def __init__(self, machine, begin=None, end=None, step=None, by=None, log=False, top=None, hist=None, tids=None, cpus=None,
                 comm=None, pids=None, least=None, most=None):
        self.has_begin, self.has_end = begin is not None, end is not None
        self.begin = machine.begin if begin is None else max(begin, machine.begin)
        self.end = machine.now if end is None else min(end, machine.now)
        self.end = max(self.begin, self.end)
        self.step, self.by, self.log, self.top, self.hist = step, by, log, top, hist
        self.tids, self.cpus, self.comm, self.pids, self.least, self.most = tids, cpus, comm, pids, least, most

    def has(self, time):
        return self.begin <= time <= self.end

    def wants_cpu(self, cpu):
        return self.cpus is None or cpu is not None and cpu.number in self.cpus

    def wants_thread(self, thread, pid=None, comm=None):
        """Is a thread wanted, None being one that is not known or the idle one? Its process and its name at that time."""
        if self.tids is None and self.pids is None and self.comm is None:
            return True
        return (thread is not None and (self.tids is None or thread.tid in self.tids) and (self.pids is None or pid in self.pids)
                and (self.comm is None or fnmatch.fnmatchcase(comm or "", self.comm)))

    def clip(self, begin, end):
        return max(begin, self.begin), min(end, self.end)

    def steps(self):
        """The steps of the range."""
        if self.step is None:
            return [(self.begin, self.end)]
        steps, at = [], self.begin
        while not steps or at < self.end:
            steps.append((at, min(at + self.step, self.end)))
            at += self.step
        return steps

    def step_of(self, time):
        """The step of an instant: the last one has its end."""
        if self.step is None:
            return (self.begin, self.end)
        steps = self.steps()
        return steps[min((time - self.begin) // self.step, len(steps) - 1)]

    def pieces(self, begin, end):
        """The parts of a piece of time in the steps."""
        begin, end = self.clip(begin, end)
        if begin < end:
            for of in self.steps():
                length = min(end, of[1]) - max(begin, of[0])
                if length > 0:
                    yield of, length

    def stepped(self, step, row):
        return row if self.step is None else {"from": step[0], "to": step[1], **row}


def join(rows):
    """Joins equal neighbours, and drops what takes no time."""
    last = {}
    answer = []
    for key, begin, end, *what in rows:
        if begin == end:
            continue
        before = last.get(key)
        if before is not None and before[2] == begin and before[3:] == what:
            before[2] = end
            continue
        last[key] = [key, begin, end, *what]
        answer.append(last[key])
    return answer


def tid_of(cur):
    return cur.tid if isinstance(cur, Thread) else cur


def thread_of(cur):
    return cur if isinstance(cur, Thread) else None


# ---- states, cpu, stats, processes ---------------------------------------------------------------------------------------


def states(machine, q, of=None):
    if of is not None:
        return disk_states(machine, q) if of == "disks" else irq_states(machine, q)
    rows = []
    for cpu, begin, end, cur, status in join((r[0], r[1], r[2], r[3], r[4]) for r in machine.cpu_rows):
        begin, end = q.clip(begin, end)
        if begin < end and q.wants_cpu(cpu) and q.wants_thread(thread_of(cur)):
            rows.append(((begin, 0, cpu.number, 0), {"cpu": cpu.number, "from": begin, "to": end, "tid": tid_of(cur), "status": status}))
    for thread, begin, end, state in join(machine.thread_rows):
        begin, end = q.clip(begin, end)
        # A row of a thread is about no CPU.
        if begin < end and state != "UNKNOWN" and q.cpus is None and q.wants_thread(thread):
            rows.append(((begin, 1, thread.tid, thread.life), {"tid": thread.tid, "from": begin, "to": end, "state": state}))
    rows.sort(key=lambda row: row[0])
    return [row for _, row in rows], {}


def disk_states(machine, q):
    waiting, driver, counts = defaultdict(Counter), defaultdict(Counter), defaultdict(list)
    for at, cpu, cur, concept, f, _ in machine.seen:
        if not concept.startswith("rq_") or f["nr_sector"] == 0:
            continue
        dev, sector, request = f["dev"], f["sector"], (f["sector"], f["nr_sector"])
        if concept == "rq_insert":
            waiting[dev][sector] += 1
        elif concept == "rq_issue":
            waiting[dev][sector] = max(0, waiting[dev][sector] - 1)
            driver[dev][request] += 1
        else:
            driver[dev][request] = max(0, driver[dev][request] - 1)
        counts[dev].append((at, sum(waiting[dev].values()), sum(driver[dev].values())))
    rows = []
    for dev, changes in counts.items():
        changes = [(machine.begin, 0, 0), *changes]
        ends = [change[0] for change in changes[1:]] + [machine.now]
        for dev, begin, end, *of in join((dev, at, end, *of) for (at, *of), end in zip(changes, ends)):
            begin, end = q.clip(begin, end)
            if begin < end:
                rows.append({"dev": dev, "from": begin, "to": end, "waiting": of[0], "driver": of[1]})
    return sorted(rows, key=lambda row: (row["from"], row["dev"])), {}


def irq_states(machine, q):
    rows = []
    for i in machine.interrupts:
        begin, end = q.clip(i["begin"], i["end"])
        if begin < end:
            rows.append({"kind": i["kind"], "nr": i["nr"], "cpu": i["cpu"].number, "from": begin, "to": end})
    return rows, {}


def part_of(state):
    if state == "INTERRUPTED":
        return "irq_ns"
    if state in ("RUN/syscall", "RUN/trap", "RUN/kernel", "EXIT"):
        return "system_ns"
    return {"RUN/user": "user_ns", "RUN/unknown": "unknown_ns"}.get(state)


def cpu(machine, q):
    return cpu_by_cpu(machine, q) if q.by == "cpu" else cpu_by_thread(machine, q)


def cpu_by_thread(machine, q):
    names = ("time_ns", "user_ns", "system_ns", "irq_ns", "unknown_ns")
    times = defaultdict(Counter)
    pieces = [(t, b, e, part_of(s)) for t, b, e, s in machine.thread_rows]
    pieces += [(t, b, e, "unknown_ns") for _, t, b, e in machine.credits]
    for thread, begin, end, part in pieces:
        if part is None or not q.wants_thread(thread):
            continue
        for step, length in q.pieces(begin, end):
            times[step, thread]["time_ns"] += length
            times[step, thread][part] += length
    for thread in machine.threads:
        for key, instants in (("switches", thread.runs), ("migrations", thread.migrations)):
            for at in instants:
                if q.has(at) and (q.step_of(at), thread) in times:
                    times[q.step_of(at), thread][key] += 1
    every = sum(of["time_ns"] for of in times.values())
    names += ("switches", "migrations")
    groups = defaultdict(list)
    for (step, thread), of in times.items():
        groups[step, thread if q.by != "process" else thread.pid].append(of)
    rows = []
    for (step, key), members in groups.items():
        of = sum(members, Counter())
        row = {"pid": key, "threads": len(members)} if q.by == "process" else {"tid": key.tid, "pid": key.pid, "comm": key.comm, "prio": key.prio}
        row |= {name: of[name] for name in names}
        row["share"] = of["time_ns"] / (step[1] - step[0])
        rows.append(q.stepped(step, row))
    return rows, {"time_ns": every}


def cpu_by_cpu(machine, q):
    names = ("task_ns", "user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns")
    sums = defaultdict(Counter)
    part = {"syscall": "system", "trap": "system", "kernel": "system"}
    for cpu, begin, end, cur, status in machine.cpu_rows:
        if not q.wants_cpu(cpu):
            continue
        for step, length in q.pieces(begin, end):
            of = sums[step, cpu]
            of[part.get(status, status) + "_ns" if status != "trap" else "system_ns"] += length
            if isinstance(cur, Thread):
                of["task_ns"] += length
    for cpu, _, begin, end in machine.credits:
        if not q.wants_cpu(cpu):
            continue
        for step, length in q.pieces(begin, end):
            sums[step, cpu]["task_ns"] += length
    rows = []
    for (step, cpu), of in sums.items():
        row = {"cpu": cpu.number} | {name: of[name] for name in names}
        rows.append(q.stepped(step, row | {"share": of["task_ns"] / (step[1] - step[0]), "khz": cpu.khz}))
    every = sum(sums.values(), Counter())
    return rows, {name: every[name] for name in names}


def stats(machine, q):
    time, events = Counter(), Counter()
    for cpu, begin, end, cur, status in machine.cpu_rows:
        begin, end = q.clip(begin, end)
        if begin < end and q.wants_cpu(cpu) and q.wants_thread(thread_of(cur)):
            time[cpu, cur, status] += end - begin
    for at, cpu, cur, status, name in machine.after:
        if q.has(at) and q.wants_cpu(cpu) and q.wants_thread(thread_of(cur)):
            events[cpu, cur, status, name] += 1
    keys = set(time) | {key[:3] for key in events}
    if q.by == "event":
        rows = [{"cpu": c.number, "tid": tid_of(cur), "mode": s, "name": n, "events": count} for (c, cur, s, n), count in events.items()]
        return merged(rows, ("cpu", "tid", "mode", "name"), ("events",)), {}
    rows = []
    for key in keys:
        cpu, cur, status = key
        count = sum(n for of, n in events.items() if of[:3] == key)
        rows.append({"cpu": cpu.number, "tid": tid_of(cur), "mode": status, "cpu_ns": time[key], "events": count,
                     "pid": cur.pid if isinstance(cur, Thread) else cur})
    by = {"process": ("cpu", "pid", "mode"), "trace": ("mode",)}.get(q.by, ("cpu", "tid", "mode"))
    every = {"cpu_ns": sum(r["cpu_ns"] for r in rows), "events": sum(r["events"] for r in rows)}
    return merged(rows, by, ("cpu_ns", "events")), every


def merged(rows, keys, sums):
    groups = {}
    for row in rows:
        key = tuple(row[k] for k in keys)
        group = groups.setdefault(key, {**{k: row[k] for k in keys}, **dict.fromkeys(sums, 0)})
        for name in sums:
            group[name] += row[name]
    return list(groups.values())


def processes(machine, q):
    column = {"WAIT_CPU": "wait_cpu_ns", "WAIT": "wait_ns", "WAIT_FORK": "wait_fork_ns", "ZOMBIE": "zombie_ns"}
    rows = []
    for thread in machine.threads:
        if not q.wants_thread(thread, thread.pid, thread.comm):
            continue
        sums = Counter()
        known = 0
        for of, begin, end, state in machine.thread_rows:
            if of is thread:
                begin, end = q.clip(begin, end)
                length = max(0, end - begin)
                if state == "UNKNOWN":
                    continue
                known += length
                name = part_of(state) or column.get(state)
                if name:
                    sums[name] += length
        born = thread.born if thread.born is not None else (machine.begin if thread.life == 0 else thread.met)
        following = [t for t in machine.threads if t.tid == thread.tid and t.life == thread.life + 1]
        end = following[0].met if following else machine.now
        if born > q.end or end < q.begin or thread.free is not None and thread.free < q.begin:
            continue
        begin, end = q.clip(born, end)
        until = lambda at: at if at is not None and at <= q.end else None
        row = {"tid": thread.tid, "life": thread.life, "pid": thread.pid, "ppid": thread.ppid, "comm": thread.comm,
               "kernel": thread.kernel, "born_ns": thread.born, "exit_ns": until(thread.exit), "freed_ns": until(thread.free)}
        for name in ("user_ns", "system_ns", "irq_ns", "wait_cpu_ns", "wait_ns", "wait_fork_ns", "zombie_ns"):
            row[name] = sums[name]
        row["unknown_ns"] = max(0, end - begin) - known + sums["unknown_ns"]
        row["switches"] = sum(map(q.has, thread.runs))
        row["preempted"] = sum(map(q.has, thread.preempted))
        row["migrations"] = sum(map(q.has, thread.migrations))
        rows.append(row)
    return rows, {}


# ---- Spans -----------------------------------------------------------------------------------------------------------------


def view(q, spans, key, more=lambda members: {}, log=None):
    """Statistics, a list, the longest or a histogram of spans: dicts with begin and end, in the order of their ends."""
    def wanted(span):
        length = span["end"] - span["begin"]
        return (q.has(span["end"]) and (q.least is None or length >= q.least) and (q.most is None or length <= q.most)
                and q.wants_cpu(span["cpu"]) and q.wants_thread(span.get("thread"), span.get("pid"), span.get("comm")))

    spans = [span for span in spans if wanted(span)]
    lengths = [span["end"] - span["begin"] for span in spans]
    if q.log:
        return [log(span) for span in spans], {}
    if q.top is not None:
        order = sorted(range(len(spans)), key=lambda at: (-lengths[at], at))
        return [log(spans[at]) for at in order[:q.top]], {}
    if q.hist is not None:
        return histogram(lengths, q.hist), {}
    groups = defaultdict(list)
    for span in spans:
        groups[q.step_of(span["end"]), tuple(key(span).items())].append(span)
    rows = []
    for (step, of), members in groups.items():
        rows.append(q.stepped(step, dict(of) | statistics(s["end"] - s["begin"] for s in members) | more(members)))
    return rows, statistics(lengths) | more(spans)


def histogram(lengths, n):
    if not lengths:
        return []
    lo, hi = min(lengths), max(lengths)
    counts = Counter(min(n - 1, (d - lo) * n // (hi - lo)) if hi > lo else 0 for d in lengths)
    return [{"from_ns": lo + i * (hi - lo) // n, "to_ns": lo + (i + 1) * (hi - lo) // n, "count": counts[i]} for i in range(n)]


def sched(machine, q, switches=False):
    if switches:
        return switches_of(machine, q)
    spans = [dict(w, begin=w["wake"], end=w["run"], tid=w["thread"].tid) for w in machine.waits]
    keys = {
        "prio": lambda s: {"prio": s["prio"]},
        "cpu": lambda s: {"cpu": s["cpu"].number},
        "waker": lambda s: {"waker": s["waker"].tid if s["waker"] else None},
        "process": lambda s: {"pid": s["pid"]},
    }
    log = lambda s: {
        "wake_ns": s["wake"], "run_ns": s["run"], "latency_ns": s["run"] - s["wake"], "tid": s["tid"], "comm": s["comm"],
        "prio": s["prio"], "cpu": s["cpu"].number, "waker": s["waker"].tid if s["waker"] else None, "reason": s["reason"]}
    return view(q, spans, keys.get(q.by, lambda s: {"tid": s["tid"]}), log=log)


def switches_of(machine, q):
    if q.by != "thread":
        rows = [{"cpu": c.number, "switches": sum(map(q.has, c.switches))} for c in machine.cpus.values()]
        return [row for row in rows if row["switches"]], {"switches": sum(row["switches"] for row in rows)}
    sums = defaultdict(Counter)
    for thread in machine.threads:
        for name in ("runs", "preempted", "blocked", "migrations"):
            sums[thread.tid, thread.life][name] += sum(map(q.has, getattr(thread, name)))
    for thread, begin, end, state in machine.thread_rows:
        begin, end = q.clip(begin, end)
        if state == "WAIT_CPU" and begin < end:
            sums[thread.tid, thread.life]["wait_cpu_ns"] += end - begin
    names = ("runs", "preempted", "blocked", "migrations", "wait_cpu_ns")
    was_there = {(t.tid, t.life) for t in machine.threads if any(map(q.has, t.left))}
    rows = [{"tid": key[0]} | {name: of[name] for name in names} for key, of in sums.items() if any(of.values()) or key in was_there]
    return rows, {}


def irq(machine, q):
    spans = [dict(i, cpu=i["cpu"]) for i in machine.interrupts]

    def more(members):
        waits = [s["begin"] - s["raised"] for s in members if s["raised"] is not None]
        if not waits:
            return {"raises": 0} if members and all(s["kind"] == "softirq" for s in members) else {}
        return {"raises": len(waits), "raise_total_ns": sum(waits), "raise_min_ns": min(waits), "raise_max_ns": max(waits)}

    def key(s):
        of = {"kind": s["kind"], "nr": s["nr"], "name": s["name"]}
        return of | {"cpu": s["cpu"].number} if q.by == "cpu" else of

    log = lambda s: {"kind": s["kind"], "nr": s["nr"], "name": s["name"], "cpu": s["cpu"].number, "from": s["begin"],
                     "to": s["end"], "duration_ns": s["end"] - s["begin"], "raise_ns": s["raised"]}
    return view(q, spans, key, more, log)


def error_of(ret):
    return -ret if ret is not None and -4095 <= ret <= -1 else None


def named(error):
    return None if error is None else errno.errorcode.get(error, str(error))


def syscalls(machine, q):
    spans = [dict(c, tid=c["thread"].tid) for c in machine.calls]

    def more(members):
        errors = [error_of(s["ret"]) for s in members if error_of(s["ret"]) is not None]
        return {"errors": len(errors), "errnos": dict(Counter(map(named, errors)))}

    keys = {
        "thread": lambda s: {"tid": s["tid"], "name": s["name"]},
        "process": lambda s: {"pid": s["pid"], "name": s["name"]},
        "errno": lambda s: {"errno": named(error_of(s["ret"])), "name": s["name"]},
    }
    log = lambda s: {"name": s["name"], "tid": s["tid"], "comm": s["comm"], "cpu": s["cpu"].number, "from": s["begin"],
                     "to": s["end"], "duration_ns": s["end"] - s["begin"], "ret": s["ret"]}
    return view(q, spans, keys.get(q.by, lambda s: {"name": s["name"]}), more, log)


def locks(machine, q):
    spans, wakes = [], []
    for call in machine.calls:
        args = next(f for at, thread, f in reversed(machine.entries) if thread is call["thread"] and at == call["begin"] and f["name"] == call["name"])
        op = args.get("op")
        if call["name"] != "futex" or op is None or op & ~384 not in FUTEX:
            continue
        thread = call["thread"]
        blocked = [at for at in thread.blocked if call["begin"] <= at <= call["end"]]
        waker = None
        if blocked:
            ends = [w for w in machine.wakes if w[1] is thread and w[0] >= blocked[-1] and w[4] == "WAIT" and w[0] <= call["end"]]
            waker = ends[0][2].tid if ends and ends[0][3] == "thread" else None
        spans.append(dict(call, tid=thread.tid, uaddr=args["uaddr"], op=FUTEX[op & ~384], waker=waker))
    for at, thread, f in machine.entries:
        if f["name"] == "futex" and f.get("op") is not None and f["op"] & ~384 in FUTEX_WAKES and q.has(at):
            wakes.append((at, thread, f["uaddr"]))
    more = lambda members: {"waiters": len({s["tid"] for s in members}), "errors": sum(error_of(s["ret"]) is not None for s in members)}
    keys = {"thread": lambda s: {"tid": s["tid"]}, "process": lambda s: {"pid": s["pid"]}}
    log = lambda s: {"uaddr": s["uaddr"], "op": s["op"], "tid": s["tid"], "comm": s["comm"], "from": s["begin"], "to": s["end"],
                     "duration_ns": s["end"] - s["begin"], "ret": s["ret"], "waker": s["waker"]}
    return view(q, spans, keys.get(q.by, lambda s: {"pid": s["pid"], "uaddr": s["uaddr"]}), more, log)


def contention(machine, q):
    """Waits for locks of programs with the threads that released them, and who had the CPUs for which threads waited."""
    if q.by == "taker":
        return takers(machine, q)
    spans, waits, releases, wakes = [], {}, {}, list(machine.wakes)
    calls = {(call["thread"], call["begin"], call["name"]): call for call in machine.calls}

    def at_once(lock):
        return sum(wait["key"] == lock for wait in waits.values())

    for at, cpu, cur, concept, f, pids in machine.seen:
        if concept == "switch":
            for thread in list(waits):
                # A thread that blocks again has not got the lock by the wake before.
                if at in thread.blocked and thread.tid == f["prev"]:
                    waits[thread].update(releaser=None, held=None)
                if thread.over or thread.tid == f["prev"] and f["state"] & 48 and not f["state"] & 15:
                    waits.pop(thread)
        elif concept == "wake" and wakes and wakes[0][0] == at and wakes[0][1].tid == f["tid"]:
            _, thread, waker, reason, base, _ = wakes.pop(0)
            if thread in waits and base == "WAIT" and reason == "thread" and releases.get(waker) == waits[thread]["key"]:
                waits[thread].update(releaser=waker.tid, held=at - waits[thread]["begin"])
        elif concept == "sys_entry" and isinstance(cur, Thread):
            waits.pop(cur, None)
            releases.pop(cur, None)
            lock, op = (pids.get(cur), f.get("uaddr")), f.get("op")
            if f["name"] == "futex" and op is not None and op & ~384 in FUTEX:
                waits[cur] = dict(key=lock, begin=at, at_once=at_once(lock) + 1, releaser=None, held=None)
            elif f["name"] == "futex" and op is not None and op & ~384 in FUTEX_WAKES:
                releases[cur] = lock
        elif concept == "sys_exit" and isinstance(cur, Thread):
            wait = waits.pop(cur, None)
            releases.pop(cur, None)
            call = wait and calls.get((cur, wait["begin"], "futex"))
            if call and call["end"] == at:
                spans.append(dict(call, **{key: wait[key] for key in ("at_once", "releaser", "held")}, tid=cur.tid, lock=wait["key"][1]))
    more = lambda members: {"waiters": len({s["tid"] for s in members}), "at_once": max((s["at_once"] for s in members), default=0),
                            "to_release_ns": sum(s["held"] or 0 for s in members)}
    keys = {"thread": lambda s: {"tid": s["tid"]}, "releaser": lambda s: {"releaser": s["releaser"]}}
    log = lambda s: {"kind": "futex", "lock": s["lock"], "tid": s["tid"], "from": s["begin"], "to": s["end"], "at_once": s["at_once"],
                     "duration_ns": s["end"] - s["begin"], "releaser": s["releaser"], "to_release_ns": s["held"]}
    return view(q, spans, keys.get(q.by, lambda s: {"pid": s["pid"], "lock": s["lock"]}), more, log)


def offcpu(machine, q):
    """Times without a CPU: states of threads that go on after them. Locks count as waits for threads."""
    rows, wakes, spans = defaultdict(list), {(wake[1], wake[0]): wake for wake in machine.wakes}, []
    for thread, begin, end, state in machine.thread_rows:
        rows[thread].append((begin, end, state))
    for thread, parts in rows.items():
        for at, (begin, end, state) in enumerate(parts):
            after = parts[at + 1][2] if at + 1 < len(parts) and parts[at + 1][0] == end else ""
            goes_on = after.startswith("RUN/") or after in ("EXIT", "INTERRUPTED") or after == "WAIT_CPU" != state
            wake = wakes.get((thread, end)) if state != "WAIT_CPU" else None
            if state not in ("WAIT", "WAIT_FORK", "WAIT_CPU") or begin == end or not (goes_on or wake):
                continue
            if state == "WAIT_CPU":
                reason = "preempted" if begin in thread.preempted else "runnable"
            elif state == "WAIT_FORK":
                reason = "new"
            else:
                reason = "blocked" if wake is None or wake[5] == "unknown" else wake[5]
            waker = wake[2].tid if wake and wake[5] == "thread" and wake[2] else None
            spans.append(dict(begin=begin, end=end, tid=thread.tid, thread=thread, cpu=None, reason=reason, waker=waker))
    spans.sort(key=lambda s: s["end"])
    log = lambda s: {"from": s["begin"], "to": s["end"], "duration_ns": s["end"] - s["begin"], "tid": s["tid"], "waker": s["waker"]}
    return view(q, spans, lambda s: {"waker": s["waker"], "reason": s["reason"]}, log=log)


def takers(machine, q):
    pairs = defaultdict(list)
    for thread, begin, end, state in join(machine.thread_rows):
        begin, end = max(begin, q.begin), min(end, q.end)
        if state != "WAIT_CPU" or begin >= end:
            continue
        times = Counter()
        for x, y, cpu in queued(machine, thread, begin, end):
            left = y - x
            for of, first, last, cur, status in machine.cpu_rows if cpu is not None else ():
                time = min(last, y) - max(first, x)
                if of is cpu and time > 0:
                    left -= time
                    by = "interrupts" if status in ("irq", "softirq") else "unknown" if cur is None else cur
                    times[by] += time
            times["unknown"] += left
        for by, time in times.items():
            if time:
                pairs[thread, by].append(time)
    rows = []
    for (thread, by), times in pairs.items():
        tid = None if isinstance(by, str) else 0 if by == 0 else by.tid
        rows.append({"tid": thread.tid, "by": tid, "waits": len(times), "total_ns": sum(times), "longest_ns": max(times)})
    return rows, {}


# ---- io, memory -------------------------------------------------------------------------------------------------------------


class Files:
    """The files of processes: what a descriptor means to a thread at a time."""

    def __init__(self):
        self.tables = {}
        self.own = {}  # of threads whose process is not known

    def table(self, thread, pids):
        pid = pids[thread]
        if pid is None:
            # A process has the number of its first thread.
            return ChainMap(self.own.setdefault(thread, {}), self.tables.get(thread.tid, {}))
        table = self.tables.setdefault(pid, {})
        table.update(self.own.pop(thread, {}))
        return table


def named_calls(machine):
    """Each call that ended, with its arguments and the name of its file; walks the events once more."""
    files, open_calls, answer = Files(), {}, []
    calls = {(c["thread"], c["end"], c["begin"]): c for c in machine.calls}
    forks = {(at, child.tid): (parent, child) for at, parent, child in machine.forks}
    for at, cpu, cur, concept, f, pids in machine.seen:
        if concept == "dump_file":
            files.tables.setdefault(f["pid"], {}).setdefault(f["fd"], f["name"])
        elif concept == "fork" and (at, f["child"]) in forks:
            parent, child = forks[at, f["child"]]
            if parent is not None and pids[child] != pids[parent] and pids[child] is not None:
                files.tables[pids[child]] = dict(files.table(parent, pids))
        elif concept == "sys_entry" and isinstance(cur, Thread):
            name = f["name"]
            file = f.get("path") if CLASS_OF.get(name) == "open" and "path" in f else files.table(cur, pids).get(f.get("fd"))
            open_calls[cur] = (at, f, file)
        elif concept == "sys_exit" and isinstance(cur, Thread):
            begun = open_calls.pop(cur, None)
            call = begun and calls.get((cur, at, begun[0]))
            if not call:
                continue
            _, args, file = begun
            ret, name, table = f.get("ret"), args["name"], files.table(cur, pids)
            if ret is not None and ret >= 0:
                if name in ("open", "openat", "openat2", "creat"):
                    table[ret] = args.get("path")
                elif name == "socket":
                    table[ret] = "socket"
                elif name == "dup":
                    table[ret] = table.get(args["fd"])
                elif name in ("dup2", "dup3"):
                    table[args["new"]] = table.get(args["fd"])
                elif name == "close":
                    table.pop(args["fd"], None)
            answer.append(dict(call, tid=cur.tid, file=file))
    return answer


def io(machine, q):
    if q.by == "disk":
        return disks(machine, q)
    if q.by == "net":
        return nets(machine, q)
    spans = [dict(c, of=CLASS_OF[c["name"]]) for c in named_calls(machine) if c["name"] in CLASS_OF]

    def more(members):
        moved = [s["ret"] for s in members if s["of"] in ("read", "write", "copy") and s["name"] not in ("recvmmsg", "sendmmsg")]
        return {"bytes": sum(r for r in moved if r is not None and r >= 0), "errors": sum(error_of(s["ret"]) is not None for s in members)}

    keys = {
        "thread": lambda s: {"tid": s["tid"], "class": s["of"]},
        "process": lambda s: {"pid": s["pid"], "class": s["of"]},
        "file": lambda s: {"file": s["file"], "class": s["of"]},
    }
    log = lambda s: {"class": s["of"], "tid": s["tid"], "file": s["file"], "from": s["begin"], "to": s["end"],
                     "duration_ns": s["end"] - s["begin"], "ret": s["ret"]}
    return view(q, spans, keys.get(q.by, lambda s: {"class": s["of"]}), more, log)


def disks(machine, q):
    inserted, issued, spans, completed, names = {}, {}, [], defaultdict(list), {}
    for at, cpu, cur, concept, f, _ in machine.seen:
        if concept == "dump_disk":
            names[f["dev"]] = f["name"]
        if not concept.startswith("rq_") or f["nr_sector"] == 0:
            continue
        request = (f["dev"], f["sector"], f["nr_sector"])
        op = "write" if f["rwbs"] & 1 else "read"
        if concept == "rq_insert":
            inserted.setdefault(f["dev"], {})[f["sector"]] = at
        elif concept == "rq_issue":
            queue = inserted.get(f["dev"], {}).pop(f["sector"], None)
            issued[request] = (at, None if queue is None else at - queue, f, op)
        else:
            begun = issued.pop(request, None)
            if q.has(at):
                completed[f["dev"], op].append(f["nr_sector"] * 512)
            if begun:
                spans.append(dict(begin=begun[0], end=at, dev=f["dev"], sector=f["sector"], sectors=f["nr_sector"], op=op, queue=begun[1],
                                  tid=begun[2]["tid"], comm=begun[2]["comm"], cpu=cpu))

    def more(members):
        queues = [s["queue"] for s in members if s["queue"] is not None]
        keys = {(s["dev"], s["op"]) for s in members}
        done = [b for key in keys for b in completed[key]]
        return {"queue_total_ns": sum(queues), "queue_max_ns": max(queues, default=None),
                "completed": len(done), "bytes": sum(done)}

    log = lambda s: {"dev": s["dev"], "sector": s["sector"], "sectors": s["sectors"], "op": s["op"], "from": s["begin"],
                     "to": s["end"], "duration_ns": s["end"] - s["begin"], "queue_ns": s["queue"], "tid": s["tid"]}
    rows, every = view(q, spans, lambda s: {"dev": s["dev"], "op": s["op"]}, more, log)
    known = {(row.get("dev"), row.get("op")) for row in rows}
    if q.log or q.top is not None or q.hist is not None:
        return rows, every
    every["completed"] = sum(map(len, completed.values()))
    every["bytes"] = sum(map(sum, completed.values()))
    # Completions count where no issue was seen, too.
    for (dev, op), done in completed.items():
        if (dev, op) not in known:
            rows.append({"dev": dev, "op": op, "count": 0, "total_ns": 0, "completed": len(done), "bytes": sum(done)})
    return rows, every


def nets(machine, q):
    sums = defaultdict(Counter)
    for at, cpu, cur, concept, f, _ in machine.seen:
        if concept in ("net_in", "net_out") and q.has(at):
            sums[f["dev"]]["packets_" + concept[4:]] += 1
            sums[f["dev"]]["bytes_" + concept[4:]] += f["len"]
    names = ("packets_in", "bytes_in", "packets_out", "bytes_out")
    return [{"net": name} | {n: of[n] for n in names} for name, of in sums.items()], {}


def memory(machine, q, slab=False):
    if slab:
        return slabs(machine, q)
    sums, used, peak = defaultdict(Counter), 0, 0
    for at, cpu, cur, concept, f, pids in machine.seen:
        if not q.wants_cpu(cpu) or not q.wants_thread(thread_of(cur), pids.get(cur)):
            continue
        if concept in ("page_alloc", "page_free") and q.has(at):
            of, pages = sums[tid_of(cur)], 1 << f["order"]
            is_alloc = concept == "page_alloc"
            of["allocs" if is_alloc else "frees"] += 1
            of["pages_allocated" if is_alloc else "pages_freed"] += pages
            used += pages if is_alloc else -pages
            peak = max(peak, used)
    names = ("allocs", "frees", "pages_allocated", "pages_freed")
    rows = [{"tid": tid} | {n: of[n] for n in names} for tid, of in sums.items()]
    every = {n: sum(row[n] for row in rows) for n in names}
    return rows, every | {"peak_pages": peak}


def slabs(machine, q):
    known, sums, used, peak = {}, defaultdict(Counter), 0, 0
    for at, cpu, cur, concept, f, _ in machine.seen:
        if concept == "slab_alloc":
            known[f["ptr"]] = size, site = f["bytes"], f["site"]
        elif concept == "slab_free":
            size, site = known.pop(f["ptr"], (0, None))
        else:
            continue
        if q.has(at):
            of = sums[site if q.by == "site" else tid_of(cur)]
            is_alloc = concept == "slab_alloc"
            of["allocs" if is_alloc else "frees"] += 1
            of["bytes" if is_alloc else "bytes_freed"] += size
            used += size if is_alloc else -size
            peak = max(peak, used)
    names = ("allocs", "frees", "bytes", "bytes_freed")
    rows = [{"site" if q.by == "site" else "tid": key} | {n: of[n] for n in names} for key, of in sums.items()]
    return rows, {n: sum(row[n] for row in rows) for n in names} | {"peak_bytes": peak}


# ---- path --------------------------------------------------------------------------------------------------------------------


def parts_of_path(machine, q, tid, explains=False):
    """The life that a path is about, and the parts of the path: begin, end, thread, state. For `why`, ends that the question
    leaves open are those of the life, and waits end by decision K16."""
    lives = [t for t in machine.threads if t.tid == tid]
    if not lives:
        return None, []
    lives = [t for t in lives if t.life == 0 or t.met <= q.end]
    rows = defaultdict(list)
    for thread, begin, end, state in join(machine.thread_rows):
        rows[thread].append((begin, end, state))
    wakes = {(thread, at): (waker, ending if explains else reason) for at, thread, waker, reason, base, ending in machine.wakes}
    answer = []

    def put(begin, end, thread, state):
        if begin < end:
            answer.append((begin, end, thread, state))

    def walk(thread, begin, end, seen=()):
        born = thread.born
        if born is not None and begin < born <= end:
            if thread.creator is not None and thread.creator is not thread and thread not in seen:
                walk(thread.creator, begin, born, (*seen, thread))
            else:
                put(begin, born, thread, "unknown")
            begin = born
        at = begin
        for x, y, state in rows[thread]:
            x, y, until = max(x, begin), min(y, end), y
            if x >= y:
                continue
            put(at, x, thread, "unknown")
            at = y
            if state.startswith("RUN/") or state == "EXIT":
                put(x, y, thread, "running")
            elif state == "INTERRUPTED":
                put(x, y, thread, "interrupted")
            elif state == "WAIT_CPU":
                put(x, y, thread, "wait_cpu")
            elif state == "UNKNOWN":
                put(x, y, thread, "unknown")
            elif state in ("ZOMBIE", "DEAD"):
                put(x, y, thread, "ended")
            else:
                waker, reason = wakes.get((thread, until), (None, None)) if until == y else (None, None)
                if reason == "thread" and waker is not thread:
                    walk(waker, x, y)
                elif reason in (None, "unknown", "thread"):
                    put(x, y, thread, "blocked")
                else:
                    put(x, y, thread, reason)
        put(at, end, thread, "unknown")

    life = lives[-1]
    begin, end = q.begin, q.end
    if explains and not q.has_begin and life.born is not None:
        begin = min(max(begin, life.born), end)
    if explains and not q.has_end:
        ended = list(itertools.takewhile(lambda row: row[2] in ("ZOMBIE", "DEAD"), reversed(rows[life])))
        if ended and ended[-1][0] > begin:
            end = min(ended[-1][0], end)
    # Before, the number was that of another thread, which did not make this one.
    walk(life, begin if life.life == 0 or life.creator is not None else max(begin, life.met), end)
    return life, answer


def path(machine, q, tid):
    life, answer = parts_of_path(machine, q, tid)
    if life is None:
        return None, {}
    joined = []
    for begin, end, thread, state in answer:
        if joined and joined[-1]["thread"] is thread and joined[-1]["state"] == state:
            joined[-1]["to"] = end
        else:
            joined.append({"from": begin, "to": end, "tid": thread.tid, "state": state, "thread": thread})
    return [{k: v for k, v in row.items() if k != "thread"} for row in joined], {}


def why(machine, q, tid):
    """Sums of the parts of a path: those that wait for a CPU by that CPU and by who had it."""
    life, answer = parts_of_path(machine, q, tid, explains=True)
    if life is None:
        return None, {}
    sums = Counter()
    for begin, end, thread, state in answer:
        if state != "wait_cpu":
            sums[thread.tid, thread is life, state, None, None, False] += end - begin
            continue
        for x, y, cpu in queued(machine, thread, begin, end):
            left = y - x
            for of, first, last, cur, status in machine.cpu_rows if cpu is not None else ():
                time = min(last, y) - max(first, x)
                if of is not cpu or time <= 0:
                    continue
                left -= time
                is_interrupt = status in ("irq", "softirq")
                by = None if is_interrupt or cur is None else 0 if cur == 0 else cur.tid
                sums[thread.tid, thread is life, state, cpu.number, by, is_interrupt] += time
            if left:
                sums[thread.tid, thread is life, state, None if cpu is None else cpu.number, None, False] += left
    keys = ("tid", "own", "state", "cpu", "by", "is_interrupt")
    return [dict(zip(keys, key), total_ns=total) for key, total in sums.items() if total], {}


def queued(machine, thread, begin, end):
    """The CPUs in whose queues a thread stood in a range in which it was runnable: begin, end, the CPU or None."""
    changes = []
    for at, named, cpu, is_running in machine.queues:
        if named is thread and (not changes or changes[-1][1] is not cpu):
            changes.append((at, cpu, is_running))
    waits = [x for of, x, _, state in machine.thread_rows if of is thread and state == "WAIT_CPU"]
    cuts = sorted({begin, end, *(at for at, _, _ in changes if begin < at < end)})
    for x, y in zip(cuts, cuts[1:]):
        before = [change for change in changes if change[0] <= x]
        after = [change for change in changes if change[0] > x]
        cpu = before[-1][1] if before else None
        # It ran elsewhere than in the queue where it was put last.
        if before and after and after[0][2] and not any(x < wait < after[0][0] for wait in waits):
            cpu = None
        yield x, y, cpu


def sums_of_why(totals):
    """The totals of an answer of `why`, summed up as those of the function above."""
    sums = Counter()
    for row in totals:
        is_interrupt = row["state"] == "wait_cpu" and row["source"] is not None
        sums[row["tid"], row["own"], row["state"], row["cpu"], row["by"], is_interrupt] += row["total_ns"]
    keys = ("tid", "own", "state", "cpu", "by", "is_interrupt")
    return [dict(zip(keys, key), total_ns=total) for key, total in sums.items()]
