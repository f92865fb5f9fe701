/* A provider with all kinds of fields, in the names of LTTng-UST 2.13. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER mill

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./mill.h"

#if !defined(MILL_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define MILL_H

#include <lttng/tracepoint.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_ENUM(mill, grain,
    LTTNG_UST_TP_ENUM_VALUES(
        lttng_ust_field_enum_value("rye", -1)
        lttng_ust_field_enum_auto("oats")
        lttng_ust_field_enum_range("wheat", 5, 9)
        lttng_ust_field_enum_auto("spelt")
        lttng_ust_field_enum_value("the \"best\" \\ all", 40)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(mill, numbers,
    LTTNG_UST_TP_ARGS(int, i, uint64_t, u, bool, b, const void *, p, short, network, float, f, double, d),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, i, i)
        lttng_ust_field_integer(signed char, i8, i)
        lttng_ust_field_integer(uint16_t, u16, u)
        lttng_ust_field_integer(const unsigned long long, u64, u + 1)
        lttng_ust_field_integer_hex(uint64_t, u_hex, u)
        lttng_ust_field_integer_hex(const void *, p_hex, p)
        lttng_ust_field_integer(bool, b, b)
        lttng_ust_field_integer_network(short, network, network)
        lttng_ust_field_integer_network_hex(uint16_t, network_hex, network)
        lttng_ust_field_integer_nowrite(int, filtered, i / 0)
        lttng_ust_field_float(float, f, f)
        lttng_ust_field_float(double, d, d)
        lttng_ust_field_unused(d)
    )
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(mill, numbers, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)

LTTNG_UST_TRACEPOINT_EVENT(mill, lists,
    LTTNG_UST_TP_ARGS(const int32_t *, list, size_t, count, const char *, text, uint8_t, len),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_array(int32_t, array, list, 2)
        lttng_ust_field_array_hex(int32_t, array_hex, list, 1 + 1)
        lttng_ust_field_array_network(int32_t, array_network, list, 2)
        lttng_ust_field_array_network_hex(int32_t, array_network_hex, list, 2)
        lttng_ust_field_array_text(char, array_text, text, 6)
        lttng_ust_field_array_nowrite(int32_t, array_none, list, 2)
        lttng_ust_field_sequence(int32_t, sequence, list, size_t, count)
        lttng_ust_field_sequence_hex(uint8_t, sequence_hex, text, size_t, count)
        lttng_ust_field_sequence_network(int32_t, sequence_network, list, size_t, count)
        lttng_ust_field_sequence_network_hex(int32_t, sequence_network_hex, list, size_t, count)
        lttng_ust_field_sequence_text(char, sequence_text, text, uint8_t, len)
        lttng_ust_field_sequence_nowrite(int32_t, sequence_none, list, size_t, count)
        lttng_ust_field_string(string, text)
        lttng_ust_field_string_nowrite(string_none, text)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(mill, grains,
    LTTNG_UST_TP_ARGS(int, grain),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_enum(mill, grain, int, grain, grain)
        lttng_ust_field_enum(mill, grain, signed char, small, grain)
        lttng_ust_field_enum_nowrite(mill, grain, int, none, grain)
    )
)

LTTNG_UST_TRACEPOINT_EVENT(mill, bare, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(mill, bare, "http://mill.example/bare")

LTTNG_UST_TRACEPOINT_EVENT_CLASS(mill, sack,
    LTTNG_UST_TP_ARGS(unsigned int, sack, const char *, name),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(unsigned int, sack, sack)
        lttng_ust_field_string(name, name)
    )
)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(mill, sack, mill, sack_in, LTTNG_UST_TP_ARGS(unsigned int, sack, const char *, name))
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(mill, sack, mill, sack_out, LTTNG_UST_TP_ARGS(unsigned int, sack, const char *, name))
LTTNG_UST_TRACEPOINT_LOGLEVEL(mill, sack_out, LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT)

LTTNG_UST_TRACEPOINT_EVENT(mill, ten,
    LTTNG_UST_TP_ARGS(int, a, int, b, int, c, int, d, int, e, int, f, int, g, int, h, int, i, int, j),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int, sum, a + b + c + d + e + f + g + h + i + j)
    )
)

#endif

#include <lttng/tracepoint-event.h>
