/* The demo's coffee mill: two grinders, a thread each, 1,000 events from each. */
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "mill_tp.h"

#include "common.h"

#define GRINDERS 2
#define EVENTS 1000
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static cpu_set_t allowed;

static const char *const origins[] = {
	"Yirgacheffe", "Huehuetenango", "S\xc3\xa3o Paulo", "Sidamo \"A\"", "blend\t7",
	"Kona\nextra fancy", "shelf\\3", "",
};
static const char *const remarks[] = {
	"nutty", "dark, some smoke", "too wet: dry again, weigh again and put it by", "", "{ 5 }",
};

static void turn_dials(uint64_t i, uint64_t r)
{
	struct dials d = {
		.hopper = (uint8_t) (r % 256),
		.drift = (int8_t) (r >> 8),
		.turns = (uint16_t) (r >> 16),
		.shake = (int16_t) (r >> 24),
		.pulses = (uint32_t) (r >> 32),
		.torque = (int32_t) (r >> 20),
		.total = i % 5 == 0 ? UINT64_MAX : i * 1000003,
		.balance = i % 5 == 1 ? INT64_MIN : -(int64_t) (r >> 30),
		.lamps = (uint8_t) (r >> 3),
		.serial = r,
		.address = htonl(0x0a000000 | (uint32_t) (r & 0xffff)),
		.port = htons((uint16_t) (1024 + i)),
		.rank = (int32_t) htonl((uint32_t) ((int32_t) (i % 7) - 3)),
	};

	lttng_ust_tracepoint(mill, dials, &d);
}

static void draw_curve(uint64_t i, uint64_t r)
{
	static const double odd[] = { 0.0, -0.0, 0.1, 1e-310, 6.02214076e23, INFINITY, -INFINITY, NAN };
	int32_t steps[5];
	uint8_t raw[9];
	struct curve c;
	size_t k;

	for (k = 0; k < COUNT(c.heat); k++)
		c.heat[k] = (int16_t) (r >> (8 * k));
	for (k = 0; k < COUNT(raw); k++)
		raw[k] = (uint8_t) (r >> (6 * k));
	for (k = 0; k < COUNT(steps); k++)
		steps[k] = (int32_t) (k * i) - 400;
	for (k = 0; k < COUNT(c.gauges); k++)
		c.gauges[k] = htonl((uint32_t) (i + k));
	c.keys[0] = r;
	c.keys[1] = ~r;
	c.raw = raw;
	c.raw_count = (uint8_t) (r % (COUNT(raw) + 1));
	c.steps = steps;
	c.step_count = (uint16_t) ((r >> 4) % (COUNT(steps) + 1));
	c.weight = (float) (r % 100000) / 7.0f;
	c.moisture = odd[(r >> 50) % COUNT(odd)];
	lttng_ust_tracepoint(mill, curve, &c);
}

static void stick_label(uint64_t r)
{
	const char *origin = origins[(r >> 11) % COUNT(origins)];
	const char *remark = remarks[(r >> 21) % COUNT(remarks)];
	/* Ten characters: with or without an end within them. */
	char stamp[16] = { 0 };

	snprintf(stamp, sizeof(stamp), "L%0*u", (int) (r % 9) + 2, (unsigned int) (r >> 40) % 100);
	strcat(stamp, "    " + (r % 3) + 1);
	lttng_ust_tracepoint(mill, label, origin, stamp, remark, strlen(remark));
}

static void *grinder(void *arg)
{
	int me = *(int *) arg;
	uint64_t state = 0xc0ffee + (uint64_t) me;
	uint64_t i;

	stay_on_cpu(&allowed, me);
	for (i = 0; i < EVENTS; i++) {
		uint64_t r = shuffle(&state);
		static const uint64_t stocks[] = { 0, 1, 12000, UINT64_MAX, UINT64_MAX - 1 };
		static const unsigned int stages[] = { 0, 1, 2, 3, 20, 21, 65535 };

		if (i % 250 == 249)
			lttng_ust_tracepoint(mill, bell);
		else if (r % 100 < 55)
			lttng_ust_tracepoint(mill, grind, me, (uint32_t) (i / 50),
				(int) ((r >> 8) % 13) - 3, (float) ((r >> 16) % 4000) / 16.0f);
		else if (r % 100 < 70)
			lttng_ust_tracepoint(mill, stage, (uint32_t) (i / 100),
				stages[(r >> 8) % COUNT(stages)], stocks[(r >> 16) % COUNT(stocks)],
				150.0 + (double) (r >> 44) / 11000.0);
		else if (r % 100 < 80)
			turn_dials(i, r);
		else if (r % 100 < 90)
			draw_curve(i, r);
		else
			stick_label(r);
		/* Three or four events at a time, then a rest of up to 4 ms. */
		if (r >> 62 == 0)
			pause_us((unsigned int) (r >> 20) % 4000);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[GRINDERS];
	int numbers[GRINDERS];
	int i;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (i = 0; i < GRINDERS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, grinder, &numbers[i]) != 0)
			return 1;
	}
	for (i = 0; i < GRINDERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
