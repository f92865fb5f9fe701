/* A provider expands to nothing. Included more than once, before what a pass defines. */
#pragma GCC system_header

#undef LTTNG_UST_TRACEPOINT_EVENT
#define LTTNG_UST_TRACEPOINT_EVENT(provider, name, args, fields) \
    LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, TM_LTTNG_PARAMS_(args), TM_LTTNG_PARAMS_(fields)) \
    LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(provider, name, provider, name, TM_LTTNG_PARAMS_(args))

#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields)

#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, template_name, provider, name, args)

#undef LTTNG_UST_TRACEPOINT_ENUM
#define LTTNG_UST_TRACEPOINT_ENUM(provider, name, values)

#undef LTTNG_UST_TRACEPOINT_LOGLEVEL
#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, name, level)

/* Links to models of events are not recorded. */
#undef LTTNG_UST_TRACEPOINT_MODEL_EMF_URI
#define LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(provider, name, uri)
