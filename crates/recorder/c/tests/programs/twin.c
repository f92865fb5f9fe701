/* Two libraries of one program, which record the same event and one of their own: TWIN is the name of this one. */
#include <string.h>

#include <tracemill/record.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

TM_EVENT(twins, both, (tm_u64, i))
#ifdef FIRST
TM_EVENT_AT(TM_WARNING, twins, first, (tm_str, text), (tm_u64, i))
#define own tm_twins_first
#else
TM_EVENT_AT(TM_DEBUG, twins, second, (tm_str, text), (tm_u64, i))
#define own tm_twins_second
#endif

void PASTE(work_of_, TWIN)(uint64_t i);
void PASTE(work_of_, TWIN)(uint64_t i) {
    tm_twins_both(i);
    own("twin", i);
}

int PASTE(start_, TWIN)(const char *path);
int PASTE(start_, TWIN)(const char *path) {
    tm_options options;
    memset(&options, 0, sizeof options);
    options.path = path;
    options.mode = TM_BLOCK;
    return tm_start(&options);
}

int PASTE(stop_, TWIN)(void);
int PASTE(stop_, TWIN)(void) { return tm_stop(); }
