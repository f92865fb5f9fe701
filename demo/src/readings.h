/* What the mill's two larger tracepoints take their fields from. */
#ifndef READINGS_H
#define READINGS_H

#include <stdint.h>

/* One look at all the dials of a grinder. */
struct dials {
	uint8_t hopper;		/* percent */
	int8_t drift;		/* tenths of a degree */
	uint16_t turns;		/* per minute */
	int16_t shake;
	uint32_t pulses;
	int32_t torque;
	uint64_t total;		/* micrograms since the mill was built */
	int64_t balance;
	uint8_t lamps;		/* bits */
	uint64_t serial;
	uint32_t address;	/* network byte order */
	uint16_t port;		/* network byte order */
	int32_t rank;		/* network byte order */
};

/* What the roaster's probes saw during a batch. */
struct curve {
	int16_t heat[6];
	uint64_t keys[2];
	uint32_t gauges[3];	/* network byte order */
	const uint8_t *raw;
	uint8_t raw_count;
	const int32_t *steps;
	uint16_t step_count;
	float weight;
	double moisture;
};

#endif
