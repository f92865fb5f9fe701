/* Tracepoints of the benchmark recorder: provider "plant". */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER plant

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./plant_tp.h"

#if !defined(PLANT_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLANT_TP_H

#include <stddef.h>
#include <stdint.h>
#include <lttng/tracepoint.h>

#include "plant_sample.h"

LTTNG_UST_TRACEPOINT_EVENT(plant, tick,
	LTTNG_UST_TP_ARGS(int, worker, uint64_t, seq, uint32_t, load),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, worker, worker)
		lttng_ust_field_integer(uint64_t, seq, seq)
		lttng_ust_field_integer_hex(uint32_t, load, load)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(plant, note,
	LTTNG_UST_TP_ARGS(int, worker, const char *, msg),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, worker, worker)
		lttng_ust_field_string(msg, msg)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(plant, note, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

/* A span's begin and its end carry the same fields. */
LTTNG_UST_TRACEPOINT_EVENT_CLASS(plant, span,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, what),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_string(what, what)
	)
)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(plant, span, plant, span_begin,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, what))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(plant, span, plant, span_end,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, what))

/* Signed mapping with a gap, ranges and an overlap at 6. */
LTTNG_UST_TRACEPOINT_ENUM(plant, gear_names,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("BACK", -1)
		lttng_ust_field_enum_value("REST", 0)
		lttng_ust_field_enum_range("SLOW", 1, 2)
		lttng_ust_field_enum_range("FAST", 3, 6)
		lttng_ust_field_enum_value("LIMIT", 6)
	)
)

/* Partly automatic values: 0, 1, 2, 10, 11. */
LTTNG_UST_TRACEPOINT_ENUM(plant, phase_names,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_auto("WAIT")
		lttng_ust_field_enum_auto("LOAD")
		lttng_ust_field_enum_auto("TURN")
		lttng_ust_field_enum_value("EMPTY_OUT", 10)
		lttng_ust_field_enum_auto("HALT")
	)
)

LTTNG_UST_TRACEPOINT_EVENT(plant, mixed,
	LTTNG_UST_TP_ARGS(const struct plant_sample *, s),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint8_t, u8, (uint8_t) s->count)
		lttng_ust_field_integer(int8_t, s8, (int8_t) s->count)
		lttng_ust_field_integer(uint16_t, u16, (uint16_t) s->count)
		lttng_ust_field_integer(int16_t, s16, (int16_t) s->count)
		lttng_ust_field_integer(uint32_t, u32, (uint32_t) s->count)
		lttng_ust_field_integer(int32_t, s32, -(int32_t) s->count)
		lttng_ust_field_integer(uint64_t, u64, s->count)
		lttng_ust_field_integer(int64_t, s64, -(int64_t) s->count)
		lttng_ust_field_integer_hex(uint32_t, hex, s->hex)
		lttng_ust_field_integer_network(uint32_t, net, (uint32_t) s->count)
		lttng_ust_field_integer_network_hex(uint16_t, nethex, (uint16_t) s->count)
		lttng_ust_field_enum(plant, gear_names, int32_t, gear, s->gear)
		lttng_ust_field_enum(plant, phase_names, uint8_t, phase, (uint8_t) s->phase)
		lttng_ust_field_string(text, s->text)
		lttng_ust_field_array(uint16_t, words, s->words, 4)
		lttng_ust_field_array_text(char, fixed, s->fixed, 8)
		lttng_ust_field_sequence(uint8_t, bytes, s->bytes, size_t, s->bytes_len)
		lttng_ust_field_sequence_hex(uint8_t, bytes_hex, s->bytes, uint8_t, s->bytes_len)
		lttng_ust_field_sequence_text(char, text_seq, s->text, uint16_t, s->text_len)
		lttng_ust_field_float(double, ratio, s->ratio)
		lttng_ust_field_float(float, temp, s->temp)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(plant, empty,
	LTTNG_UST_TP_ARGS(),
	LTTNG_UST_TP_FIELDS()
)

#endif

#include <lttng/tracepoint-event.h>
