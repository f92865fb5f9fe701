#!/usr/bin/env bash
# Programs for other systems, compared with the one of this machine.
#   .ci/portable.sh static PROGRAM STATIC     the static program prints, converts and records as the other one does
#   .ci/portable.sh emulated PROGRAM OTHER    the same without recording, by an emulator, for a program of another processor
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 3 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
how=$1 program=$2 other=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
run=()
case $how in
static)
    # Programs of another C library cannot be loaded by this one, so it must not need any.
    if ldd "$other" >"$scratch/ldd" 2>&1 && ! grep -q 'statically linked' "$scratch/ldd"; then
        cat "$scratch/ldd"
        exit 1
    fi
    ;;
emulated) run=(qemu-aarch64 -L /usr/aarch64-linux-gnu) ;;
*) exit 2 ;;
esac

count=0 outs=0
same() {
    "$program" "$@" >"$scratch/here" 2>"$scratch/here.err" || true
    "${run[@]}" "$other" "$@" >"$scratch/there" 2>"$scratch/there.err" || true
    cmp "$scratch/here" "$scratch/there"
    cmp "$scratch/here.err" "$scratch/there.err"
    [ -s "$scratch/here" ] || { echo "\`tracemill $*\` prints nothing"; exit 1; }
    count=$((count + 1))
}
same --version
same print demo
same print --format jsonl demo
same info --json demo
same check demo
same report demo/calls/tasting
same analyze cpu demo/kernel/bakery
for target in ctf2 ctf1.8 perfetto html; do
    for one in "$program" "${run[*]} $other"; do
        # shellcheck disable=SC2086
        $one convert -q --to $target -o "$scratch/out" demo/traces/mill >/dev/null 2>&1 || { echo "no $target"; exit 1; }
        mv "$scratch/out" "$scratch/out.$((++outs))"
    done
    diff -r "$scratch/out.$((outs - 1))" "$scratch/out.$outs"
    count=$((count + 1))
done
echo "$count outputs are equal"

[ "$how" = static ] && [ "$(uname -m)" = x86_64 ] || exit 0
cat >"$scratch/calls.c" <<'C'
static int twice(int n) { return n + n; }
static int thrice(int n) { return twice(n) + n; }
int main(void) { return thrice(2) == 6 ? 7 : 1; }
C
cc -O0 -pg -o "$scratch/calls" "$scratch/calls.c"
status=0
"$other" record -o "$scratch/recorded" "$scratch/calls" || status=$?
[ $status -eq 7 ] || { echo "the status of the program is $status"; exit 1; }
"$other" replay "$scratch/recorded" | tee "$scratch/replayed"
grep -q 'thrice() {' "$scratch/replayed" && grep -q 'twice();' "$scratch/replayed"
echo "the static program records calls"
