#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER mill
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./events.h"
#if !defined(MILL_EVENTS_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define MILL_EVENTS_H
#include <lttng/tracepoint.h>
TRACEPOINT_EVENT(mill, tick, TP_ARGS(unsigned long, a, unsigned long, b),
                 TP_FIELDS(ctf_integer(unsigned long, a, a) ctf_integer(unsigned long, b, b)))
#endif
#include <lttng/tracepoint-event.h>
