/* Formatted messages. */
#include <lttng/tracef.h>
#include <lttng/tracelog.h>
#include <stdarg.h>
#include <string.h>

void messages(void);

static __attribute__((format(printf, 1, 2))) void formatted(const char *format, ...) {
    va_list values;
    va_start(values, format);
    lttng_ust_vtracef(format, values);
    va_end(values);
    va_start(values, format);
    lttng_ust_vtracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE, format, values);
    va_end(values);
}

void messages(void) {
    static char longer[2001];
    memset(longer, 'x', sizeof longer - 1);
    lttng_ust_tracef("%d sacks of %s", 3, "rye");
    tracef("none");
    lttng_ust_tracef("%s", longer);
    lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR, "oven %d is %s", 2, "cold");
    formatted("%s %c", "late", '!');
#ifndef FOR_LTTNG_UST
    tracelog(TRACE_DEBUG, "done"); /* which LTTng-UST 2.13 does not compile */
#endif
}
