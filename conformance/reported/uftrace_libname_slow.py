"""`replay --libname` of 5,000 calls into 18 libraries: the library of a name is looked up once."""
import subprocess
import tarfile
import tempfile


def check(program, folder):
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(folder / "uftrace.data.tar.xz") as archive:
            archive.extractall(place)

        def replay(*options):
            run = subprocess.run([program, "replay", *options, place + "/uftrace.data"], capture_output=True, check=True)
            return run.stdout.decode().splitlines()

        plain, named = replay(), replay("--libname")
        if len(plain) != len(named):
            yield f"{len(named)} lines with --libname, {len(plain)} without"
        if sum("@lib" in line for line in named) < 1000:
            yield "calls into libraries do not name them"
