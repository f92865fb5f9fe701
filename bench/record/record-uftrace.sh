#!/usr/bin/env bash
# Record a large data folder of uftrace for benchmarks; see README.md.
set -euo pipefail

usage() {
	cat >&2 <<'TEXT'
usage: record-uftrace.sh OUT_DIR RECORDS [THREADS [ARGUMENTS]]

Records about RECORDS records (entries and exits, 16 bytes each) of THREADS
threads (1) of src/calls.c into the new directory OUT_DIR. With ARGUMENTS,
anything but 0, a quarter of the innermost calls has arguments or a return
value.

environment: CC, CFLAGS  compiler and its options (cc, -O2)
TEXT
	exit 2
}

fail() {
	printf 'record-uftrace.sh: %s\n' "$*" >&2
	exit 1
}

(($# >= 2 && $# <= 4)) || usage
out_dir=$1
records=$2
threads=${3:-1}
arguments=${4:-0}
[[ $records =~ ^[1-9][0-9]{0,17}$ && $threads =~ ^[1-9][0-9]?$ ]] || usage

for tool in uftrace "${CC:-cc}"; do
	command -v "$tool" >/dev/null || fail "$tool is needed"
done
[[ ! -e $out_dir ]] || fail "$out_dir exists already"

src_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/src
work=$(mktemp -d "${TMPDIR:-/tmp}/record-uftrace.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

read -r -a flags <<<"${CFLAGS:--O2}"
"${CC:-cc}" -pg -pthread -std=gnu11 -fno-optimize-sibling-calls "${flags[@]}" -o "$work/calls" "$src_dir/calls.c"

wanted=()
if [[ $arguments != 0 ]]; then
	wanted=(-A 'say_number@arg2/u' -R 'say_number@retval/u' -A 'say_text@arg2/s,arg3/i32')
fi
# Large buffers, and no events of the scheduler: nothing but calls, and none of them lost.
uftrace record -d "$work/data" --no-event --no-libcall -b 16M "${wanted[@]}" \
	"$work/calls" "$records" "$threads" "$arguments"
mkdir -p -- "$(dirname -- "$out_dir")"
mv -- "$work/data" "$out_dir"
du -sh -- "$out_dir"
