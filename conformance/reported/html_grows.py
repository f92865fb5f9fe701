"""Six events with long arrays make a page within 600 MiB."""
import pathlib
import resource
import subprocess
import tempfile


def check(program, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (614400 << 10, 614400 << 10))

    with tempfile.TemporaryDirectory() as out:
        page = pathlib.Path(out) / "x.html"
        arguments = [program, "convert", "--to", "html", "-o", page, folder / "trace"]
        run = subprocess.run(arguments, capture_output=True, text=True, preexec_fn=limit, timeout=300)
        if run.returncode != 0 or not page.is_file() or page.stat().st_size > 20 << 20:
            yield f"status {run.returncode}: {run.stderr[:300]}"
