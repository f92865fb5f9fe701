/* A provider expands to declarations where its probes are not made. Included more than once. */
#pragma GCC system_header

#include "tracemill-reset.h"

#undef LTTNG_UST_TRACEPOINT_EVENT
#define LTTNG_UST_TRACEPOINT_EVENT(provider, name, args, fields) \
    TM_LTTNG_DECLARE_(provider, name, TM_LTTNG_PARAMS_(args)) TM_LTTNG_DEFINE_(provider, name)

#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, template_name, provider, name, args) \
    TM_LTTNG_DECLARE_(provider, name, TM_LTTNG_PARAMS_(args)) TM_LTTNG_DEFINE_(provider, name)
