"""Lines with U+0000 are skipped as reported: nothing of them is shown, and every target can be written."""
import json
import pathlib
import subprocess
import tempfile


def check(program, folder):
    for name, lines, hidden in [("secret.jsonl", 2, "secret"), ("v.jsonl", 3, "bad"), ("min-cpel.jsonl", 1, "\"nul\"")]:
        run = subprocess.run([program, "print", "--format", "jsonl", folder / name], capture_output=True, text=True)
        shown = run.stdout.splitlines()
        if run.returncode != 3 or len(shown) != lines or hidden in run.stdout or "U+0000" not in run.stderr:
            yield f"{name}: status {run.returncode}, {len(shown)} lines: {run.stdout[:200]} {run.stderr[:200]}"
    known = json.loads(subprocess.run([program, "formats", "--json"], capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as out:
        for target in [one["name"] for one in known["formats"] if one["write"] is True]:
            arguments = ["convert", "-q", "--to", target, "-o", pathlib.Path(out) / target, folder / "min-cpel.jsonl"]
            run = subprocess.run([program, *arguments], capture_output=True, text=True)
            has_no_calls = "the trace has no calls" in run.stderr
            if run.returncode != 3 and not has_no_calls or "Fault {" in run.stderr or "changed while" in run.stderr:
                yield f"{target}: status {run.returncode}: {run.stderr[:200]}"
