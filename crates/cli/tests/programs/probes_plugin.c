// A library with a probe, that a program loads while it runs.
#include "probes.h"

SEMAPHORE(run_semaphore);

int plugin_run(int count) {
    int known = 0;
    for (int i = 0; i < count; i++) {
        if (run_semaphore) {
            PROBE_ASKED(plug, run, run_semaphore);
            known++;
        }
        if (run_semaphore) {
            PROBE_WITH(plug, run, "run_semaphore", "-4@%0", "", : : "nor"(i));
            known++;
        }
    }
    return known;
}
