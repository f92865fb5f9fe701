"""What recording costs, beside LTTng-UST and uftrace: CPU time of the thread an event and a call, medians of seven rounds in
which all take turns.

    cargo build --release && (cd bench/recorder && cargo build --release)
    python3 bench/recorder/measure.py target/release/tracemill bench/recorder/target/release/cost [RESULT.json]

What is not installed is left out, and said so.
"""
import datetime, json, os, pathlib, platform, shutil, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).parent.resolve()
ROUNDS, EVENTS, CALLS = 7, 3_000_000, 1_000_000
WAYS = {"-pg": ["-pg"], "-mfentry": ["-pg", "-mfentry"], "-finstrument-functions": ["-finstrument-functions"]}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **more)


def last_number(result):
    lines = [line for line in result.stderr.split("\n") if line.replace(".", "", 1).isdigit()]
    return float(lines[-1])


class Ust:
    """A session of LTTng that overwrites, for one program."""

    def __init__(self, folder):
        self.program = folder / "events"
        run("gcc", "-O2", f"-I{HERE}", "-o", self.program, HERE / "events.c", "-llttng-ust", "-ldl", "-w")

    def measure(self, is_on):
        name = f"tracemill-cost-{os.getpid()}"
        if not is_on:
            return last_number(run(self.program, EVENTS))
        run("lttng", "create", name, "--snapshot")
        try:
            run("lttng", "enable-channel", "-u", "c", "--overwrite", "--subbuf-size=64k", "--num-subbuf=64")
            run("lttng", "enable-event", "-u", "-c", "c", "mill:tick")
            run("lttng", "start")
            return last_number(run(self.program, EVENTS))
        finally:
            run("lttng", "destroy", name, "--no-wait")


def main():
    tracemill, cost = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        measures = {}

        def ours(kind):
            shutil.rmtree(folder / "t", ignore_errors=True)
            return last_number(run(cost, kind, folder / "t", EVENTS))

        for kind in ["flight", "stream", "text", "off", "clock"]:
            measures[f"event, {kind}"] = lambda kind=kind: ours(kind)
        has_headers = subprocess.run(["gcc", "-E", "-x", "c", "-"], input="#include <lttng/tracepoint.h>", text=True,
                                     capture_output=True).returncode == 0
        if shutil.which("lttng") and has_headers:
            ust = Ust(folder)
            measures["event, LTTng-UST, overwriting"] = lambda: ust.measure(True)
            measures["event, LTTng-UST, off"] = lambda: ust.measure(False)
        else:
            print("left out: LTTng-UST is not installed")
        for way, flags in WAYS.items():
            program = folder / f"calls{way}"
            run("gcc", "-O2", *flags, "-o", program, HERE / "calls.c")
            measures[f"call, {way}"] = lambda program=program: last_number(
                run(tracemill, "record", "-o", folder / "o", program, CALLS))
            if shutil.which("uftrace"):
                measures[f"call, {way}, uftrace"] = lambda program=program: last_number(
                    run("uftrace", "record", "--no-libcall", "--no-event", "-d", folder / "u", program, CALLS))
        if not shutil.which("uftrace"):
            print("left out: uftrace is not installed")
        found = {name: [] for name in measures}
        for _ in range(ROUNDS):
            for name, measure in measures.items():
                found[name].append(measure())
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, median in medians.items():
        print(f"{median:9.2f} ns  {name}")
    if len(sys.argv) > 3:
        result = {"date": datetime.date.today().isoformat(), "system": platform.platform(), "cpus": os.cpu_count(),
                  "rounds": ROUNDS, "events": EVENTS, "calls": CALLS, "unit": "ns of CPU time of the thread",
                  "medians": medians, "all": found}
        pathlib.Path(sys.argv[3]).write_text(json.dumps(result, indent=1) + "\n")


main()
