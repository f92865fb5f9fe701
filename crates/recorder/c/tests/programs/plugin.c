/* A library that a program loads and unloads. */
#include <tracemill/record.h>

TM_EVENT(p, event, (tm_u64, i))

static __attribute__((constructor)) void begin(void) { tm_p_event(1000); }
static __attribute__((destructor)) void end(void) { tm_p_event(2000); }

void work(uint64_t i);
void work(uint64_t i) { tm_p_event(i); }

int stop(void);
int stop(void) { return tm_stop(); }
