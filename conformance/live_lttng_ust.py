#!/usr/bin/env python3
"""Record programs with LTTng's tracepoints by LTTng-UST and by our library, and compare.

    live_lttng_ust.py TRACEMILL LIBTRACEMILL_RECORD.A [--examples LTTNG-UST] [--ros2 ROS2_TRACING]

The programs of crates/recorder/c/tests/programs/lttng are compiled twice, without a change: with the headers and the library of
LTTng-UST, and with ours (crates/recorder/c/include/lttng-ust-compat). A session daemon of our own records the first one. Names,
levels, fields and values of all events are the same, as babeltrace2 prints both traces, and as we do.

With clones of the repositories of LTTng-UST and of ROS 2's tracing, the same is done for LTTng-UST's examples and tests of
compilation, and for all tracepoints of the package tracetools, called once each by a program that is made here.

All that was started is ended; exit status 1: something differs.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from live_lttng import Daemons, HERE, differences

ROOT = HERE.parent
INCLUDE = ROOT / "crates/recorder/c/include/lttng-ust-compat"
OWN = ROOT / "crates/recorder/c/tests/programs/lttng"
# Folder below the repository of LTTng-UST, and files.
EXAMPLES = {
    "easy": ("doc/examples/easy-ust", ["sample.c", "tp.c"]),
    "demo": ("doc/examples/demo", ["demo.c", "tp.c", "tp2.c", "tp3.c", "-rdynamic"]),
    "tracef": ("doc/examples/demo-tracef", ["demo-tracef.c"]),
    "vtracef": ("doc/examples/demo-tracef", ["demo-vtracef.c"]),
    "tracelog": ("doc/examples/demo-tracelog", ["demo-tracelog.c"]),
    "vtracelog": ("doc/examples/demo-tracelog", ["demo-vtracelog.c"]),
    "hello-static": ("doc/examples/hello-static-lib", ["hello.c", "tp.c"]),
    "hello-old": ("tests/compile/api0/hello", ["hello.c", "tp.c"]),
    "many": ("tests/compile/api0/hello-many", ["hello-many.c", "tp.c"]),
    "cxx-old": ("tests/compile/api0/hello.cxx", ["hello.cpp", "tp-cpp.cpp"]),
    "cxx": ("tests/compile/api1/hello.cxx", ["hello.cpp", "tp-cpp.cpp"]),
    "same-line": ("tests/compile/api0/same_line_tracepoint", ["same_line_tracepoint.c"]),
    "types-old": ("tests/compile/api0/ctf-types", ["ctf-types.c", "tp.c"]),
    "types": ("tests/compile/api1/ust-fields", ["ust-fields.c", "tp.c"]),
}


def compiled(folder, sources, to, libraries, flags=()):
    compiler = "c++" if any(source.endswith(".cpp") for source in sources) else "cc"
    command = [compiler, "-g", "-I.", *flags, *sources, "-o", str(to), *libraries, "-pthread", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return str(to)


def lines(command, daemons):
    """Levels, names and payloads of events, as a command prints them."""
    found = []
    for line in daemons.run(*command, "--no-delta", "--names=payload,context", "--fields=loglevel").stdout.splitlines():
        level, name, payload = re.match(r"\[[^]]*\] (\w+ \(\d+\)) ([\w:]+): (.*)$", line).groups()
        if not name.startswith("lttng_ust_statedump"):
            # The contexts are ours and LTTng's own.
            found.append(f"{level} {name} {payload[payload.rindex('}, {') + 3:] if '}, {' in payload else payload}")
    return found


def compare(args, daemons, home, name, folder, sources, flags=()):
    ours = compiled(folder, sources, home / f"{name}-ours", [args.library], [f"-I{INCLUDE}", *flags])
    theirs = compiled(folder, sources, home / f"{name}-theirs", ["-llttng-ust"], flags)
    trace = home / f"{name}.ctf"
    recorded = {**daemons.env, "TRACEMILL_RECORD": str(trace), "TRACEMILL_RECORD_FORMAT": "ctf1.8", "TRACEMILL_RECORD_MODE": "block"}
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 60}
    subprocess.run([ours], env=recorded, **quiet)
    daemons.lttng("create", name, f"--output={home / name}")
    daemons.lttng("enable-channel", "--userspace", f"--session={name}", "--blocking-timeout=inf", "c0")
    daemons.lttng("enable-event", "--userspace", f"--session={name}", "--channel=c0", "--all")
    daemons.lttng("start", name)
    subprocess.run([theirs], env={**daemons.env, "LTTNG_UST_REGISTER_TIMEOUT": "-1", "LTTNG_UST_ALLOW_BLOCKING": "1"}, **quiet)
    daemons.lttng("stop", name)
    daemons.lttng("destroy", name)
    expected = lines(["babeltrace2", str(home / name)], daemons)
    if not expected:
        print(f"{name}: LTTng-UST has recorded nothing")
        return 1
    return sum([
        differences(f"{name}, by babeltrace2", lines(["babeltrace2", str(trace)], daemons), expected),
        differences(f"{name}, as we print it", lines([args.tracemill, "print", str(trace)], daemons), expected),
    ])


def quick(source):
    """A copy of a folder whose loops of a million rounds are short."""
    for path in source.iterdir():
        if path.suffix in (".c", ".cpp"):
            text = path.read_text()
            path.write_text(re.sub(r"\b10{5,}\b", "5", text))


def tracetools(home, repository):
    """A program that calls each function of tracetools."""
    folder = home / "tracetools"
    shutil.copytree(repository / "tracetools", folder)
    headers = folder / "include/tracetools"
    (headers / "config.h").write_text("")
    (headers / "version.h").write_text('#define TRACETOOLS_VERSION_STR "1.2.3"\n')
    calls, number = [], 0
    text = (folder / "src/tracetools.c").read_text()
    for name, parameters in re.findall(r"^DEFINE_TRACEPOINT(?:_NO_ARGS)?\(\s*(\w+)(?:,\s*TRACEPOINT_PARAMS\((.*?)\),)?", text, re.M | re.S):
        values = []
        for parameter in parameters.split(",") if parameters else []:
            number += 1
            kinds = [("char *", f'"text {number}"'), ("uint8_t *", "gid"), ("*", f"(const void *)(uintptr_t){0x7f0000 + number}"),
                     ("bool", "true" if number % 2 else "false"), (" int64_t", f"-{number}"), ("", str(number))]
            values.append(next(value for kind, value in kinds if kind in parameter))
        values = ", ".join(values)
        calls.append(f"    ros_trace_{name}({values});\n    if (ros_trace_enabled_{name}()) ros_trace_do_{name}({values});\n")
    gid = ", ".join(map(str, range(240, 256)))
    (folder / "calls.c").write_text(f'#include "tracetools/tracetools.h"\nstatic const uint8_t gid[] = {{{gid}}};\nint main(void) {{\n'
                                    f"{''.join(calls)}    return 0;\n}}\n")
    return folder, ["calls.c", "src/tracetools.c", "src/tp_call.c"]


def check(args, daemons, home):
    # Both leave out lines that LTTng-UST 2.13 cannot compile.
    failed = compare(args, daemons, home, "mill", OWN, ["mill.c", "messages.c", "probes.c", "oven.c"], ["-DFOR_LTTNG_UST"])
    if args.examples:
        for name, (folder, sources) in EXAMPLES.items():
            copy = home / f"source-{name}"
            shutil.copytree(args.examples / folder, copy)
            quick(copy)
            flags = [source for source in sources if source.startswith("-")]
            failed += compare(args, daemons, home, name, copy, [source for source in sources if source not in flags], flags)
    if args.ros2:
        folder, sources = tracetools(home, args.ros2)
        failed += compare(args, daemons, home, "ros2", folder, sources, ["-Iinclude"])
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tracemill", type=os.path.abspath)
    parser.add_argument("library", type=os.path.abspath)
    parser.add_argument("--examples", type=Path)
    parser.add_argument("--ros2", type=Path)
    args = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tracemill-ust-"))
    home.chmod(0o755)
    daemons = Daemons.__new__(Daemons)
    daemons.started = []
    try:
        daemons.__init__(home)
        return 1 if check(args, daemons, home) else 0
    finally:
        daemons.end()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
