#!/usr/bin/env python3
"""Compare the program with golden files of a trace corpus, with the two proven faults of their maker set apart.

    known_faults.py BIN CORPUS_DIR [CORPUS_DIR ...]

The golden files for CTF 1.8 were printed by babeltrace2 2.0.4. Two things in them are not in the traces
(`crates/formats/src/ctf/README.md`, "Where babeltrace2 2.0.4 is wrong"):

1. An empty string shows the string that an earlier event left in the same memory (mended upstream later). Here a
   printed "" is accepted for any golden string, and for nothing else.
2. In `expected.jsonl`, each byte that is no UTF-8 became "?", where a maximal invalid part is one U+FFFD.

Everything else must be equal: number of lines, their order, every other byte. Exit status 0 when it is.
"""
import json, pathlib, re, subprocess, sys

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def same_line(want, have):
    """Is the text line equal but for strings that are empty in `have`?"""
    if want == have:
        return True, 0
    want_strings, have_strings = STRING.findall(want), STRING.findall(have)
    if STRING.sub(b'""', want) != STRING.sub(b'""', have) or len(want_strings) != len(have_strings):
        return False, 0
    stale = 0
    for w, h in zip(want_strings, have_strings):
        if w != h:
            if h != b'""':
                return False, 0
            stale += 1
    return True, stale


def same_value(want, have):
    if isinstance(want, dict):
        return isinstance(have, dict) and all(k in have and same_value(v, have[k]) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(have, list) and len(want) == len(have) and all(map(same_value, want, have))
    if isinstance(want, bool) or isinstance(have, bool):
        return want is have
    if isinstance(want, str) and isinstance(have, str):
        if have == "" or want == have:
            return True
        # one U+FFFD for what the golden file writes as one "?" a byte
        return re.fullmatch(re.escape(have).replace("\ufffd", r"\?{1,3}"), want) is not None
    return want == have


def text_case(program, trace, want, peer_stopped):
    run = subprocess.run([program, "print", "--clock-gmt", "--clock-date", str(trace)], capture_output=True)
    want_lines, have_lines = want.split(b"\n"), run.stdout.split(b"\n")
    if len(have_lines) < len(want_lines) or (len(have_lines) != len(want_lines) and not peer_stopped):
        return f"{len(want_lines) - 1} lines expected, {len(have_lines) - 1} printed", 0
    stale = 0
    for number, (w, h) in enumerate(zip(want_lines, have_lines), 1):
        if peer_stopped and number == len(want_lines):
            break
        same, count = same_line(w, h)
        stale += count
        if not same:
            return f"line {number}\n    want {w[:300]!r}\n    have {h[:300]!r}", stale
    return None, stale


def json_case(program, trace, want):
    run = subprocess.run([program, "print", "--format", "jsonl", str(trace)], capture_output=True)
    load = lambda text: [json.loads(line) for line in text.split("\n") if line]
    want, have = load(want), load(run.stdout.decode())
    if len(want) != len(have):
        return f"{len(want)} lines expected, {len(have)} printed"
    at = 0
    while at < len(want):
        end = at
        while end < len(want) and want[end].get("ns") == want[at].get("ns"):
            end += 1
        pool = have[at:end]
        for line in want[at:end]:
            match = next((one for one in pool if same_value(line, one)), None)
            if match is None:
                return f"line {at + 1}\n    want {json.dumps(line)[:400]}\n    have {json.dumps(pool[:1])[:400]}"
            pool.remove(match)
        at = end
    return None


def main():
    program, passed, failed, stale_strings = sys.argv[1], 0, 0, 0
    for root in map(pathlib.Path, sys.argv[2:]):
        for trace in sorted(root.rglob("trace")):
            case, checks = trace.parent, []
            text, lines = case / "expected.pretty.txt", case / "expected.jsonl"
            if case.name == "succeed.meta-ctx-sequence":
                continue  # the peer aborts on a valid trace
            if text.exists():
                exit_file = case / "peer-exit.txt"
                stopped = exit_file.exists() and exit_file.read_text().strip() != "0"
                why, stale = text_case(program, trace, text.read_bytes(), stopped)
                stale_strings += stale
                checks.append(("text", why))
            if lines.exists():
                checks.append(("jsonl", json_case(program, trace, lines.read_text(encoding="utf-8"))))
            for what, why in checks:
                passed, failed = passed + (why is None), failed + (why is not None)
                if why:
                    print(f"FAIL {case.parent.name}/{case.name} {what}: {why}")
    print(f"{stale_strings} strings are empty in the traces and stale in the golden text")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
