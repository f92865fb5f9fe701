/*
 * wide EVENTS: emit that many events, chosen evenly and at random among all
 * classes of wide_list.h, from two threads.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "wide_tp.h"

#include "workers.h"

/* wide_emit.h, generated too: one function per class, and their table. */
#define EMITTER(name) \
	static void emit_##name(uint64_t a, uint64_t b) \
	{ \
		lttng_ust_tracepoint(wide, name, a, b); \
	}
#include "wide_emit.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void body(int worker, uint64_t events)
{
	uint64_t state = 0x5eed + (uint64_t) worker;
	uint64_t seq;

	for (seq = 0; seq < events; seq++) {
		uint64_t r = next_random(&state);

		emitters[(uint32_t) (r >> 32) % COUNT(emitters)](seq, r);
	}
}

int main(int argc, char **argv)
{
	return run_workers(events_argument(argc, argv), body);
}
