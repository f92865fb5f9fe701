"""A child that outlives the program: all its calls are recorded, by `fork` (c) and otherwise (s)."""
import subprocess
import tempfile


def calls(program, folder):
    report = subprocess.run([program, "report", "-f", "call", "--color=never", folder], capture_output=True, text=True)
    numbers = (line.split()[0] for line in report.stdout.splitlines() if line.strip())
    return sum(int(number) for number in numbers if number.isdigit())


def record(program, source, argument, wanted, rounds):
    """What is wrong with recordings of a program that makes at least `wanted` calls."""
    with tempfile.TemporaryDirectory() as scratch:
        binary = f"{scratch}/program"
        subprocess.run(["gcc", "-O1", "-pg", str(source), "-o", binary], check=True, capture_output=True)
        for number in range(rounds):
            folder = f"{scratch}/{number}"
            words = [program, "record", "-o", folder, binary, argument]
            made = subprocess.run(words, capture_output=True, text=True, timeout=60)
            if made.returncode != 0:
                yield f"`{argument}`, round {number}: status {made.returncode}: {made.stderr[:300]}"
            elif (found := calls(program, folder)) < wanted:
                yield f"`{argument}`, round {number}: {found} calls of {wanted}: {made.stderr[:300]}"


def check(program, folder):
    yield from record(program, folder / "la.c", "c", 1983, 3)
    yield from record(program, folder / "la.c", "s", 1983, 6)
