"""A kernel trace without the stream of CPU 1: waits must not reach over what was not seen."""
import json
import subprocess


def check(program, folder):
    def ask(*words):
        run = subprocess.run([program, "analyze", *words, "--json", str(folder / "trace")], capture_output=True, text=True)
        if run.returncode not in (0, 3):
            raise AssertionError(run.stderr)
        return json.loads(run.stdout)

    sched = ask("sched")
    # With both streams the longest wait on CPU 0 takes 3.1 us, all of them 0.19 ms.
    if not 0 < sched["all"]["max_ns"] < 3_200 or not 0 < sched["all"]["total_ns"] < 200_000:
        yield f"waits: {sched['all']}"
    for name in ("cpu", "sched", "irq", "syscalls", "io", "locks", "memory", "processes", "states", "stats"):
        if ask(name)["notes"].get("unseen_cpus") != 1:
            yield f"{name} does not say that a CPU is missing"
    table = subprocess.run([program, "analyze", "sched", str(folder / "trace")], capture_output=True, text=True).stdout
    if "events of cpu 1 are missing" not in table:
        yield f"the table does not name the CPU: {table}"
    longest = max(row["duration_ns"] for row in ask("locks", "--log")["rows"] or [{"duration_ns": 0}])
    if longest > 1_000_000:
        yield f"a lock waits {longest} ns, though its thread may have run unseen"
    if "unknown" not in {row["state"] for row in ask("path", "--tid", "641")["rows"]}:
        yield "the path of 641 is all known"
