/* Formatted texts of <lttng/tracef.h> and <lttng/tracelog.h>. */
#ifndef TM_LTTNG_FORMAT_H
#define TM_LTTNG_FORMAT_H

#pragma GCC system_header

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../tracemill/record.h"

#ifdef TM_DISABLE
#error "LTTng's tracepoints need the library: TM_DISABLE is for <tracemill/record.h> alone"
#endif

/* Fields as lttng_ust_field_sequence_text and lttng_ust_field_string have them. */
#define tm_record_parameter_tm_lttng_text tm_text
#define tm_record_class_tm_lttng_text TM_RECORD_SEQUENCE_TEXT_
#define tm_record_kind_tm_lttng_text text_
#define tm_record_parameter_tm_lttng_string tm_str
#define tm_record_class_tm_lttng_string TM_RECORD_STRING_
#define tm_record_kind_tm_lttng_string lttng_string_
#define TM_RECORD_KEEP_lttng_string_ TM_RECORD_KEEP_string_
#define TM_RECORD_LEN_lttng_string_(name) (tm_record_##name.len + 1)
#define TM_RECORD_PUT_lttng_string_(name) \
    if (tm_record_##name.len) tm_record_at = tm_record_put_(tm_record_at, tm_record_##name.bytes, tm_record_##name.len); \
    *tm_record_at++ = 0;

struct tm_lttng_formatted_ {
    tm_text text;
    char *allocated; /* null when it is short */
    char bytes[512];
};

static __attribute__((unused, format(printf, 2, 0))) void tm_lttng_format_(struct tm_lttng_formatted_ *to,
                                                                           const char *format, va_list values) {
    va_list again;
    int len;
    to->allocated = NULL;
    va_copy(again, values);
    len = vsnprintf(to->bytes, sizeof to->bytes, format, values);
    if (len >= (int)sizeof to->bytes) to->allocated = (char *)malloc((size_t)len + 1);
    if (to->allocated) vsnprintf(to->allocated, (size_t)len + 1, format, again);
    va_end(again);
    /* Without memory, the part that is there. */
    if (len >= (int)sizeof to->bytes && !to->allocated) len = (int)sizeof to->bytes - 1;
    to->text = tm_record_text_(to->allocated ? to->allocated : to->bytes, len < 0 ? 0 : (size_t)len);
}

#endif
