/* Not a part of the interface that is supported here. */
#error "<lttng/ust-getcpu.h> (CPU numbers of programs) is not supported by tracemill's lttng-ust-compat: compile this file with LTTng-UST, or leave it out"
