#!/usr/bin/env python3
"""Does babeltrace2 read the CTF 1.8 that we write?

    compare_written.py PROGRAM FOLDER...

Every trace becomes CTF 1.8 with packets made anew, in both byte orders. Of a trace that babeltrace2 reads itself it must
print the same text for the output; of any other, the text that we print for it. What both say on stderr is not
compared. Faults of the peer are set apart: an empty string is shown as the string that it read before in that field, an
event without a name as `<unknown>`, times of clocks that do not tick in ns are a ns off, a timeline of clocks with and
without an origin is refused, and lengths and selectors in the context of one event class, and some inside arrays, end it.
The last line counts: `N passed, M failed, K left out` (traces that cannot be read or converted).
"""

import os
import re
import subprocess
import sys

from runner import run_over

FORMS = (["--byte-order", "little"], ["--byte-order", "big"])


def run(*command):
    return subprocess.run(command, capture_output=True, timeout=600)


def peer(path):
    return run("babeltrace2", "--clock-gmt", path)


def is_same(want, found):
    """The same text, but for the peer's faults."""
    if want == found:
        return True
    left, right = want.split(b"\n"), found.replace(b"<unknown>: ", b": ").split(b"\n")
    if len(left) != len(right):
        return False
    # Streams without a clock have no order among them.
    without_deltas = lambda lines: sorted(re.sub(rb" \(\+[^)]*\)", b"", line, count=1) for line in lines)
    return without_deltas(left) == without_deltas(right) or all(a == b or like(a, b) for a, b in zip(left, right))


STAMP = re.compile(rb"^\[(\d+):(\d+):(\d+)\.(\d{9})\] \(\+(?:\d+\.\d{9}|\?\.\?+)\) ")


def like(want, found):
    stamps = [STAMP.match(line) for line in (want, found)]
    if all(stamps):
        times = [[int(number) for number in stamp.groups()] for stamp in stamps]
        left, right = ((((h * 60) + m) * 60 + s) * 1_000_000_000 + ns for h, m, s, ns in times)
        if abs(left - right) > 1:
            return False
        want, found = (line[stamp.end():] for line, stamp in zip((want, found), stamps))
    pattern = b'"(?:[^"\\\\]|\\\\.)*"'.join(re.escape(part) for part in want.split(b'""'))
    return re.fullmatch(pattern, found) is not None


def is_fault_of_peer(error):
    known = (b"Assertion `tgt_fc` failed", b"absolute clock class, but got", b"end_clock != -1UL` failed")
    return any(text in error for text in known)


def first_difference(want, found):
    for at, (left, right) in enumerate(zip(want.split(b"\n"), found.split(b"\n"))):
        if left != right:
            return f"line {at + 1}: {left[:300]!r}\n    became {right[:300]!r}"
    return f"{want.count(b'n')} lines became {found.count(b'n')}"


def is_ctf18(program, path):
    return b'"format":"ctf1.8"' in run(program, "info", "--json", path).stdout.replace(b'": "', b'":"')


def check(program, path, scratch):
    if run(program, "print", "--quiet", "--limit", "1", path).returncode not in (0, 3):
        return None
    of_input = peer(path) if is_ctf18(program, path) else None
    if of_input is not None and of_input.returncode != 0:
        return None
    for at, form in enumerate(FORMS):
        output = os.path.join(scratch, str(at), "trace")
        os.mkdir(os.path.dirname(output))
        done = run(program, "convert", "--quiet", "--to", "ctf1.8", *form, "-o", output, path)
        if done.returncode not in (0, 3):
            return None if b"cannot be kept" in done.stderr else done.stderr.decode(errors="replace")[:300]
        found = peer(output)
        if found.returncode != 0 and is_fault_of_peer(found.stderr):
            return None
        if found.returncode != 0:
            return f"{form[1]}: babeltrace2 refuses it: {found.stderr.decode(errors='replace')[-300:]}"
        want = of_input.stdout if of_input is not None else run(program, "print", "--quiet", "--clock-gmt", output).stdout
        if not is_same(want, found.stdout):
            # Both may show strings of earlier events in the place of empty ones, and not the same.
            plain = run(program, "print", "--quiet", "--clock-gmt", path).stdout
            if of_input is not None and is_same(plain, found.stdout):
                continue
            return f"{form[1]}: {first_difference(want, found.stdout)}"
    return ""


def main():
    program = sys.argv[1]
    return run_over(sys.argv[2:], lambda path, scratch: check(program, path, scratch))


if __name__ == "__main__":
    sys.exit(main())
