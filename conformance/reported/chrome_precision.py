"""Times of Chrome's JSON, read as Python and browsers read them, are those of the events to the ns."""
import json
import pathlib
import subprocess


def check(program, folder):
    trace = pathlib.Path(__file__).parents[2] / "demo/kernel/bakery"
    run = lambda *words: subprocess.run([program, *words, trace], capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in run("print", "--format", "jsonl").splitlines()]
    file = json.loads(run("convert", "-q", "--to", "chrome", "-o", "-"))
    base = int(file["otherData"]["base_ns"])
    losses = ["discarded events", "lost packets"]
    events = [event for event in file["traceEvents"] if event["ph"] in "BEi" and "args" in event]
    stamps = [event["ts"] for event in events if event["name"] not in losses]
    times = [line["ns"] for line in lines if "ns" in line and "name" in line]
    own = [base + round(stamp * 1000) for stamp in stamps]
    if own != times:
        yield f"{sum(a != b for a, b in zip(own, times))} of {len(times)} times differ ({len(own)} are in the file)"
