/* Small helpers the demo programs share. */
#ifndef COMMON_H
#define COMMON_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

/* xorshift64: repeatable numbers; the state must not be zero. */
static inline uint64_t shuffle(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static inline void pause_us(unsigned int us)
{
	struct timespec t = { us / 1000000, (long) (us % 1000000) * 1000 };

	nanosleep(&t, NULL);
}

/* Stay on the n-th of the CPUs in `allowed`, counted round and round. */
static inline void stay_on_cpu(const cpu_set_t *allowed, int n)
{
	cpu_set_t one;
	int cpu;

	for (n %= CPU_COUNT(allowed), cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, allowed) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void) sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}

#endif
