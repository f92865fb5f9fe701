#ifndef PLANT_SAMPLE_H
#define PLANT_SAMPLE_H

#include <stdint.h>

/* One record of everything a tracepoint can hold. */
struct plant_sample {
	uint64_t count;
	uint32_t hex;
	int gear;
	int phase;
	const char *text;
	const uint16_t *words;	/* 4 of them */
	const char *fixed;	/* 8 bytes, padded with NUL */
	const uint8_t *bytes;
	uint8_t bytes_len;
	uint16_t text_len;
	double ratio;
	float temp;
};

#endif
