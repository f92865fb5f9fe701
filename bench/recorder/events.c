/* Events of LTTng-UST with two integers: CPU time of this thread an event, in ns. */
#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "events.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    for (long i = 0; i < n / 10; i++) tracepoint(mill, tick, i, 2 * i);
    double begin = now();
    for (long i = 0; i < n; i++) tracepoint(mill, tick, i, 2 * i);
    fprintf(stderr, "%.3f\n", (now() - begin) / n);
    return 0;
}
