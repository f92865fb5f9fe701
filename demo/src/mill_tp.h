/* Tracepoints of the demo's coffee mill. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER mill

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./mill_tp.h"

#if !defined(MILL_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define MILL_TP_H

#include <stddef.h>
#include <stdint.h>
#include <lttng/tracepoint.h>

#include "readings.h"

/* Signed, with ranges; 4 and 5 have two labels, 9 and above have none. */
LTTNG_UST_TRACEPOINT_ENUM(mill, gear,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_range("REVERSE", -3, -1)
		lttng_ust_field_enum_value("NEUTRAL", 0)
		lttng_ust_field_enum_range("COARSE", 1, 5)
		lttng_ust_field_enum_range("FINE", 4, 8)
	)
)

/* Unsigned, partly with automatic values (0, 1, 2, 20, 21), odd labels. */
LTTNG_UST_TRACEPOINT_ENUM(mill, stage,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_auto("green")
		lttng_ust_field_enum_auto("drying")
		lttng_ust_field_enum_auto("1st crack")
		lttng_ust_field_enum_value("2nd \"crack\"", 20)
		lttng_ust_field_enum_auto("br\xc3\xbbl\xc3\xa9")
	)
)

/* The ends of the 64-bit numbers. */
LTTNG_UST_TRACEPOINT_ENUM(mill, stock,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("NONE", 0)
		lttng_ust_field_enum_range("SOME", 1, 0x7fffffffffffffffULL)
		lttng_ust_field_enum_value("ENDLESS", 0xffffffffffffffffULL)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(mill, grind,
	LTTNG_UST_TP_ARGS(int, grinder, uint32_t, lot, int, gear, float, grams),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, grinder, grinder)
		lttng_ust_field_integer(uint32_t, lot, lot)
		lttng_ust_field_enum(mill, gear, int8_t, gear, (int8_t) gear)
		lttng_ust_field_float(float, grams, grams)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(mill, grind, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

LTTNG_UST_TRACEPOINT_EVENT(mill, dials,
	LTTNG_UST_TP_ARGS(const struct dials *, d),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint8_t, hopper, d->hopper)
		lttng_ust_field_integer(int8_t, drift, d->drift)
		lttng_ust_field_integer(uint16_t, turns, d->turns)
		lttng_ust_field_integer(int16_t, shake, d->shake)
		lttng_ust_field_integer(uint32_t, pulses, d->pulses)
		lttng_ust_field_integer(int32_t, torque, d->torque)
		lttng_ust_field_integer(uint64_t, total, d->total)
		lttng_ust_field_integer(int64_t, balance, d->balance)
		lttng_ust_field_integer_hex(uint8_t, lamps, d->lamps)
		lttng_ust_field_integer_hex(int16_t, shake_bits, d->shake)
		lttng_ust_field_integer_hex(uint64_t, serial, d->serial)
		lttng_ust_field_integer_network_hex(uint32_t, address, d->address)
		lttng_ust_field_integer_network(uint16_t, port, d->port)
		lttng_ust_field_integer_network(int32_t, rank, d->rank)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(mill, stage,
	LTTNG_UST_TP_ARGS(uint32_t, batch, unsigned int, stage, uint64_t, stock, double, degrees),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, batch, batch)
		lttng_ust_field_enum(mill, stage, uint16_t, stage, (uint16_t) stage)
		lttng_ust_field_enum(mill, stock, uint64_t, stock, stock)
		lttng_ust_field_float(double, degrees, degrees)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(mill, stage, LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)

LTTNG_UST_TRACEPOINT_EVENT(mill, curve,
	LTTNG_UST_TP_ARGS(const struct curve *, c),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_array(int16_t, heat, c->heat, 6)
		lttng_ust_field_array_hex(uint64_t, keys, c->keys, 2)
		lttng_ust_field_array_network(uint32_t, gauges, c->gauges, 3)
		lttng_ust_field_sequence_hex(uint8_t, raw, c->raw, uint8_t, c->raw_count)
		lttng_ust_field_sequence(int32_t, steps, c->steps, size_t, c->step_count)
		lttng_ust_field_float(float, weight, c->weight)
		lttng_ust_field_float(double, moisture, c->moisture)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(mill, label,
	LTTNG_UST_TP_ARGS(const char *, origin, const char *, stamp, const char *, remark, size_t, remark_size),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(origin, origin)
		lttng_ust_field_array_text(char, stamp, stamp, 10)
		lttng_ust_field_sequence_text(char, remark, remark, uint16_t, remark_size)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(mill, label, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

LTTNG_UST_TRACEPOINT_EVENT(mill, bell,
	LTTNG_UST_TP_ARGS(),
	LTTNG_UST_TP_FIELDS()
)
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(mill, bell, "https://example.org/mill/bell")

#endif

#include <lttng/tracepoint-event.h>
