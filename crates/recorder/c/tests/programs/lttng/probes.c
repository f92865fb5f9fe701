/* The probes of a provider. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "mill.h"
