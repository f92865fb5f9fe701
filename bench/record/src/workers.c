#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "workers.h"

#define WORKERS 2

struct job {
	int worker;
	uint64_t events;
	void (*body)(int worker, uint64_t events);
	pthread_barrier_t *start;
};

/* Pin to the n-th CPU of those this process may use; no harm if that fails. */
static void pin(int n)
{
	cpu_set_t allowed, one;
	int cpu, wanted;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	wanted = n % CPU_COUNT(&allowed);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void) sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void *worker_main(void *arg)
{
	struct job *job = arg;

	/* No thread is pinned before all have seen the full set of CPUs. */
	pthread_barrier_wait(job->start);
	pin(job->worker);
	job->body(job->worker, job->events);
	return NULL;
}

int run_workers(uint64_t events, void (*body)(int worker, uint64_t events))
{
	pthread_t threads[WORKERS];
	struct job jobs[WORKERS];
	pthread_barrier_t start;
	int i;

	pthread_barrier_init(&start, NULL, WORKERS);
	for (i = 0; i < WORKERS; i++) {
		jobs[i].worker = i;
		jobs[i].events = events / WORKERS + (i == 0 ? events % WORKERS : 0);
		jobs[i].body = body;
		jobs[i].start = &start;
		errno = pthread_create(&threads[i], NULL, worker_main, &jobs[i]);
		if (errno != 0) {
			perror("pthread_create");
			exit(1);
		}
	}
	for (i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	return 0;
}

uint64_t events_argument(int argc, char **argv)
{
	char *end = NULL;
	uintmax_t n = 0;

	errno = 0;
	if (argc == 2 && argv[1][0] >= '0' && argv[1][0] <= '9')
		n = strtoumax(argv[1], &end, 10);
	if (end == NULL || *end != '\0' || errno != 0 || n == 0) {
		fprintf(stderr, "usage: %s EVENTS\n", argv[0]);
		exit(2);
	}
	return n;
}
