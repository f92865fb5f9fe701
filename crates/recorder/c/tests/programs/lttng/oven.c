/* The probes of a provider in the older names. */
#define TRACEPOINT_CREATE_PROBES
#include "oven.h"
