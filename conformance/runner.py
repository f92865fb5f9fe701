"""Runs a check over the traces in folders of a corpus, and counts how it ended."""

import os
import tempfile


def traces(folder):
    """The traces in a folder with a name each: entries, or what stands in them as `trace` or `uftrace.data`."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".md"):
            continue
        path = os.path.join(folder, name)
        for inside in ("trace", "uftrace.data"):
            if os.path.exists(os.path.join(path, inside)):
                path = os.path.join(path, inside)
        yield f"{os.path.basename(os.path.normpath(folder))}/{name}", path


def run_over(folders, check):
    """`check(path, scratch)` says what is wrong, nothing (an empty text), or `None` for a trace that it leaves out.

    The last line is `N passed, M failed, K left out`. Returns the status of the program: 1 when something failed, or
    nothing passed.
    """
    passed = failed = left_out = 0
    for folder in folders:
        for name, path in traces(folder):
            with tempfile.TemporaryDirectory() as scratch:
                result = check(path, scratch)
            if result is None:
                left_out += 1
            elif result:
                failed += 1
                print(f"FAIL {name}: {result}")
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, {left_out} left out")
    return 1 if failed or not passed else 0
