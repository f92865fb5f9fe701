/* A provider in the names that LTTng-UST had before 2.13. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER oven

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./oven.h"

#if !defined(OVEN_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define OVEN_H

#include <lttng/tracepoint.h>
#include <stdint.h>

TRACEPOINT_ENUM(oven, heat, TP_ENUM_VALUES(ctf_enum_value("cold", 0) ctf_enum_range("hot", 1, 4000000000U)))

TRACEPOINT_EVENT(TRACEPOINT_PROVIDER, baked,
    TP_ARGS(const char *, name, uint32_t, heat, int64_t *, times, unsigned int, count),
    TP_FIELDS(
        ctf_string(name, name)
        ctf_enum(oven, heat, uint32_t, heat, heat)
        ctf_integer_hex(uint32_t, heat_hex, heat)
        ctf_integer_network(uint32_t, heat_network, heat)
        ctf_float(double, share, heat / 4.0)
        ctf_array(int64_t, first, times, 1)
        ctf_array_text(char, short_name, name, 3)
        ctf_sequence(int64_t, times, times, unsigned int, count)
        ctf_sequence_text(char, start, name, unsigned int, count)
        ctf_integer_nowrite(uint32_t, none, heat)
    )
)
TRACEPOINT_LOGLEVEL(oven, baked, TRACE_CRIT)

TRACEPOINT_EVENT_CLASS(oven, door, TP_ARGS(int, door), TP_FIELDS(ctf_integer(int, door, door)))
TRACEPOINT_EVENT_INSTANCE(oven, door, opened, TP_ARGS(int, door))
TRACEPOINT_EVENT_INSTANCE(oven, door, closed, TP_ARGS(int, door))

#endif

#include <lttng/tracepoint-event.h>
