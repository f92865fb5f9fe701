#!/usr/bin/env python3
"""Check that `dump --chrome` writes valid JSON in which every begin has its end.

    chrome_balance.py BIN FOLDER...

FOLDER is a data folder of uftrace, or a folder with such folders below it, damaged ones too. With --balanced every trace
must be balanced: an end closes the last begin of its task, both have one name, and nothing is open at the end. Without it
that may fail only where the text is the one of uftrace: chrome.txt beside the folder, or what an installed uftrace 0.13
prints. JSON is read strictly: no constants that JSON does not have, no key twice in an object.
"""
import json, pathlib, shutil, subprocess, sys


def strict(text):
    def pairs(items):
        keys = [key for key, _ in items]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a key twice among {keys}")
        return dict(items)

    def constant(name):
        raise ValueError(f"{name} is not JSON")
    return json.loads(text.decode(), object_pairs_hook=pairs, parse_constant=constant)


def imbalance(trace):
    """The first thing that is wrong, or None."""
    stacks = {}
    if not isinstance(trace.get("traceEvents"), list):
        return "no list of events"
    for event in trace["traceEvents"]:
        stack = stacks.setdefault((event["pid"], event.get("tid", event["pid"])), [])
        if event["ph"] == "B":
            stack.append(event["name"])
        elif event["ph"] == "E" and (not stack or stack.pop() != event["name"]):
            return f"the end of {event['name']} at {event['ts']} closes something else"
    still = [name for stack in stacks.values() for name in stack]
    return f"{still} are open at the end" if still else None


def without_date(trace):
    trace.get("metadata", {}).pop("recorded_time", None)
    return trace


def is_peers(trace, folder):
    """Does uftrace write the same?"""
    texts = []
    golden = folder.parent / "chrome.txt"
    if golden.exists():
        texts.append(golden.read_bytes())
    if shutil.which("uftrace"):
        texts.append(subprocess.run(["uftrace", "dump", "--chrome", "-d", folder], capture_output=True).stdout)
    for text in texts:
        try:
            if without_date(json.loads(text)) == without_date(trace):
                return True
        except ValueError:
            pass
    return False


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folders = sorted({path.parent for root in sys.argv[2:] for path in pathlib.Path(root).rglob("info") if path.is_file()})
    balanced, as_peer, failed = 0, 0, 0
    for folder in folders:
        for options in ([], ["--balanced"]):
            run = subprocess.run([sys.argv[1], "dump", "--chrome", "-q", *options, folder], capture_output=True)
            try:
                trace = strict(run.stdout)
                wrong = imbalance(trace)
            except (ValueError, KeyError) as error:
                trace, wrong = None, f"no JSON: {error}"
            if run.returncode not in (0, 3):
                wrong = f"exit status {run.returncode}"
            if wrong is None:
                balanced += 1
            elif trace is not None and not options and is_peers(trace, folder):
                as_peer += 1
            else:
                failed += 1
                print(f"FAIL {folder} {' '.join(options)}: {wrong}")
    print(f"{balanced} balanced, {as_peer} as uftrace, {failed} failed")
    return 1 if failed or not balanced else 0


if __name__ == "__main__":
    sys.exit(main())
