"""A stream file that is cut while it is printed: no line shows an event that was not recorded, in any form."""
import pathlib
import subprocess
import sys


def check(program, folder):
    for form in ([], ["--format", "jsonl"], ["--format", "csv"]):
        run = subprocess.run([sys.executable, folder / "repro.py", program, *form], capture_output=True, text=True)
        if run.returncode != 0:
            yield f"{form}: {run.stdout.strip()[:300]}{run.stderr.strip()[:300]}"
