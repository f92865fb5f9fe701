/* Calls of an empty function: CPU time of this thread a call, in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) void leaf(void) { __asm__ volatile(""); }

__attribute__((no_instrument_function)) static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    for (long i = 0; i < n / 10; i++) leaf();
    double begin = now();
    for (long i = 0; i < n; i++) leaf();
    fprintf(stderr, "%.3f\n", (now() - begin) / n);
    return 0;
}
