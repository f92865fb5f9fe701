/*
 * A sack bursts: four times 2,000 numbered beans fall at once. Buffers that
 * hold but a few hundred events lose the rest, and the numbers show which.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "common.h"
#include "burst_tp.h"

int main(void)
{
	cpu_set_t allowed;
	uint32_t burst, number;

	/* One CPU, hence one ring buffer. */
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
		stay_on_cpu(&allowed, 0);
	for (burst = 0; burst < 4; burst++) {
		pause_us(100000);
		for (number = 0; number < 2000; number++)
			lttng_ust_tracepoint(burst, bean, burst, number,
				0.125f + (float) (number % 16) / 256.0f);
	}
	/* A last event, so that the losses of the last burst are known. */
	pause_us(100000);
	lttng_ust_tracepoint(burst, bean, burst, 0, 0.0f);
	return 0;
}
