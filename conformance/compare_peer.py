#!/usr/bin/env python3
"""Run babeltrace2 2.0.4 and the program on the same CTF 1.8 traces, and compare what both print on stdout.

    compare_peer.py BIN TRACE [TRACE ...]

TRACE is a folder that holds traces: it is read as one timeline with several combinations of options. A folder `CORPUS`
whose cases hold `trace/` may be given too; each of its cases is then read on its own, with the default options.
One difference is allowed: for an empty string babeltrace2 2.0.4 prints the string that an earlier event left in the same
memory (mended in 2.1; `docs/decisions/0002-differences-from-babeltrace2.md`). A printed "" is accepted for a string that
stands in an earlier line, and for nothing else. Where babeltrace2 stops at an error, its lines must come first. Exit
status 0 when nothing else differs.
"""
import os, pathlib, re, subprocess, sys

PEER = "babeltrace2"
OPTIONS = [
    [],
    ["--clock-gmt", "--clock-date"],
    ["--clock-seconds"],
    ["--clock-cycles"],
    ["--no-delta"],
    ["--names", "all"],
    ["--names", "none"],
    ["--names", "payload,scope"],
    ["--fields", "all"],
    ["--fields", "trace,loglevel"],
    ["--names", "all", "--fields", "all", "--color", "always"],
    ["--clock-offset", "-3600", "--clock-offset-ns", "17"],
]
# The peer aborts on a valid trace.
PEER_ABORTS = {"succeed.meta-ctx-sequence"}


RESET = b"\x1b[0m"
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class StaleStrings:
    """Strings that are stale in the lines of babeltrace2: their number, and all strings shown so far."""

    def __init__(self):
        self.stale, self.seen = 0, set()

    def same_line(self, want, have):
        """Whether the lines are equal but for strings that are empty in `have` and stale in `want`."""
        have_strings = STRING.findall(have)
        if want != have:
            want_strings = STRING.findall(want)
            if STRING.sub(b'""', want) != STRING.sub(b'""', have) or len(want_strings) != len(have_strings):
                return False
            different = [(w, h) for w, h in zip(want_strings, have_strings) if w != h]
            if any(h != b'""' or w not in self.seen for w, h in different):
                return False
            self.stale += len(different)
        self.seen.update(have_strings)
        return True


def compare_text(want, have, strings, is_beginning=False):
    """Why two texts differ, `None` when they do not; of `want` only the beginning is there when `is_beginning`."""
    want_lines, have_lines = want.split(b"\n"), have.split(b"\n")
    if len(have_lines) < len(want_lines) or (len(have_lines) != len(want_lines) and not is_beginning):
        return f"{len(want_lines) - 1} lines expected, {len(have_lines) - 1} printed"
    for number, (w, h) in enumerate(zip(want_lines, have_lines), 1):
        if is_beginning and number == len(want_lines):
            break
        if not strings.same_line(w, h):
            return f"line {number}\n    want {w[:300]!r}\n    have {h[:300]!r}"
    return None


def run(*command):
    environment = dict(os.environ)
    if "--color" in command:
        # Without these babeltrace2 prints no colour into a pipe, whatever `--color` says, or other codes.
        environment |= {"TERM": "xterm-256color", "BABELTRACE_TERM_COLOR": "ALWAYS"}
    done = subprocess.run(command, capture_output=True, timeout=300, env=environment)
    # babeltrace2 resets the colour once more after its last line.
    done.stdout = done.stdout.removesuffix(b"\n" + RESET) + b"\n" * done.stdout.endswith(b"\n" + RESET)
    return done


def is_ctf_1(trace):
    """CTF 2 metadata is JSON: babeltrace2 2.0.4 cannot read it."""
    files = [path for path in sorted(trace.rglob("metadata")) if path.is_file()]
    return bool(files) and all(file.read_bytes()[:64].lstrip()[:1] not in (b"\x1e", b"{") for file in files)


def compare(program, options, trace):
    """Why the two differ, or `None`, and the stale strings; `None, None` when there is nothing to compare."""
    peer, own = run(PEER, *options, str(trace)), run(program, "print", *options, str(trace))
    if peer.returncode != 0 and not peer.stdout:
        return None, None
    strings = StaleStrings()
    why = compare_text(peer.stdout, own.stdout, strings, is_beginning=peer.returncode != 0)
    if why is None and peer.returncode == 0 and own.returncode not in (0, 3):
        why = f"equal, but exit status {own.returncode}"
    return why, strings


def main():
    program, passed, failed, stale = sys.argv[1], 0, 0, 0
    for root in map(pathlib.Path, sys.argv[2:]):
        cases = [case for case in sorted(root.glob("*/trace")) if case.parent.name not in PEER_ABORTS]
        tasks = [([], case) for case in cases] if cases else [(options, root) for options in OPTIONS]
        compared = 0
        for options, trace in tasks:
            if not is_ctf_1(trace):
                continue
            why, strings = compare(program, options, trace)
            if strings is None:
                continue
            compared += 1
            passed, failed, stale = passed + (why is None), failed + (why is not None), stale + strings.stale
            if why:
                name = trace.parent.name if cases else trace.name
                print(f"FAIL {name} {' '.join(options)}: {why}")
        print(f"{root.name}: {compared} runs compared")
        if not compared:
            failed += 1
            print(f"FAIL {root.name}: {PEER} reads nothing there")
    print(f"{stale} strings are empty in the traces and stale in what {PEER} prints")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
