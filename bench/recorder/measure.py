"""What recording costs, beside LTTng-UST, uftrace and trace-cmd: CPU time of the thread an event and a call, time that
passes a call, CPU time of the recorder a MiB of kernel events; medians of seven rounds in which all take turns.

    cargo build --release && cargo build --release -p tracemill-record-c && (cd bench/recorder && cargo build --release)
    python3 bench/recorder/measure.py target/release/tracemill bench/recorder/target/release/cost [RESULT.json]

What is not installed is left out, and said so.
"""
import datetime, json, os, pathlib, platform, resource, shutil, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).parent.resolve()
ROUNDS, EVENTS, CALLS, SWITCHES = 7, 3_000_000, 1_000_000, 60_000
ROOT = HERE.parent.parent
WAYS = {"-pg": ["-pg"], "-mfentry": ["-pg", "-mfentry"], "-finstrument-functions": ["-finstrument-functions"]}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **more)


def numbers(result):
    return [float(line) for line in result.stderr.split("\n") if line.replace(".", "", 1).isdigit()]


def last_number(result):
    return numbers(result)[-1]


def recorder_cpu(*command):
    """CPU time in s that a command takes beside the program in it, which says at its end how much it took itself."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - numbers(result)[-1]


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

        kinds = ["flight", "stream", "text", "off", "pair", "alone", "alone-pair", "consumer"]
        kinds += ["tracing", "tracing-subscriber", "tracing-empty", "counter", "clock"]
        for kind in kinds:
            measures[f"event, {kind}"] = lambda kind=kind: ours(kind)
        has_headers = subprocess.run(["gcc", "-E", "-x", "c", "-"], input="#include <lttng/tracepoint.h>", text=True,
                                     capture_output=True).returncode == 0
        if shutil.which("lttng") and has_headers:
            ust = Ust(folder)
            measures["event, LTTng-UST, overwriting"] = lambda: ust.measure(True)
            measures["event, LTTng-UST, off"] = lambda: ust.measure(False)
        else:
            print("left out: LTTng-UST is not installed")
        library = ROOT / "target/release/libtracemill_record.a"
        if library.exists():
            header = folder / "record-c"
            # An event that is off takes a cycle; where its loop stands would take another.
            run("gcc", "-O2", "-falign-loops=64", f"-I{ROOT}/crates/recorder/c/include", "-o", header, HERE / "record.c", library, "-pthread")

            def in_c(kind):
                shutil.rmtree(folder / "t", ignore_errors=True)
                return last_number(run(header, kind, folder / "t", EVENTS))

            for kind in ["flight", "stream", "text", "off"]:
                measures[f"event in C, {kind}"] = lambda kind=kind: in_c(kind)
        else:
            print("left out: the library for C is not built")
        # Each measure of calls gives two numbers: CPU time, and the time that passes.
        for way, flags in WAYS.items():
            program = folder / f"calls{way}"
            run("gcc", "-O2", *flags, "-o", program, HERE / "calls.c")
            options = [[], ["-D", "1"], ["-t", "1us"]] + ([] if way.startswith("-fin") else [["-A", "leaf@arg1"]])
            options += [["-N", "nothing_like_it|other"]] if way == "-pg" else []
            for more in options:
                name = " ".join([f"call, {way}", *more])
                measures[name] = lambda program=program, more=more: numbers(
                    run(tracemill, "record", "-o", folder / "o", *more, program, CALLS))[-2:]
                if shutil.which("uftrace"):
                    measures[f"{name}, uftrace"] = lambda program=program, more=more: numbers(
                        run("uftrace", "record", "--no-libcall", "--no-event", "-d", folder / "u", *more, program, CALLS))[-2:]
        # A function of the C library that does nothing else than return, with both ways of binding.
        for binding in ["lazy", "now"]:
            program = folder / f"library-{binding}"
            run("gcc", "-O2", "-fno-builtin", "-DLIBRARY", f"-Wl,-z,{binding}", "-pg", "-o", program, HERE / "calls.c")
            for more in [[], ["-t", "1us"], ["-A", "labs@arg1"]]:
                name = " ".join([f"call to a library, {binding}", *more])
                measures[name] = lambda program=program, more=more: numbers(
                    run(tracemill, "record", "-o", folder / "o", *more, program, CALLS))[-2:]
                if shutil.which("uftrace"):
                    measures[f"{name}, uftrace"] = lambda program=program, more=more: numbers(
                        run("uftrace", "record", "--no-event", "-d", folder / "u", *more, program, CALLS))[-2:]
        if not shutil.which("uftrace"):
            print("left out: uftrace is not installed")
        switches = folder / "switches"
        run("gcc", "-O2", "-o", switches, HERE / "switches.c")

        def kernel(*command):
            """CPU time in ms a MiB of pages."""
            seconds = recorder_cpu(*command, switches, SWITCHES)
            return seconds * 1e3 / (os.path.getsize(folder / "k.dat") / 2**20)

        of_kernel = [tracemill, "record", "-o", folder / "k.dat", "-E", "sched"]
        if subprocess.run([*of_kernel, "true"], capture_output=True).returncode == 0:
            measures["kernel events"] = lambda: kernel(*of_kernel)
            of_trace_cmd = ["trace-cmd", "record", "-o", folder / "k.dat", "-q", "-F", "-c", "-e", "sched"]
            if not shutil.which("trace-cmd"):
                print("left out: trace-cmd is not installed")
            elif (tried := subprocess.run([*of_trace_cmd, "true"], capture_output=True, text=True)).returncode:
                print(f"left out: trace-cmd cannot record here: {tried.stderr.strip()}")
            else:
                measures["kernel events, trace-cmd"] = lambda: kernel(*of_trace_cmd)
        else:
            print("left out: kernel events cannot be recorded here")
        found = {name: [] for name in measures}
        for _ in range(ROUNDS):
            for name, measure in measures.items():
                value = measure()
                found[name].append(value[0] if isinstance(value, list) else value)
                if isinstance(value, list):
                    found.setdefault(f"{name}, passing", []).append(value[1])
    medians = {name: statistics.median(values) for name, values in found.items()}
    for name, median in medians.items():
        print(f"{median:9.2f} {'ms a MiB' if name.startswith('kernel') else 'ns'}  {name}")
        other = medians.get(f"{name}, uftrace" if "passing" not in name else name.replace(", passing", ", uftrace, passing"))
        if other and ", uftrace" not in name:
            print(f"             {median / other:.2f} of uftrace's")
    if len(sys.argv) > 3:
        result = {"date": datetime.date.today().isoformat(), "system": platform.platform(), "cpus": os.cpu_count(),
                  "rounds": ROUNDS, "events": EVENTS, "calls": CALLS, "unit": "ns of CPU time of the thread",
                  "medians": medians, "all": found}
        pathlib.Path(sys.argv[3]).write_text(json.dumps(result, indent=1) + "\n")


main()
