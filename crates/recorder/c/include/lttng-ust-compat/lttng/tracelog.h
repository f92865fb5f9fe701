/* lttng_ust_tracelog(level, format, ...): a formatted text, with its place in the source, as an event of that level. */
#ifndef TM_LTTNG_TRACELOG_H
#define TM_LTTNG_TRACELOG_H

#pragma GCC system_header

#include "tracemill-format.h"
#include "tracepoint.h"

#define TM_LTTNG_LOG_(level) \
    TM_EVENT_AT(level, lttng_ust_tracelog, level, (tm_i32, line), (tm_lttng_string, file), (tm_lttng_string, func), \
                (tm_lttng_text, msg)) \
    static __attribute__((unused, noinline, format(printf, 4, 0))) void tm_lttng_vlog_##level( \
        const char *file, int line, const char *function, const char *format, va_list values) { \
        struct tm_lttng_formatted_ message; \
        tm_lttng_format_(&message, format, values); \
        tm_lttng_ust_tracelog_##level(line, file, function, message.text); \
        free(message.allocated); \
    } \
    static __attribute__((unused, noinline, format(printf, 4, 5))) void tm_lttng_log_##level( \
        const char *file, int line, const char *function, const char *format, ...) { \
        va_list values; \
        va_start(values, format); \
        tm_lttng_vlog_##level(file, line, function, format, values); \
        va_end(values); \
    }

TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE)
TM_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

#define TM_LTTNG_LOG_IF_ON_(level, ...) \
    do { \
        if (__builtin_expect(tm_record_is_on_(&tm_record_site_lttng_ust_tracelog_##level), 0)) \
            tm_lttng_log_##level(__FILE__, __LINE__, __func__, __VA_ARGS__); \
    } while (0)
#define TM_LTTNG_VLOG_IF_ON_(level, format, values) \
    do { \
        if (__builtin_expect(tm_record_is_on_(&tm_record_site_lttng_ust_tracelog_##level), 0)) \
            tm_lttng_vlog_##level(__FILE__, __LINE__, __func__, format, values); \
    } while (0)

#define lttng_ust_tracelog(level, ...) TM_LTTNG_LOG_IF_ON_(level, __VA_ARGS__)
#define lttng_ust_vtracelog(level, format, values) TM_LTTNG_VLOG_IF_ON_(level, format, values)

#if LTTNG_UST_COMPAT_API(0)
#define tracelog lttng_ust_tracelog
#define vtracelog lttng_ust_vtracelog
#endif

#endif
