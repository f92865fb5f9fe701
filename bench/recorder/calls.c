/* Calls of an empty function, or with -DLIBRARY of one of the C library, in ns a call: CPU time of this thread, then time that passed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef LIBRARY
static volatile long result;
#define leaf(number) (result = labs(number))
#else
__attribute__((noinline)) void leaf(long number) { __asm__ volatile("" : : "r"(number)); }
#endif

__attribute__((no_instrument_function)) static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1000000;
    for (long i = 0; i < n / 10; i++) leaf(i);
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < n; i++) leaf(i);
    cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
    wall = now(CLOCK_MONOTONIC) - wall;
    fprintf(stderr, "%.3f\n%.3f\n", cpu / n, wall / n);
    return 0;
}
