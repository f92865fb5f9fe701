/* The tracepoint of the demo's bursts. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER burst

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./burst_tp.h"

#if !defined(BURST_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BURST_TP_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(burst, bean,
	LTTNG_UST_TP_ARGS(uint32_t, burst, uint32_t, number, float, weight),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, burst, burst)
		lttng_ust_field_integer(uint32_t, number, number)
		lttng_ust_field_float(float, weight, weight)
	)
)

#endif

#include <lttng/tracepoint-event.h>
