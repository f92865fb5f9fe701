// A few probes in functions, as many as uftrace has room for between two calls.
#include <setjmp.h>

#include "probes.h"

#define UNTRACED __attribute__((no_instrument_function, noinline))

static volatile int work;
static jmp_buf place;

static void leaf(void) {
    PROBE(app, leaf);
    work++;
}

static void both(void) {
    PROBE(app, first);
    leaf();
    PROBE_OF(app, second, work);
    PROBE_TRAPPED(app, third);
}

// It is left without a return: what comes after is in its caller.
static void jumps(void) {
    PROBE(app, before);
    longjmp(place, 1);
}

static void caught(void) {
    if (!__builtin_expect(_setjmp(place), 0))
        jumps();
    PROBE(app, after);
}

UNTRACED __attribute__((constructor)) static void early(void) {
    PROBE(outside, early);
}

UNTRACED int main(int count, char **arguments) {
    (void)arguments;
    for (int i = 0; i < 3; i++)
        both();
    if (count > 1)
        caught();
    PROBE(outside, late);
    return 0;
}
