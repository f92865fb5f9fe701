#!/usr/bin/env bash
# Record the demo traces anew; see README.md.
set -euo pipefail

demo_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out_dir=${1:-$demo_dir/traces}

fail() {
	printf 'record.sh: %s\n' "$*" >&2
	exit 1
}

if (($# > 1)) || [[ ${1:-} == -* ]]; then
	echo 'usage: record.sh [OUT_DIR]   (default: the directory traces beside this script)' >&2
	exit 2
fi
for tool in lttng lttng-sessiond "${CC:-cc}"; do
	command -v "$tool" >/dev/null || fail "$tool is needed"
done

# A short path below /tmp: it holds Unix sockets.
work=$(mktemp -d /tmp/demo-record.XXXXXX)
sessiond_pid=
sessions=()

clean_up() {
	local status=$? name
	trap - EXIT
	for name in ${sessions[@]+"${sessions[@]}"}; do
		lttng --no-sessiond destroy --no-wait "$name" >/dev/null 2>&1 || true
	done
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
	rm -rf -- "$work"
	exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

for program in mill orders burst; do
	"${CC:-cc}" -O1 -D_GNU_SOURCE -I"$demo_dir/src" -o "$work/$program" "$demo_dir/src/$program.c" \
		-llttng-ust -ldl -pthread
done

# A session daemon: a running one, or one of our own.
if ! lttng --no-sessiond list >/dev/null 2>&1; then
	export LTTNG_HOME=$work/home
	mkdir -p -- "$LTTNG_HOME"
	lttng-sessiond --daemonize --no-kernel --pidfile="$work/sessiond.pid"
	sessiond_pid=$(<"$work/sessiond.pid")
fi

new_session() { # NAME
	lttng --no-sessiond create "$1" --output="$work/out/$1" >/dev/null
	sessions+=("$1")
}

# A channel with its events, and with the contexts vpid, vtid and procname.
new_channel() { # SESSION CHANNEL EVENTS OPTIONS...
	local session=$1 channel=$2 events=$3
	shift 3
	lttng --no-sessiond enable-channel --userspace --session="$session" "$@" "$channel" >/dev/null
	lttng --no-sessiond add-context --userspace --session="$session" --channel="$channel" \
		--type=vpid --type=vtid --type=procname >/dev/null
	lttng --no-sessiond enable-event --userspace --session="$session" --channel="$channel" \
		"$events" >/dev/null
}

# Two channels: two stream classes in one trace. No event is to be lost.
new_session mill
new_channel mill work mill:grind,mill:dials,mill:stage,mill:bell --buffers-uid --discard \
	--blocking-timeout=inf --subbuf-size=16384 --num-subbuf=4
new_channel mill paper mill:curve,mill:label --buffers-uid --discard \
	--blocking-timeout=inf --subbuf-size=16384 --num-subbuf=4

new_session orders
new_channel orders desk 'orders:*' --buffers-pid --discard \
	--blocking-timeout=inf --subbuf-size=4096 --num-subbuf=4

# The same events, lost in both ways: the new ones, or whole packets of old ones.
new_session losses
new_channel losses tiny 'burst:*' --buffers-uid --discard --subbuf-size=4096 --num-subbuf=2
new_session overwritten
new_channel overwritten ring 'burst:*' --buffers-uid --overwrite --subbuf-size=4096 --num-subbuf=2

for name in "${sessions[@]}"; do
	lttng --no-sessiond start "$name" >/dev/null
done
export LTTNG_UST_ALLOW_BLOCKING=1 LTTNG_UST_REGISTER_TIMEOUT=-1
pids=()
for program in mill orders burst; do
	"$work/$program" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid"
done
for name in "${sessions[@]}"; do
	lttng --no-sessiond stop "$name" >/dev/null 2>&1
done

mkdir -p -- "$out_dir"
for name in "${sessions[@]}"; do
	lttng --no-sessiond list "$name" >"$work/$name.txt"
	lttng --no-sessiond destroy "$name" >/dev/null 2>&1
done
for name in "${sessions[@]}"; do
	# Per user there is one trace; per process, take that of the session's own program.
	metadata=$(find "$work/out/$name" -type f \
		\( -path "*/uid/*/metadata" -o -path "*/pid/$name-*/metadata" \))
	[[ -n $metadata && $metadata != *$'\n'* ]] || fail "$name: expected one trace, got: ${metadata:-none}"
	# Replace nothing but a trace.
	if [[ -e $out_dir/$name ]]; then
		[[ -f $out_dir/$name/metadata ]] || fail "$out_dir/$name is no trace: not replaced"
		rm -rf -- "${out_dir:?}/$name"
	fi
	cp -r -- "$(dirname -- "$metadata")" "$out_dir/$name"
	chmod -R u+rwX,go=rX -- "$out_dir/$name"
	printf '%s: %s\n' "$name" "$(du -sh -- "$out_dir/$name" | cut -f1)"
	grep -iE '^ *(discarded events|lost packets)' "$work/$name.txt" || true
done
sessions=()
