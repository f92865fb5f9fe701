#!/usr/bin/env python3
"""Compare the commands that follow calls with those of an installed uftrace 0.13, byte for byte.

    compare_calls.py BIN FOLDER... [--only SUBSTRING] [--show N] [--record DIR]

FOLDER is a data folder of uftrace, or a folder with such folders below it. Every command of COMMANDS is run by both on
each of them; names in braces are taken from the folder itself. JSON is compared as JSON; where begins and ends of uftrace
do not fit together and ours do, only the begins must be the same. With --record the programs in
uftrace/ are compiled and recorded in many ways into the new folder DIR first (uftrace/record.sh), which needs a
C compiler. uftrace/known.txt lists what is known to differ, mostly where uftrace is wrong.
Without uftrace nothing is compared, and the script says so (exit status 77).
"""
import argparse, concurrent.futures, html, json, os, pathlib, re, shutil, subprocess, sys

from chrome_balance import imbalance

# {f} and {g} are functions that are called, {s} a time in the middle as seconds, {t} another one after it.
COMMANDS = [line.split() for line in """
replay
replay -f all
replay -f none
replay -f +elapsed,delta --task-newline
replay --column-view --column-offset 4
replay --flat
replay --srcline
replay --libname
replay --no-merge --no-comment
replay --no-libcall
replay --no-event
replay --event-full
replay --no-sched
replay --no-sched-preempt
replay -F {f}
replay -N {f}
replay -F {f} -N {g}
replay -C {g}
replay -H {f}
replay -H {g}
replay -D 2
replay -D 1 -f none -D 3 -f +time
replay -D 1 -F {f}
replay -t 10us
replay -t 1us -T {g}@trace
replay -T {f}@depth=1
replay -T {f}@time=1us
replay -T {g}@backtrace
replay -T {f}@backtrace -f +time,addr
replay -T {f}@trace_off
replay -T {f}@trace_on --disable
replay -T {f}@filter,depth=2
replay -T {g}@notrace
replay -T {f}@hide
replay -T {g}@size=40
replay -Z 60
replay -F ^[a-f]
replay -F [a-f]* --match glob
replay -N .*@PLT
replay -F .*@libc
replay -r {s}~{t}
replay -r {s}~
replay -r ~{s}
replay -r 20us~1ms
replay -r 20us~500us -f +elapsed
replay --tid {tid}
replay --tid {tid} -f elapsed,tid
report
report -f all
report -f none
report -f +size
report -s self
report -s call,func
report --avg-total
report --avg-self
report --avg-total -s max
report --avg-total -f all
report --avg-self -f +size -s self
report --srcline
report --no-libcall
report --no-event
report --no-sched
report --event-full
report -F {f}
report -N {f}
report -C {g}
report -H {f}
report -D 2
report -t 5us
report -Z 60
report -T {f}@trace_off
report -r {s}~{t}
report -r 20us~1ms
report -r ~{s}
report --tid {tid}
report --task
report --task -f all
report --task -s func
report --task -s name
report --task --tid {tid}
report --task -F {f}
report --diff {other}
report --diff {other} --diff-policy full
report --diff {other} --diff-policy full,percent
report --diff {other} --diff-policy percent,no-abs
report --diff {other} --diff-policy no-abs -s call
report --diff {other} --sort-column 0
report --diff {other} --avg-total
report --diff {other} -f all
report --diff {other} --diff-policy full -f all
graph
graph -f all
graph -f none
graph -f +self
graph --srcline
graph -D 2
graph -F {f}
graph -N {f}
graph -C {g}
graph -H {f}
graph -t 5us
graph --no-libcall
graph --no-sched
graph --no-event
graph --event-full
graph -r {s}~{t}
graph -r ~{s}
graph --tid {tid}
graph --task
graph --task -f tid
graph --task -t 1ms
graph {f}
graph {g}
graph -D 1 {f}
graph -f all {f}
graph -t 1us {g}
graph --srcline {f}
graph no_such_function
dump
dump -F {f}
dump -N {f}
dump -D 2
dump -C {g}
dump -H {g}
dump -r {s}~{t}
dump -r ~100us
dump --tid {tid}
dump --no-libcall
dump --no-event
dump --no-args
dump --flame-graph
dump --flame-graph --sample-time 10us
dump --flame-graph --sample-time 0
dump --flame-graph -F {f}
dump --flame-graph --no-libcall
dump --flame-graph -t 5us
dump --flame-graph -r {s}~{t}
dump --graphviz
dump --graphviz -F {f}
dump --graphviz --no-libcall
dump --graphviz -D 3 --no-sched
dump --mermaid
dump --mermaid -N {f}
dump --chrome
dump --chrome -F {f}
dump --chrome -D 2
dump --chrome --no-libcall
dump --chrome -t 5us
dump --chrome -r {s}~{t}
dump --chrome --no-args
replay --color yes
replay --color yes -f all
replay --format html
replay --format html --color no
replay -f time,delta,elapsed,addr,task,module
replay -f +time,tid,duration
replay -D 3
replay -t 5us
replay --kernel-full
replay --demangle no
replay --demangle full
replay -L .*c
replay -L .*c@hide --srcline
replay -k -K 3 -a -b 4K --no-pltbind --force
report -s call,func -f total,self,call,size
report --color yes
report --format html
report --demangle full
report --kernel-full
report -L .*c
report --task --color yes
report --diff {other} --color yes
report --diff {other} --color yes --diff-policy full,percent
graph --color yes
graph --format html
graph --color yes {f}
graph --task --color yes
graph --kernel-full
graph --demangle full
graph main
graph work
graph -D 3
dump --demangle no
dump --info
dump --flame-graph --sample-time 1us
replay -F {g}@kernel
replay -N {g}@kernel
replay -H {g}@kernel
replay -C {g}@kernel
replay -F {f} -N {g}@k
replay -T {g}@kernel,backtrace
replay -T {g}@kernel,notrace
replay -T {g}@kernel,depth=1
replay -T {g}@kernel,time=2us
replay -T {f}@time=2us -t 1us
replay -T {g}@kernel,trace -t 2us
replay -T {g}@kernel,trace_off
replay -F .*read@kernel
report -F {g}@kernel
report -C {g}@k
report -T {g}@kernel,time=2us
graph -F {g}@kernel
graph -N {g}@kernel
graph -C .*read@kernel
dump --chrome -N {g}@kernel
dump --chrome -C {f}
replay --kernel-only
replay --kernel-only --kernel-full
report --kernel-only
report --task --kernel-only
graph --kernel-only
graph --kernel-only {g}
graph --task --kernel-only
dump -k --kernel-only
dump --chrome --kernel-only
dump --graphviz --kernel-only
""".split("\n") if line]


