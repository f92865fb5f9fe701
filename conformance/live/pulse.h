/* Two event classes for `conformance/live_lttng.py`. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER beat

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./pulse.h"

#if !defined(BEAT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BEAT_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(beat, step,
    LTTNG_UST_TP_ARGS(int, number, long, count),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, number, number) lttng_ust_field_integer(long, count, count)))

LTTNG_UST_TRACEPOINT_EVENT(beat, word,
    LTTNG_UST_TP_ARGS(long, count, const char *, text),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(long, count, count) lttng_ust_field_string(text, text)))
#endif

#include <lttng/tracepoint-event.h>
