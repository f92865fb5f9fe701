/* What the two benchmark programs share: pinned threads and random numbers. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdint.h>

/* splitmix64: fixed seeds make every recording hold the same events. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/*
 * Run body(worker, events) in two threads, each pinned to a CPU of its own
 * where there are two; `events` is what is to be emitted over both.
 */
int run_workers(uint64_t events, void (*body)(int worker, uint64_t events));

/* The event count given as argv[1]; exits with a message if there is none. */
uint64_t events_argument(int argc, char **argv);

#endif
