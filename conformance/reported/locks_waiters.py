"""A thread number that was used twice: `waiters` are threads."""
import json
import subprocess


def check(program, folder):
    for by in ("lock", "thread", "process"):
        words = [program, "analyze", "locks", "--by", by, "--json", str(folder / "trace")]
        answer = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        log = json.loads(subprocess.run([*words[:3], "--log", "--json", words[-1]], capture_output=True, text=True).stdout)
        waiting = {row["tid"] for row in log["rows"]}
        if answer["all"]["waiters"] != len(waiting):
            yield f"--by {by}: {answer['all']['waiters']} waiters in all, {len(waiting)} threads wait"
        if by == "thread" and any(row["waiters"] > 1 for row in answer["rows"]):
            yield f"a thread is more than one waiter: {answer['rows']}"
