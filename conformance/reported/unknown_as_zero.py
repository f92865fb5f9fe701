"""A trace.dat says nothing of kernel threads, and has no state dump: what is not known is null."""
import json
import subprocess


def check(program, folder):
    trace = folder.parent.parent / "trace-cmd" / "sched-syscalls" / "trace.dat"
    run = subprocess.run([program, "analyze", "processes", "--json", str(trace)], capture_output=True, text=True)
    for row in json.loads(run.stdout)["rows"]:
        if (row["comm"] or "").startswith(("kworker", "rcu")) and row["kernel"] is False:
            yield f"a thread of the kernel is said not to be one: {row}"
        if row["irq_ns"] is not None:
            yield f"no event tells of interrupts, but they take {row['irq_ns']} ns: {row}"
