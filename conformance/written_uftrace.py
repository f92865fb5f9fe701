#!/usr/bin/env python3
"""Does uftrace read folders that we wrote as it reads those that they were made of?

    written_uftrace.py PROGRAM FOLDER...

Each folder goes through CTF 2 and back, and once in the other byte order and back. uftrace's `replay`, `report` and
`dump` must print the same of what comes out; `default.opts` counts as it does there. Where uftrace fails for the input,
it must fail for the output. The depth of user events and losses, which no recorder writes, is left out. Data of the
kernel (`kernel-cpuN.dat`) are not written and left out on both sides. The last line counts:
`N passed, M failed, K left out` (folders of the other byte order, which the peer does not read).
"""

import os
import re
import shutil
import subprocess
import sys

from runner import run_over

COMMANDS = (["replay"], ["report"], ["dump"])


def peer(command, folder, home):
    done = subprocess.run(["uftrace", *command, "--no-pager", "--color=no", "-d", folder],
                          capture_output=True, cwd=home, timeout=60)
    return done.returncode, re.sub(rb"(: \[(?:event|lost )\] .*) depth: \d+", rb"\1", done.stdout)


def convert(program, *arguments):
    done = subprocess.run([program, "convert", "--quiet", *arguments], capture_output=True, text=True)
    return None if done.returncode in (0, 3) else done.stderr.strip().split("\n")[0]


def is_for_peer(trace):
    """The peer reads its own byte order alone."""
    info = os.path.join(trace, "info")
    if not os.path.exists(info):
        return False
    with open(info, "rb") as file:
        return file.read(15)[14:] == b"\x01"


def check(program, trace, scratch):
    if not is_for_peer(trace):
        return None
    # One name for all, since outputs hold it.
    data = os.path.join(scratch, "data")
    wanted = os.path.join(scratch, "wanted")
    shutil.copytree(trace, wanted)
    for name in os.listdir(wanted):
        if name.startswith("kernel-cpu"):
            os.remove(os.path.join(wanted, name))
    path = lambda name: os.path.join(scratch, name)
    steps = [
        ("through CTF 2", [("ctf2", wanted, path("c"), []), ("uftrace", path("c"), path("a"), [])], path("a")),
        ("swapped twice", [("uftrace", wanted, path("big"), ["--byte-order", "big"]),
                           ("uftrace", path("big"), path("b"), ["--byte-order", "little"])], path("b")),
    ]
    shutil.copytree(wanted, data)
    before = [peer(command, "data", scratch) for command in COMMANDS]
    for what, conversions, result in steps:
        for to, source, output, options in conversions:
            error = convert(program, "--to", to, "-o", output, *options, source)
            if error:
                return f"{what}: {error}"
        shutil.rmtree(data)
        shutil.copytree(result, data)
        for command, want in zip(COMMANDS, before):
            if peer(command, "data", scratch) != want:
                return f"{what}: uftrace {command[0]} prints something else"
    return ""


def main():
    program = os.path.abspath(sys.argv[1])
    return run_over(sys.argv[2:], lambda path, scratch: check(program, path, scratch))


if __name__ == "__main__":
    sys.exit(main())
