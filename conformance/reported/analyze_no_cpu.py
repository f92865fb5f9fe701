"""A trace of Zephyr's kind: its events say no CPU, and its switches name one thread."""
import json
import subprocess


def check(program, folder):
    words = [program, "analyze", "cpu,irq", "--concepts", str(folder / "z.concepts"), "--json", str(folder / "t")]
    run = subprocess.run(words, capture_output=True, text=True)
    cpu, irq = json.loads(run.stdout)["analyses"]
    names = {row["comm"] for row in cpu["rows"]}
    if names != {"main", "idle"}:
        yield f"threads: {names}"
    if cpu["all"]["time_ns"] != cpu["end_ns"] - cpu["begin_ns"]:
        yield f"the CPU ran {cpu['all']['time_ns']} ns"
    if not irq["rows"] or irq["all"]["total_ns"] != 1000 * irq["all"]["count"]:
        yield f"interrupts: {irq['rows']}"
    if cpu["notes"].get("assumed_cpus") != 1:
        yield "nothing says that one CPU is assumed"
