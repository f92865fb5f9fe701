/* Fields that are not supported, one each: -DUNSUPPORTED_1 and so on. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER unsupported

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./unsupported.h"

#if !defined(UNSUPPORTED_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define UNSUPPORTED_H

#ifdef UNSUPPORTED_4
#include <lttng/ust-events.h>
#endif
#include <lttng/tracepoint.h>

#if defined(UNSUPPORTED_1)
#define FIELD lttng_ust_field_float(long double, number, number)
#elif defined(UNSUPPORTED_2)
#define FIELD lttng_ust_field_array(float, list, list, 2)
#elif defined(UNSUPPORTED_3)
#define FIELD lttng_ust_field_sequence(float, list, list, size_t, 2)
#else
#define FIELD
#endif

LTTNG_UST_TRACEPOINT_EVENT(unsupported, event,
    LTTNG_UST_TP_ARGS(const float *, list, long double, number),
    LTTNG_UST_TP_FIELDS(FIELD)
)

#endif

#include <lttng/tracepoint-event.h>
