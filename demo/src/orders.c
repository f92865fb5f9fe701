/* The demo's order desk: 160 orders, one after the other, in one thread. */
#include <stdio.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "common.h"
#include "orders_tp.h"

#define ORDERS 160
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const customers[] = {
	"Ann", "Bj\xc3\xb6rn", "Chiara & sons", "\xe5\x8d\x83\xe6\x98\xa5", "the \"corner\" shop",
};

int main(void)
{
	uint64_t state = 0x0dde5;
	uint32_t id;

	for (id = 1; id <= ORDERS; id++) {
		uint64_t r = shuffle(&state);
		uint16_t goods[4];
		char code[16] = { 0 };
		size_t k;

		for (k = 0; k < COUNT(goods); k++)
			goods[k] = (uint16_t) (r >> (12 * k));
		lttng_ust_tracepoint(orders, taken, id, customers[(r >> 9) % COUNT(customers)],
			goods, (unsigned int) (r % (COUNT(goods) + 1)));
		pause_us((unsigned int) (r >> 32) % 1500);
		lttng_ust_tracepoint(orders, priced, id, (int64_t) (r >> 45) - 5000,
			(double) (r % 40) / 100.0);
		pause_us((unsigned int) (r >> 16) % 1500);
		snprintf(code, sizeof(code), "%llX", (unsigned long long) (r % 0xffffff));
		lttng_ust_tracepoint(orders, sent, id, (unsigned int) (r >> 5) % 7, code);
		if (id % 8 == 0)
			lttng_ust_tracepoint(orders, complaint, id,
				id % 16 == 0 ? "too late" : "beans, not ground coffee: 100 % wrong");
	}
	return 0;
}
