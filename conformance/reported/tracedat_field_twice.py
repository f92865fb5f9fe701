"""An intact file with formats that name a field twice, none of whose events occur: no fault, no warning."""
import lzma
import pathlib
import subprocess
import tempfile


def check(program, folder):
    with tempfile.TemporaryDirectory() as place:
        trace = pathlib.Path(place) / "trace.dat"
        trace.write_bytes(lzma.decompress((folder / "trappy_idle.dat.xz").read_bytes()))
        for options in [[], ["--strict"]]:
            run = subprocess.run([program, "print", *options, trace], capture_output=True, text=True)
            if run.returncode or run.stderr:
                yield f"print {options}: status {run.returncode}, {run.stderr!r}"
            if len(run.stdout.splitlines()) != 43:
                yield f"print {options}: {len(run.stdout.splitlines())} events, expected 43"
