"""A second machine of states, written from sections 1 and 2 of docs/kernel.md alone.

It is slow and plain: after each event it looks at every CPU and every thread anew and notes whose state has changed. Rows,
spans and counts are kept in lists, from which kernel_answers.py works out what each analysis has to say.
"""

KTHREADD = 2
DEPTH = 64
SOFTIRQS = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]


class Thread:
    """A life of a thread."""

    def __init__(self, tid, life):
        self.tid, self.life = tid, life
        self.base = "UNKNOWN"
        self.stack = []  # ("syscall" | "trap", name, since); the name is None when its entry was not seen
        self.mode_known = self.kernel = self.exited = self.freed = self.had_state = False
        self.pid = self.ppid = self.comm = self.prio = None
        self.cpu = self.last_cpu = self.queued = self.woken = self.named = None
        self.placed, self.sure = False, None  # in a queue that is known; when events proved last what it does off the CPU
        self.born = self.exit = self.free = self.creator = None
        self.met = None
        self.runs, self.preempted, self.blocked, self.left, self.migrations = [], [], [], [], []
        self.row = None
        self.over = False  # there is a newer life
        self.names = []

    def comm_at(self, time):
        known = [name for at, name in self.names if at <= time]
        return known[-1] if known else None


class Cpu:
    def __init__(self, number):
        self.number = number
        self.cur = None  # None: unknown, 0: idle, or a Thread
        self.stack = []  # ["irq" | "softirq" | "trap", number, since, name, raised]
        self.raises = {}
        self.timer = self.ipi = False
        self.khz = None
        self.unknown_since = None
        self.row = None
        self.switches = []


