#!/usr/bin/env bash
# Record the demo trace of a heap anew; see ../README.md. It needs a C compiler, lttng-tools, LTTng-UST's wrapper of the C
# library (Debian and Ubuntu: lttng-tools, liblttng-ust1), and tracemill.
set -euo pipefail

heap_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# The trace has the path of the program.
program=/srv/bakery/larder
work=$(mktemp -d /tmp/demo-heap.XXXXXX)
export LTTNG_HOME=$work/home
mkdir -p -- "$LTTNG_HOME" "$(dirname -- "$program")"

clean_up() {
	local pid
	if pid=$(cat "$work/pid" 2>/dev/null) && kill "$pid" 2>/dev/null; then
		for ((i = 0; i < 50; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
	fi
	rm -rf -- "$work"
}
trap clean_up EXIT

cp -- "$heap_dir/src/larder.c" /srv/bakery/larder.c
(cd /srv/bakery && "${CC:-cc}" -g -O1 -o larder larder.c -pthread)
lttng-sessiond --background --no-kernel --pidfile "$work/pid"
lttng --no-sessiond create larder -o "$work/trace"
lttng enable-channel --userspace heap --subbuf-size 65536 --num-subbuf 4
lttng enable-event --userspace --channel heap 'lttng_ust_libc:*'
lttng enable-event --userspace --channel heap 'lttng_ust_statedump:*'
lttng add-context --userspace --channel heap --type vpid --type vtid --type procname --type ip
lttng start
LTTNG_UST_REGISTER_TIMEOUT=-1 LD_PRELOAD=liblttng-ust-libc-wrapper.so.1 "$program"
lttng stop
lttng destroy

tracemill convert --force --to jsonl -o "$heap_dir/larder.jsonl" "$work"/trace/ust/uid/*/64-bit
mkdir -p -- "$heap_dir/root/srv/bakery"
cp -- "$program" "$heap_dir/root/srv/bakery/larder"
