/* Not a part of the interface that is supported here. */
#error "<lttng/ust-events.h> (contexts and providers made at run time) is not supported by tracemill's lttng-ust-compat: compile this file with LTTng-UST, or leave it out"
