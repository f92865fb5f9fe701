/* Calls that lead to an event: `stacks FOLDER`, with the context `callstack` by the environment. */
#include <string.h>

#include <tracemill/record.h>

TM_EVENT(s, deep, (tm_u64, i))

/* Work after it keeps the call from being the last, which needs no frame. */
__attribute__((noinline)) static void inner(uint64_t i) {
    tm_s_deep(i);
    __asm__ volatile("");
}

__attribute__((noinline)) static void outer(uint64_t i) {
    inner(i);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    tm_options options;
    memset(&options, 0, sizeof options);
    if (argc < 2) return 1;
    options.path = argv[1];
    if (tm_start(&options) != 0) return 2;
    for (uint64_t i = 0; i < 3; i++) outer(i);
    return tm_stop() != 0;
}