HERE = pathlib.Path(__file__).resolve().parent


def known_differences(path):
    """Lines `FOLDER-NAME COMMAND...` of a file: what is known to differ. `*` stands for all folders, or all commands; a
    folder may have one at its end; a command that ends with ` ...` stands for all that begin so."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]

    def is_known(name, command):
        for folder, known in pairs:
            is_here = name.startswith(folder[:-1]) if folder.endswith("*") else name == folder
            if is_here and (known in ("*", command) or known.endswith(" ...") and f"{command} ".startswith(known[:-3])):
                return True
        return False

    return is_known


def names(folder):
    """Two functions, a task and two times of a folder."""
    run = subprocess.run(["uftrace", "replay", "--no-pager", "--color=no", "-f", "time,tid", "-d", folder], capture_output=True)
    lines = run.stdout.decode(errors="replace").splitlines()
    calls = [re.match(r" *\[ *(\d+)\] +([\d.]+) \|( +)([\w:~]+)\(", line) for line in lines]
    calls = [call for call in calls if call]
    entries = [call for call in calls if not call[4].startswith("__")] or calls
    if not calls:
        return None
    times, tids = [call[2] for call in calls], sorted({call[1] for call in calls})
    outer = entries[min(len(entries) - 1, 1)][4]
    return {"f": outer, "g": max(entries, key=lambda call: len(call[3]))[4], "tid": tids[-1],
            "s": times[len(times) // 3], "t": times[len(times) * 2 // 3]}


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None, b"(no end in 60 s)"
    return done.returncode, done.stdout


def of_peer(words, data):
    if "--info" in words:
        words = ["info"]
    # A later option wins.
    command = ["uftrace", words[0], "--no-pager", *([] if "html" in words else ["--color=no"]), "-d", data]
    return run(command + ["-v" if word == "--hex" else word for word in words[1:]])


def same(words, want, have):
    # Usage is said on standard output there, and on standard error here.
    if want.startswith(b"Usage: failed to set filter"):
        want = want.split(b"\n", 1)[1]
    # The peer does not turn the bytes of this number round.
    want = want.replace(b"header size   = 10240\n", b"header size   = 40\n")
    if "--chrome" in words:
        # Without any call the peer leaves a comma after the names of tasks.
        want = want.replace(b"}},\n\n]", b"}}\n]")
        try:
            # Where the peer writes an element that is none (records were lost, or no event is shown) it is no JSON.
            want, have = json.loads(re.sub(rb",(?=\s*[,\]])", b"", want)), json.loads(have)
        except ValueError:
            return want == have
        # The peer's version is its own, and the date that of a file: a copy has another one.
        for trace in (want, have):
            for key in ("recorded_time", "version"):
                trace.get("metadata", {}).pop(key, None)
        return want == have or imbalance(want) is not None and imbalance(have) is None and has_begins(have, want)
    if "--flame-graph" in words:
        # The peer cuts a number after as many digits as the stack before it has bytes.
        have = re.sub(rb"(?m)^(.+) (\d+)$", lambda line: line[1] + b" " + line[2][:len(line[1])], have)
    if "--mermaid" in words:
        # The pages around the graphs are each tool's own.
        edges = lambda text: [line for line in text.splitlines() if re.match(rb" +\d+_\d+\[", line)]
        return edges(want) == edges(html.unescape(have.decode(errors="replace")).encode())
    if "--diff" in words:
        # Without colours the peer turns the signs of times round, and it calls a largest time a smallest one.
        def even(text):
            # The peer counts times without processor outside of all calls in the second recording only.
            text = re.sub(rb"(?m)^.*linux:schedule.*\n", b"", text)
            text = re.sub(rb"[+-](?=\d+\.\d{3} (us|ms| s| m| h))", b"~", text)
            return text.replace(b"Self max (diff)", b"Self min (diff)")
        want, have = even(want), even(have)
    return want == have


def has_begins(have, want):
    """Does a balanced trace have the begins of one that is not? Times without processor that the peer begins nowhere may
    be among them."""
    begins = [[event for event in trace["traceEvents"] if event["ph"] == "B"] for trace in (have, want)]
    left = iter(begins[1])
    more = []
    wanted = next(left, None)
    for event in begins[0]:
        if event == wanted:
            wanted = next(left, None)
        else:
            more.append(event["name"])
    return wanted is None and set(more) <= {"linux:schedule"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--record", type=pathlib.Path)
    args = parser.parse_args()
    if not shutil.which("uftrace"):
        print("nothing is compared: uftrace is not installed")
        return 77
    if not args.record:
        passed, failed = compare(args, args.folders)
        return 1 if failed or not passed else 0
    passed, failed = compare(args, args.folders + [recorded(args.record)])
    if failed:
        # Tasks meet at other moments in every recording, and the peer's faults show in some: what differs in two counts.
        print("a second recording")
        again = args.record.with_name(args.record.name + "-again")
        more, differ = compare(args, args.folders + [recorded(again)])
        passed, failed = min(passed, more), failed & differ
        print(f"{len(failed)} differ in both:", *sorted(failed), sep="\n    ")
    return 1 if failed or not passed else 0


def recorded(folder):
    subprocess.run([HERE / "uftrace" / "record.sh", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def compare(args, inputs):
    """The number of commands that print the same on all inputs, and those that do not."""
    folders = sorted({path.parent for folder in inputs for path in folder.rglob("info") if path.is_file()})
    passed, failed, left_out = 0, [], 0
    places = []
    differences, met = known_differences(HERE / "uftrace" / "known.txt"), 0
    for at, folder in enumerate(folders):
        print(f"{folder.parent.name if folder.name == 'trace' else folder.name}", end=" ", flush=True)
        known = names(folder)
        if known is None:
            print(f"note: uftrace shows no calls of {folder}")
            continue
        known["other"] = str(folders[0 if at else -1])
        wanted = [command for command in COMMANDS if args.only in f"{folder} {' '.join(command)}"]
        filled = [[word.format(**known) if "{" in word else word for word in command] for command in wanted]
        # The function of `graph` stands alone, as the folder is given by -d.
        both = lambda words: (of_peer(words, folder), run([args.bin, words[0], "-q", "-d", folder, *words[1:]]))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(both, filled))
        for command, words, ((status, want), (ours, have)) in zip(wanted, filled, results):
            line = " ".join(words)
            if status != 0:
                left_out += 1
                continue
            if same(words, want, have) and ours in (0, 3):
                passed += 1
                continue
            name = folder.parent.name if folder.name == "trace" else folder.name
            if differences(name, " ".join(command)):
                met += 1
                continue
            failed.append(" ".join(command))
            places.append(f"{name} {' '.join(command)}")
            if len(failed) <= args.show:
                print(f"FAIL {folder}: {line} (status {ours})")
                want, have = (text.decode(errors="replace").splitlines() for text in (want, have))
                for number in range(max(len(want), len(have))):
                    pair = [text[number] if number < len(text) else "(end)" for text in (want, have)]
                    if pair[0] != pair[1]:
                        print(f"    line {number + 1}\n    want {pair[0][:300]}\n    have {pair[1][:300]}")
                        break
    print()
    for command in sorted(set(failed)):
        print(f"{failed.count(command):4} differ: {command}:", *(place.split()[0] for place in places if place.split(None, 1)[1] == command))
    print(f"{passed} equal, {len(failed)} differ, {met} known to differ, {left_out} left out (uftrace fails)")
    return passed, set(places)


sys.exit(main())
