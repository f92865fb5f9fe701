/* `pulse NUMBER COUNT MICROSECONDS`: an event each so many microseconds, and a text with each seventh. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int number = atoi(argv[1]);
    long count = atol(argv[2]);
    useconds_t pause = (useconds_t)atol(argv[3]);
    for (long i = 0; i < count; i++) {
        lttng_ust_tracepoint(beat, step, number, i);
        if (i % 7 == 0) {
            char text[32];
            snprintf(text, sizeof text, "%d: %ld", number, i);
            lttng_ust_tracepoint(beat, word, i, text);
        }
        usleep(pause);
    }
    return 0;
}