class Machine:
    def __init__(self):
        self.cpus, self.threads, self.newest = {}, [], {}
        self.begin = self.now = None
        self.recorded = None  # numbers of the CPUs that have events, when they are known
        self.coming = []  # (time, "see" | "unsee", cpu): when CPUs begin or cease to be seen, in order
        self.unseen, self.partial = set(), []  # CPUs that are not seen; the times at which some were not: [begin, end or None]
        self.cpu_rows, self.thread_rows, self.credits = [], [], []
        self.waits, self.interrupts, self.calls, self.wakes = [], [], [], []
        self.entries, self.after = [], []
        self.forks = []
        self.queues = []  # after an event that names a thread: time, thread, the CPU where it runs or is queued, does it run
        self.seen = []  # every event of a concept: time, cpu, the running thread, name and fields
        self.counts = dict.fromkeys(
            ["unmatched_syscall_exits", "replaced_syscalls", "unmatched_irq_exits", "inconsistent_switches"]
            + ["cleared_interrupts", "bad_fields", "time_back", "too_deep"], 0)

    # ---- Looking at it -----------------------------------------------------------------------------------------------

    def thread_state(self, thread):
        if thread.base != "RUN":
            return thread.base
        if thread.exited:
            return "EXIT"
        if thread.cpu is not None and thread.cpu.stack:
            return "INTERRUPTED"
        return "RUN/" + self.mode(thread)

    @staticmethod
    def mode(thread):
        if thread.stack:
            return thread.stack[-1][0]
        if thread.kernel:
            return "kernel"
        return "user" if thread.mode_known else "unknown"

    def status(self, cpu):
        if cpu.stack:
            return cpu.stack[-1][0]
        if cpu.cur is None:
            return "unknown"
        return "idle" if cpu.cur == 0 else self.mode(cpu.cur)

    def look(self):
        """Ends the rows of everything that has changed."""
        for cpu in self.cpus.values():
            now = (cpu.cur, self.status(cpu))
            if cpu.row is None:
                cpu.row = (self.begin, None, "unknown")
            if cpu.row[1:] != now:
                self.cpu_rows.append((cpu, cpu.row[0], self.now, *cpu.row[1:]))
                cpu.row = (self.now, *now)
        for thread in self.threads:
            state = self.thread_state(thread)
            if thread.row is None or thread.row[1] != state:
                self.end_row(thread)
                thread.row = (self.now, state)
            thread.had_state |= state != "UNKNOWN"

    def end_row(self, thread):
        if thread.row is not None and not thread.over:
            self.thread_rows.append((thread, thread.row[0], self.now, thread.row[1]))

    def finish(self):
        self.take_losses(self.now)
        self.look()
        for thread in self.threads:
            self.forget_unsure(thread)
        for cpu in self.cpus.values():
            self.cpu_rows.append((cpu, cpu.row[0], self.now, *cpu.row[1:]))
        for thread in self.threads:
            self.end_row(thread)

    # ---- Finding things ----------------------------------------------------------------------------------------------

    def cpu(self, number):
        if number not in self.cpus:
            self.cpus[number] = Cpu(number)
            self.cpus[number].unknown_since = self.begin
        return self.cpus[number]

    # ---- CPUs that are not seen (docs/kernel.md, section 2.6) ------------------------------------------------------------

    TOGETHER = 10_000_000

    def cover(self, covered, counted):
        """The times of the streams by CPU, (begin, end or None), and how many CPUs the environment counts."""
        self.recorded = set(covered)
        first = min(begin for begin, _ in covered.values())
        last = max((end for _, end in covered.values() if end is not None), default=0)
        for cpu in {0, *range(counted), *covered}:
            begin, end = covered.get(cpu, (None, None))
            if begin is None or first + self.TOGETHER < begin:
                self.coming.append((-1, "unsee", cpu))
            if begin is not None and first + self.TOGETHER < begin:
                self.coming.append((begin, "see", cpu))
            if end is not None and end + self.TOGETHER < last:
                self.coming.append((end, "unsee", cpu))
        self.coming.sort()

    def named_cpu(self, number):
        """A CPU that an event speaks of: without events of its own it was never seen."""
        if number not in self.cpus and self.recorded is not None and number not in self.recorded:
            self.unseen.add(self.cpu(number))
            self.partial = [[self.begin, None]]
        return self.cpu(number)

    def unsee(self, number):
        cpu = self.cpu(number)
        if cpu in self.unseen:
            return
        self.lose(number)
        if not self.unseen:
            self.partial.append([self.now, None])
        self.unseen.add(cpu)

    def see(self, number):
        cpu = self.cpu(number)
        if cpu not in self.unseen:
            return
        self.unseen.remove(cpu)
        cpu.unknown_since = self.now if cpu.cur is None else None
        if not self.unseen:
            self.partial[-1][1] = self.now

    def unsure_since(self, thread):
        """Since when it is not known what a thread did off the CPU; None when it is known."""
        if thread.cpu is not None or thread.base in ("UNKNOWN", "DEAD") or thread.over:
            return None
        for begin, end in self.partial:
            if end is None or end > thread.sure:
                return max(begin, thread.sure)
        return None

    def forget_unsure(self, thread):
        since = self.unsure_since(thread)
        if since is None:
            return
        if thread.row is not None:
            begin, state = thread.row
            if begin < since:
                self.thread_rows.append((thread, begin, since, state))
            thread.row = (max(begin, since), "UNKNOWN")
        self.forget(thread)

    def leave_to_unseen(self, thread):
        if thread.queued in self.unseen and thread.base not in ("ZOMBIE", "DEAD"):
            self.forget_but_show(thread)

    def forget_but_show(self, thread):
        """Forgets a thread whose state until now was known."""
        self.look()
        self.forget(thread)

    def life(self, tid):
        """A new life; what the one before did ends now."""
        before = self.newest.get(tid)
        if before is not None:
            self.forget_unsure(before)
            if before.cpu is not None:
                before.cpu.cur = None
            self.look()
            self.end_row(before)
            before.over = True
            before.base, before.cpu, before.stack, before.woken = "DEAD", None, [], None
        thread = Thread(tid, before.life + 1 if before else 0)
        thread.met = thread.sure = self.now
        self.newest[tid] = thread
        self.threads.append(thread)
        return thread

    def known(self, tid):
        return self.newest.get(tid) or self.life(tid)

    def alive(self, tid):
        thread = self.newest.get(tid)
        return thread if thread and thread.base not in ("ZOMBIE", "DEAD") else self.life(tid)

    def rename(self, thread, name):
        if name is not None and name != thread.comm:
            thread.comm = name
            thread.names.append((self.now, name))

    def forget(self, thread):
        if thread.cpu is not None:
            thread.cpu.cur = None
            thread.cpu = None
        thread.base, thread.stack, thread.mode_known, thread.woken = "UNKNOWN", [], False, None

    def take_from_other_cpu(self, thread, cpu):
        if thread.cpu is not None and thread.cpu is not cpu:
            thread.cpu.cur = None
            thread.cpu = None

    def runs_on(self, thread, cpu):
        thread.base, thread.cpu, thread.last_cpu, thread.queued = "RUN", cpu, cpu, cpu
        thread.woken = None
        cpu.cur = thread

    # ---- Events ------------------------------------------------------------------------------------------------------

    def lose(self, number):
        """Forgets all that a loss on a CPU touches, at this time."""
        cpu = self.cpu(number)
        for thread in self.threads:
            if (thread.cpu is cpu or thread.queued is cpu) and thread.base not in ("ZOMBIE", "DEAD"):
                self.forget(thread)
        cpu.cur, cpu.stack, cpu.raises, cpu.timer, cpu.ipi = None, [], {}, False, False
        cpu.unknown_since = self.now
        self.look()

    def pass_time(self, time):
        if self.begin is None:
            self.begin = self.now = time
        if time < self.now:
            self.counts["time_back"] += 1
        self.take_losses(max(self.now, time))
        self.now = max(self.now, time)

    def take_losses(self, until):
        while self.coming and (self.coming[0][0] < until or self.coming[0][:2] == (until, "see")):
            at, what, cpu = self.coming.pop(0)
            self.now = max(self.now, at)
            getattr(self, what)(cpu)

    def take(self, time, number, concept, f, name, context=None):
        """An event: its time, its CPU, what it means, its fields, its name, and the running thread by its context."""
        self.pass_time(time)
        cpu = None if number is None else self.cpu(number)
        if context is not None and cpu is not None and cpu.cur is None:
            cpu.unknown_since = None
            if context == 0:
                cpu.cur = 0
            else:
                thread = self.alive(context)
                self.forget_unsure(thread)
                self.take_from_other_cpu(thread, cpu)
                self.runs_on(thread, cpu)
        if concept is not None:
            rule = getattr(self, "on_" + concept, None)
            if rule is not None:
                rule(cpu, f)
            fields = {"switch": ("prev", "next"), "wake": ("tid",), "migrate": ("tid",), "fork": ("child",)}
            for field in fields.get(concept, ()):
                thread = self.newest.get(f[field])
                if thread is not None:
                    self.queues.append((self.now, thread, thread.queued, thread.cpu is not None))
            cur = cpu.cur if cpu is not None else None
            pids = {thread: thread.pid for thread in self.threads}
            self.seen.append((self.now, cpu, cur, concept, f, pids))
        self.look()
        if cpu is not None:
            self.after.append((self.now, cpu, cpu.cur, self.status(cpu), name))

    def on_switch(self, cpu, f):
        prev, following = f["prev"], f["next"]
        self.counts["cleared_interrupts"] += len(cpu.stack)
        cpu.stack, cpu.timer, cpu.ipi = [], False, False
        since, cpu.unknown_since = cpu.unknown_since, None
        cur = cpu.cur
        fits = cur is None or (prev == 0 if cur == 0 else cur.tid == prev)
        if not fits:
            self.counts["inconsistent_switches"] += 1
            if cur != 0:
                self.forget(cur)
            cpu.cur = None
        if prev != 0:
            thread = cur if fits and cur is not None else self.alive(prev)
            self.forget_unsure(thread)
            if since is not None and fits:
                since = max(since, thread.named) if thread.named is not None else since
                self.credits.append((cpu, thread, since, self.now))
            self.take_from_other_cpu(thread, cpu)
            self.rename(thread, f.get("prev_comm"))
            self.leaves(thread, cpu, f["state"])
        cpu.cur = None
        if following == 0:
            cpu.cur = 0
        else:
            thread = self.alive(following)
            if not (thread.base == "WAIT_CPU" and thread.placed and thread.queued is cpu):
                self.forget_unsure(thread)
            self.take_from_other_cpu(thread, cpu)
            self.rename(thread, f.get("next_comm"))
            thread.named = self.now
            thread.prio = f.get("prio", thread.prio)
            woken = thread.woken
            thread.runs.append(self.now)
            if thread.last_cpu not in (None, cpu):
                thread.migrations.append(self.now)
            self.runs_on(thread, cpu)
            if woken:
                at, waker, reason, waker_comm = woken
                self.waits.append(dict(wake=at, run=self.now, thread=thread, comm=thread.comm, prio=f.get("prio"), cpu=cpu,
                                       waker=waker, waker_comm=waker_comm, reason=reason, pid=thread.pid))
        cpu.switches.append(self.now)

    def leaves(self, thread, cpu, state):
        if thread.freed:
            base = "DEAD"
        elif thread.exited and state & (16 | 32 | 64 | 128):
            base = "ZOMBIE"
        elif state & 15:
            base = "WAIT"
        elif state & 48:
            base = "ZOMBIE"
        elif state & 192:
            base = "WAIT"
        else:
            base = "WAIT_CPU"
        thread.base, thread.cpu, thread.last_cpu, thread.queued, thread.named = base, None, cpu, cpu, self.now
        thread.placed, thread.sure = True, self.now
        thread.left.append(self.now)
        if base == "WAIT_CPU":
            thread.preempted.append(self.now)
        if base == "WAIT":
            thread.blocked.append(self.now)

    def on_wake(self, cpu, f):
        tid = f["tid"]
        if tid == 0:
            return
        known = self.newest.get(tid)
        if known is not None and known.base == "RUN":
            return
        thread = self.alive(tid)
        if thread.comm is None:
            self.rename(thread, f.get("comm"))
        if thread.prio is None:
            thread.prio = f.get("prio")
        thread.named = self.now
        cur = cpu.cur if isinstance(cpu.cur, Thread) else None
        slept_on = f.get("from")
        proven = True
        if self.unsure_since(thread) is not None:
            if thread.base == "WAIT":
                proven = slept_on is not None and thread.last_cpu is not None and thread.last_cpu.number == slept_on
            elif thread.base == "WAIT_FORK":
                proven = cur is not None and cur is thread.creator
            elif thread.base == "WAIT_CPU" and slept_on is None:
                proven = thread.woken is not None
            else:
                proven = thread.base == "WAIT_CPU" and thread.placed and thread.queued is not None and thread.queued.number == slept_on
            if not proven:
                self.forget_unsure(thread)
            if not proven or thread.base != "WAIT_CPU":
                thread.sure = self.now
        unproven = slept_on is None and bool(self.partial) and thread.base == "UNKNOWN"
        if thread.woken is None and not unproven:
            reason = self.reason(cpu)
            thread.woken = (self.now, cur, reason, cur.comm if cur else None)
            self.wakes.append((self.now, thread, cur, reason, thread.base, self.ending(cpu, thread, reason)))
        if thread.base in ("WAIT", "WAIT_FORK", "UNKNOWN"):
            thread.base = "WAIT_CPU"
        thread.placed = slept_on is None and f.get("cpu") is not None
        if f.get("cpu") is not None:
            thread.queued = self.named_cpu(f["cpu"])
        self.leave_to_unseen(thread)

    @staticmethod
    def reason(cpu):
        if cpu.timer:
            return "timer"
        if cpu.ipi:
            return "ipi"
        if cpu.stack:
            kind, number = cpu.stack[-1][:2]
            if kind == "softirq":
                return {1: "timer", 8: "timer", 2: "network", 3: "network", 4: "disk", 5: "disk"}.get(number, "softirq")
            return "irq"
        return "thread" if isinstance(cpu.cur, Thread) else "unknown"

    def ending(self, cpu, thread, reason):
        """The reason of a wake as analyses have it that explain waits (K16)."""
        def call(of):
            # Calls whose entry was seen.
            names = [frame[1] for frame in of.stack if frame[1] is not None]
            return names[-1] if names else None
        if reason == "network" and cpu.cur not in (None, 0) and cpu.stack[-1][5] is cpu.cur:
            return "thread"
        if call(thread) not in ("nanosleep", "clock_nanosleep"):
            return reason
        if reason == "thread" and (call(cpu.cur) == "kill" or cpu.cur.exited):
            return reason
        return "timer" if reason in ("thread", "unknown", "irq") else reason

    def on_migrate(self, cpu, f):
        if f["tid"] != 0:
            thread = self.known(f["tid"])
            if thread.base != "RUN":
                if self.unsure_since(thread) is not None:
                    if f.get("from") is not None and (thread.queued is None or thread.queued.number != f["from"]):
                        self.forget_unsure(thread)
                    thread.placed = True
                thread.queued = self.named_cpu(f["cpu"])
                self.leave_to_unseen(thread)

    def on_fork(self, cpu, f):
        child = f["child"]
        if child == 0:
            return
        parent = self.known(f["parent"]) if f["parent"] != 0 else None
        thread = self.newest.get(child)
        if thread is None or thread.base != "UNKNOWN" or thread.had_state:
            thread = self.life(child)
        pid, said = f.get("pid"), f.get("ppid")
        listed = thread.pid is not None and thread.ppid is not None and parent is not None
        if pid is None and said is None and listed and parent.pid in (None, thread.ppid):
            pid, said = thread.pid, thread.ppid
        ppid = said
        if ppid is None and parent is not None:
            ppid = parent.pid
        thread.kernel = f["parent"] == KTHREADD or parent is not None and parent.kernel
        thread.pid = pid
        if pid is not None and pid == said:
            thread.ppid = parent.ppid if parent else None
        else:
            thread.ppid = f["parent"] if ppid is None else ppid
        if parent is not None and parent.pid is None:
            parent.pid = ppid
        self.rename(thread, f.get("comm") or (parent.comm if parent else None))
        thread.base, thread.mode_known, thread.exited, thread.freed = "WAIT_FORK", True, False, False
        thread.named = thread.born = thread.sure = self.now
        thread.creator = parent
        thread.stack = [] if thread.kernel else [("syscall", None, None)]
        self.forks.append((self.now, parent, thread))

    def on_exec(self, cpu, f):
        if f["tid"] != 0:
            self.rename(self.known(f["tid"]), f["name"].split("/")[-1][:15])

    def on_exit(self, cpu, f):
        if f["tid"] == 0:
            return
        thread = self.known(f["tid"])
        if thread.base == "DEAD":
            return
        thread.exited = True
        thread.exit = self.now if thread.exit is None else thread.exit
        if not thread.stack:
            thread.stack = [("syscall", None, None)]

    def on_free(self, cpu, f):
        if f["tid"] == 0:
            return
        thread = self.known(f["tid"])
        if thread.base == "DEAD":
            return
        thread.freed = True
        thread.free = self.now
        if thread.cpu is None:
            thread.base, thread.stack, thread.woken = "DEAD", [], None

    def on_prio(self, cpu, f):
        if f["tid"] in self.newest:
            self.newest[f["tid"]].prio = f["prio"]

    def on_frequency(self, cpu, f):
        if self.recorded is not None and f["cpu"] not in self.recorded:
            self.named_cpu(f["cpu"])
        if f["cpu"] in self.cpus:
            self.cpus[f["cpu"]].khz = f["khz"]

    def on_sys_entry(self, cpu, f):
        thread = cpu.cur
        if not isinstance(thread, Thread):
            return
        kept = [frame for frame in thread.stack if frame[0] != "syscall"]
        self.counts["replaced_syscalls"] += len(thread.stack) - len(kept)
        thread.stack = kept + [("syscall", f["name"], self.now)]
        thread.mode_known = True
        self.entries.append((self.now, thread, f))

    def on_sys_exit(self, cpu, f):
        thread = cpu.cur
        if not isinstance(thread, Thread):
            return
        thread.mode_known = True
        at = max((at for at, frame in enumerate(thread.stack) if frame[0] == "syscall"), default=None)
        if at is None:
            self.counts["unmatched_syscall_exits"] += 1
            return
        _, name, since = thread.stack[at]
        del thread.stack[at:]
        if name is not None:
            self.calls.append(dict(thread=thread, name=name, cpu=cpu, begin=since, end=self.now, ret=f.get("ret"),
                                   comm=thread.comm, pid=thread.pid, exit=f))

    def enter(self, cpu, kind, f):
        number = f.get("nr", -1)
        raised, sender = cpu.raises.pop(number, (None, None)) if kind == "softirq" else (None, None)
        if len(cpu.stack) >= DEPTH:
            self.counts["too_deep"] += 1
            return
        cpu.stack.append((kind, number, self.now, f.get("name"), raised, sender))

    def leave(self, cpu, kind, f):
        fits = [at for at, frame in enumerate(cpu.stack) if frame[0] == kind and f.get("nr") in (None, frame[1])]
        if not fits:
            self.counts["unmatched_irq_exits"] += 1
            return
        _, number, since, name, raised, _ = cpu.stack[fits[-1]]
        del cpu.stack[fits[-1]:]
        if kind == "softirq":
            name = SOFTIRQS[number] if 0 <= number < len(SOFTIRQS) else None
        self.interrupts.append(dict(kind=kind, nr=number, name=name, cpu=cpu, begin=since, end=self.now, raised=raised))

    def on_irq_entry(self, cpu, f):
        self.enter(cpu, "irq", f)

    def on_irq_exit(self, cpu, f):
        self.leave(cpu, "irq", f)

    def on_soft_entry(self, cpu, f):
        self.enter(cpu, "softirq", f)

    def on_soft_exit(self, cpu, f):
        self.leave(cpu, "softirq", f)

    def on_soft_raise(self, cpu, f):
        is_call = self.reason(cpu) == "thread" and self.mode(cpu.cur) == "syscall"
        by = cpu.cur if is_call else None
        at, first = cpu.raises.get(f["nr"], (self.now, by))
        cpu.raises[f["nr"]] = at, first if first is by else None

    def on_timer_entry(self, cpu, f):
        cpu.timer = True

    def on_timer_exit(self, cpu, f):
        cpu.timer = False

    def on_ipi_entry(self, cpu, f):
        cpu.ipi = True

    def on_ipi_exit(self, cpu, f):
        cpu.ipi = False

    def on_dump_task(self, cpu, f):
        if f["tid"] == 0:
            return
        thread = self.known(f["tid"])
        thread.pid = f["pid"] if thread.pid is None else thread.pid
        thread.ppid = f["ppid"] if thread.ppid is None else thread.ppid
        if thread.comm is None:
            self.rename(thread, f["comm"])
        thread.kernel |= f["type"] == 1
        if thread.base == "UNKNOWN":
            states = {1: "WAIT_FORK", 2: "WAIT_CPU", 3: "RUN", 4: "ZOMBIE", 5: "WAIT", 6: "WAIT_CPU", 7: "DEAD"}
            thread.base = states.get(f["status"], "UNKNOWN")
            thread.sure = self.now
            thread.exited |= f["status"] == 3
            thread.mode_known |= f["mode"] in (0, 1, 2)
            thread.stack = {1: [("syscall", None, None)], 2: [("trap", None, None)]}.get(f["mode"], [])
            if thread.base == "DEAD":
                thread.stack = []
