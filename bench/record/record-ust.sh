#!/usr/bin/env bash
# Record a large LTTng-UST trace for benchmarks; see README.md.
set -euo pipefail

usage() {
	cat >&2 <<'END'
usage: record-ust.sh OUT_DIR EVENTS [CLASSES]

Records EVENTS events, from two threads, into the new directory OUT_DIR.
Without CLASSES the events are those of src/plant_tp.h; with CLASSES the trace
has that many event classes of a few integers each (wide:ev0000 and so on).

environment: CC, CFLAGS   compiler and its options (cc, -O2)
             SUBBUF_SIZE  bytes of a sub-buffer (1048576)
             NUM_SUBBUF   sub-buffers per CPU (8)
END
	exit 2
}

fail() {
	printf 'record-ust.sh: %s\n' "$*" >&2
	exit 1
}

is_count() {
	[[ $1 =~ ^[1-9][0-9]{0,17}$ ]]
}

(($# == 2 || $# == 3)) || usage
out_dir=$1
events=$2
classes=${3:-}
is_count "$events" || usage
[[ -z $classes ]] || is_count "$classes" || usage
((${classes:-1} <= 10000)) || fail "at most 10000 classes"

for tool in lttng lttng-sessiond "${CC:-cc}"; do
	command -v "$tool" >/dev/null || fail "$tool is needed"
done

src_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/src
if [[ -e $out_dir && -n $(ls -A -- "$out_dir") ]]; then
	fail "$out_dir exists already and is not empty"
fi
mkdir -p -- "$out_dir"
out_dir=$(cd -- "$out_dir" && pwd)

# A short path below /tmp: it holds Unix sockets.
work=$(mktemp -d /tmp/record-ust.XXXXXX)
# The trace is recorded beside its destination: a rename moves it.
staging=$(mktemp -d "$out_dir.XXXXXX")
session=${classes:+wide}
session=${session:-plant}-$$
sessiond_pid=
created=

clean_up() {
	local status=$?
	trap - EXIT
	if [[ -n $created ]]; then
		lttng --no-sessiond destroy --no-wait "$session" >/dev/null 2>&1 || true
	fi
	if [[ -n $sessiond_pid ]] && kill "$sessiond_pid" 2>/dev/null; then
		for ((i = 0; i < 50; i++)); do
			kill -0 "$sessiond_pid" 2>/dev/null || break
			sleep 0.1
		done
		# Where a program was interrupted in the middle of an event, the daemon
		# waits for ever: end its process group, which is its own.
		if ((i == 50)); then
			kill -KILL -- "-$sessiond_pid" 2>/dev/null || true
		fi
	fi
	rm -rf -- "$work" "$staging"
	exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Build.
program=plant
if [[ -n $classes ]]; then
	program=wide
	awk -v n="$classes" -v list="$work/wide_list.h" -v emit="$work/wide_emit.h" 'BEGIN {
		for (i = 0; i < n; i++) {
			name = sprintf("ev%04d", i)
			printf "LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(wide, shape%d, wide, %s, WIDE_ARGS)\n", i % 8, name > list
			printf "EMITTER(%s)\n", name > emit
		}
		print "static void (*const emitters[])(uint64_t, uint64_t) = {" > emit
		for (i = 0; i < n; i++)
			printf "\temit_ev%04d,\n", i > emit
		print "};" > emit
	}'
fi
read -ra cflags <<<"${CFLAGS:--O2}"
"${CC:-cc}" "${cflags[@]}" -I"$work" -I"$src_dir" -o "$work/$program" \
	"$src_dir/$program.c" "$src_dir/workers.c" -llttng-ust -ldl -pthread

# A session daemon: a running one, or one of our own.
if ! lttng --no-sessiond list >/dev/null 2>&1; then
	export LTTNG_HOME=$work/home
	mkdir -p -- "$LTTNG_HOME"
	lttng-sessiond --daemonize --no-kernel --pidfile="$work/sessiond.pid"
	sessiond_pid=$(<"$work/sessiond.pid")
fi

# Record. The program waits for room in the buffers, so nothing is discarded.
lttng --no-sessiond create "$session" --output="$staging" >/dev/null
created=yes
lttng --no-sessiond enable-channel --userspace --session="$session" \
	--buffers-uid --discard --blocking-timeout=inf \
	--subbuf-size="${SUBBUF_SIZE:-1048576}" --num-subbuf="${NUM_SUBBUF:-8}" c0 >/dev/null
lttng --no-sessiond add-context --userspace --session="$session" --channel=c0 \
	--type=vpid --type=vtid >/dev/null
lttng --no-sessiond enable-event --userspace --session="$session" --channel=c0 \
	"$program:*" >/dev/null
lttng --no-sessiond start "$session" >/dev/null
SECONDS=0
LTTNG_UST_ALLOW_BLOCKING=1 LTTNG_UST_REGISTER_TIMEOUT=-1 "$work/$program" "$events"
lttng --no-sessiond stop "$session" >/dev/null
seconds=$SECONDS
lttng --no-sessiond destroy "$session" >/dev/null
created=

# Keep the one directory with the metadata in it.
metadata=$(find "$staging" -name metadata -type f)
[[ -n $metadata && $metadata != *$'\n'* ]] || fail "expected one trace, got: ${metadata:-none}"
chmod -R a+rX -- "$staging"
rmdir -- "$out_dir"
mv -- "$(dirname -- "$metadata")" "$out_dir"
printf '%s: %s events in %s s, %s\n' "$out_dir" "$events" "$seconds" "$(du -sh -- "$out_dir" | cut -f1)"
