/*
 * plant EVENTS: emit that many events from two threads, as fast as possible.
 *
 * The mix, in parts of 10,000: tick 6,040, note 1,600, span_begin 720,
 * span_end 720, mixed 910, empty 10. It makes about 40 bytes per event.
 */
#include <string.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "plant_tp.h"

#include "workers.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Short words, and some that a printer must escape or decode. */
static const char *const texts[] = {
	"hopper", "burr", "kiln", "conveyor", "cooling", "sieve", "weigh-in",
	"bag line", "tab\there", "say \"when\"", "two\nlines", "c:\\beans",
	"caf\xc3\xa9 5 \xe2\x82\xac", "",
	"a message of some length, as somebody would write it to a log file",
};

static void mixed(uint64_t seq, uint64_t r)
{
	const char *text = texts[(r >> 8) % COUNT(texts)];
	size_t len = strlen(text);
	uint16_t words[4];
	uint8_t bytes[12];
	char fixed[8] = { 0 };
	struct plant_sample s;
	size_t i;

	for (i = 0; i < COUNT(words); i++)
		words[i] = (uint16_t) (r >> (16 * i));
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t) (r >> (5 * i));
	memcpy(fixed, text, len < sizeof(fixed) ? len : sizeof(fixed));

	s.count = seq;
	s.hex = (uint32_t) (r >> 17);
	s.gear = (int) ((r >> 24) % 9) - 1;
	s.phase = (int) ((r >> 32) % 13);
	s.text = text;
	s.words = words;
	s.fixed = fixed;
	s.bytes = bytes;
	s.bytes_len = (uint8_t) ((r >> 40) % (sizeof(bytes) + 1));
	s.text_len = (uint16_t) (len < 8 ? len : 8);
	s.ratio = (double) (seq % 97) / 3.0;
	s.temp = (float) ((r >> 44) % 800) / 8.0f;
	lttng_ust_tracepoint(plant, mixed, &s);
}

static void body(int worker, uint64_t events)
{
	uint64_t state = 0xc0ffee + (uint64_t) worker;
	uint64_t seq;

	for (seq = 0; seq < events; seq++) {
		uint64_t r = next_random(&state);
		uint32_t kind = (uint32_t) r % 10000;
		const char *text = texts[(r >> 40) % COUNT(texts)];

		if (kind < 6040)
			lttng_ust_tracepoint(plant, tick, worker, seq, (uint32_t) (r >> 32));
		else if (kind < 7640)
			lttng_ust_tracepoint(plant, note, worker, text);
		else if (kind < 8360)
			lttng_ust_tracepoint(plant, span_begin, (uint32_t) seq, text);
		else if (kind < 9080)
			lttng_ust_tracepoint(plant, span_end, (uint32_t) seq, text);
		else if (kind < 9990)
			mixed(seq, r);
		else
			lttng_ust_tracepoint(plant, empty);
	}
}

int main(int argc, char **argv)
{
	return run_workers(events_argument(argc, argv), body);
}
