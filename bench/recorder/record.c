/* Events of the C header with two integers, or with a text: CPU time of this thread an event, in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tracemill/record.h>

TM_EVENT(mill, tick, (tm_u64, a), (tm_u64, b))
TM_EVENT(mill, text, (tm_u64, a), (tm_str, b))

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void run(int has_text, long n) {
    static const char *volatile text = "sixteen bytes is";
    if (has_text) {
        for (long i = 0; i < n; i++) tm_mill_text(i, text);
    } else {
        for (long i = 0; i < n; i++) tm_mill_tick(i, 2 * i);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 1;
    const long n = atol(argv[3]), is_off = strcmp(argv[1], "off") == 0, has_text = strcmp(argv[1], "text") == 0;
    const long count = is_off ? n * 100 : n;
    const int status = tm_start(&(tm_options){
        .path = argv[2],
        .mode = strcmp(argv[1], "stream") == 0 ? TM_STREAM : TM_FLIGHT,
        .ring_bytes = strcmp(argv[1], "stream") == 0 ? 64 << 20 : 4 << 20,
        .events = is_off ? "-*" : NULL,
    });
    if (status != 0) return 2;
    run(has_text, n / 10);
    const double begin = now();
    run(has_text, count);
    fprintf(stderr, "%.3f\n", (now() - begin) / count);
    return tm_stop() == 0 ? 0 : 3;
}
