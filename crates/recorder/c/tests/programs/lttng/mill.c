/* A program with LTTng's tracepoints, as it is for LTTng-UST. C99 to C23, C++11 to C++23. */
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "mill.h"
#include "oven.h"

void messages(void);

static int evaluated;

static int counted(int value) {
    evaluated++;
    return value;
}

int main(void) {
    static const int32_t list[] = {1, -2, 300};
    static const int grains[] = {-1, 0, 7, 10, 11, 40};
    static int64_t times[] = {-7, 8};
    const int was_on = lttng_ust_tracepoint_enabled(mill, bare);
    lttng_ust_tracepoint(mill, numbers, counted(-5), UINT64_C(0xfedcba9876543210), true, (const void *)(uintptr_t)0x7f01,
                         0x0102, 1.5f, -0.25);
    lttng_ust_tracepoint(mill, lists, list, 3, "flour", 4); lttng_ust_tracepoint(mill, lists, list, 0, "1234567", 0);
    for (size_t at = 0; at < sizeof grains / sizeof *grains; at++) lttng_ust_tracepoint(mill, grains, grains[at]);
    if (lttng_ust_tracepoint_enabled(mill, bare)) lttng_ust_do_tracepoint(mill, bare);
    lttng_ust_tracepoint(mill, sack_in, 1, "rye");
    lttng_ust_tracepoint(mill, sack_out, 2, NULL);
    lttng_ust_tracepoint(mill, ten, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    tracepoint(oven, baked, "bread", 220, times, 2);
    if (tracepoint_enabled(oven, opened)) do_tracepoint(oven, opened, 1);
    tracepoint(oven, closed, -1);
#ifndef WITHOUT_MESSAGES
    messages();
#endif
    /* Arguments of what is off are not evaluated, those of what is on once. */
    return evaluated == was_on ? 0 : 1;
}
