#!/bin/sh
# Records demo/samples again. Needs gcc, and perf with the right to record tracepoints (as root: kernel.perf_event_paranoid).
set -eu
cd "$(dirname "$0")"
gcc -O1 -g0 -fno-omit-frame-pointer -fno-stack-protector -fno-asynchronous-unwind-tables -fcf-protection=none -static -nostdlib \
    -Wl,--build-id -Wl,-z,noseparate-code -o bakery bakery.c
cp bakery /usr/local/bin/bakery
perf record -q -e cpu-clock/period=4000000/ -e sched:sched_switch -c 1 --switch-events -g -o bakery.data bakery
python3 - <<'EOF'
"""Leaves out which machine it was, and keeps of the kernel's symbols those that the recording needs."""
import platform, subprocess
data = open("bakery.data", "rb").read()
for text, short in [(platform.release(), "6.18.0"), (platform.node(), "mill")]:
    data = data.replace(text.encode() + b"\0", short.encode().ljust(len(text), b"\0")[: len(text)] + b"\0")
open("bakery.data", "wb").write(data)
script = ["perf", "script", "-f", "-i", "bakery.data", "-F", "ip,sym"]
lines = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
wanted = {int(line.split()[0], 16) for line in lines if line.strip()}
symbols = [line.split() for line in open("/proc/kallsyms")]
symbols = sorted((int(line[0], 16), line[1], line[2]) for line in symbols if len(line) == 3)
kept = set()
for at, (begin, _, name) in enumerate(symbols[:-1]):
    end = next((later for later, _, _ in symbols[at + 1 : at + 50] if later > begin), begin)
    if name in ("_text", "_stext") or any(begin <= address < end for address in wanted):
        kept |= {(begin, at), (end, next(n for n in range(at + 1, len(symbols)) if symbols[n][0] == end))}
with open("kallsyms", "w") as out:
    for _, at in sorted(kept):
        out.write("%016x %s %s\n" % symbols[at])
EOF
chmod 644 bakery.data
rm -f bakery.data.old /usr/local/bin/bakery
