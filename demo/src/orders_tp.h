/* Tracepoints of the demo's order desk. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER orders

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./orders_tp.h"

#if !defined(ORDERS_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define ORDERS_TP_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_ENUM(orders, way,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("COUNTER", 1)
		lttng_ust_field_enum_value("BICYCLE", 2)
		lttng_ust_field_enum_range("POST", 3, 5)
		lttng_ust_field_enum_value("EXPRESS", 5)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(orders, taken,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, customer, const uint16_t *, goods, unsigned int, count),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_string(customer, customer)
		lttng_ust_field_sequence(uint16_t, goods, goods, unsigned int, count)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(orders, priced,
	LTTNG_UST_TP_ARGS(uint32_t, id, int64_t, cents, double, discount),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_integer(int64_t, cents, cents)
		lttng_ust_field_float(double, discount, discount)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(orders, sent,
	LTTNG_UST_TP_ARGS(uint32_t, id, unsigned int, way, const char *, code),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_enum(orders, way, unsigned int, way, way)
		lttng_ust_field_array_text(char, code, code, 6)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(orders, complaint,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, text),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_string(text, text)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(orders, complaint, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

#endif

#include <lttng/tracepoint-event.h>
