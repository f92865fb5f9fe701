/* lttng_ust_tracef(format, ...): a formatted text as an event, lttng_ust_tracef:event. */
#ifndef TM_LTTNG_TRACEF_H
#define TM_LTTNG_TRACEF_H

#pragma GCC system_header

#include "tracemill-format.h"
#include "tracepoint.h"

TM_EVENT_AT(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG, lttng_ust_tracef, event, (tm_lttng_text, msg))

static __attribute__((unused, noinline, format(printf, 1, 0))) void tm_lttng_vtracef_(const char *format, va_list values) {
    struct tm_lttng_formatted_ message;
    tm_lttng_format_(&message, format, values);
    tm_lttng_ust_tracef_event(message.text);
    free(message.allocated);
}

static __attribute__((unused, noinline, format(printf, 1, 2))) void tm_lttng_tracef_(const char *format, ...) {
    va_list values;
    va_start(values, format);
    tm_lttng_vtracef_(format, values);
    va_end(values);
}

#define TM_LTTNG_TRACEF_IS_ON_() tm_record_is_on_(&tm_record_site_lttng_ust_tracef_event)

#define lttng_ust_tracef(...) \
    do { \
        if (__builtin_expect(TM_LTTNG_TRACEF_IS_ON_(), 0)) tm_lttng_tracef_(__VA_ARGS__); \
    } while (0)
#define lttng_ust_vtracef(format, values) \
    do { \
        if (__builtin_expect(TM_LTTNG_TRACEF_IS_ON_(), 0)) tm_lttng_vtracef_(format, values); \
    } while (0)

#if LTTNG_UST_COMPAT_API(0)
#define tracef lttng_ust_tracef
#define vtracef lttng_ust_vtracef
#endif

#endif
