/*
 * Function calls for the benchmarks of the commands that follow calls: record-uftrace.sh builds and records it.
 *
 *     calls RECORDS THREADS ARGUMENTS
 *
 * Every thread makes its part of RECORDS / 2 calls. Which function calls which is decided by a generator of fixed
 * seed, so that all runs have the same calls. With ARGUMENTS not 0 some calls go through functions whose names begin
 * with `say_`: the script asks for their arguments.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEP __attribute__((noinline, noclone))

struct state {
	uint64_t random;
	long left;
	int has_arguments;
};

static volatile uint64_t sink;

static KEEP uint32_t draw(struct state *state)
	__attribute__((no_instrument_function));

static KEEP uint32_t draw(struct state *state)
{
	state->random = state->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state->random >> 33);
}

#define LEAF(name, amount) \
	static KEEP void name(struct state *state) \
	{ \
		state->left--; \
		sink += (amount) ^ state->random; \
	}

LEAF(read_word, 1)
LEAF(write_word, 2)
LEAF(hash_byte, 3)
LEAF(compare_keys, 5)
LEAF(copy_cell, 7)
LEAF(next_slot, 11)
LEAF(is_empty, 13)
LEAF(mark_used, 17)

static KEEP uint64_t say_number(struct state *state, uint64_t number)
{
	state->left--;
	return number * 3;
}

static KEEP void say_text(struct state *state, const char *text, int count)
{
	state->left--;
	sink += (uint64_t)text[0] + (uint64_t)count;
}

typedef void (*function)(struct state *);

static const function leaves[] = {read_word, write_word, hash_byte, compare_keys,
				  copy_cell, next_slot,  is_empty,  mark_used};

static void call_leaves(struct state *state, int count)
	__attribute__((no_instrument_function));

static void call_leaves(struct state *state, int count)
{
	static const char *const texts[] = {"apple", "a longer piece of text", "", "pear tree"};

	for (int i = 0; i < count && state->left > 0; i++) {
		uint32_t which = draw(state);
		if (state->has_arguments && which % 8 == 0)
			say_text(state, texts[which / 8 % 4], (int)(which % 1000));
		else if (state->has_arguments && which % 8 == 1)
			sink += say_number(state, which);
		else
			leaves[which % 8](state);
	}
}

#define BRANCH(name, count, callee) \
	static KEEP void name(struct state *state) \
	{ \
		state->left--; \
		call_leaves(state, count); \
		if (state->left > 0 && draw(state) % 4 != 0) \
			callee(state); \
	}

BRANCH(load_row, 3, copy_cell)
BRANCH(find_row, 2, load_row)
BRANCH(insert_row, 4, find_row)
BRANCH(scan_page, 3, insert_row)
BRANCH(open_page, 1, scan_page)
BRANCH(visit_node, 2, open_page)

static KEEP void split_node(struct state *state, int depth)
{
	state->left--;
	call_leaves(state, 1);
	if (depth > 0 && state->left > 0)
		split_node(state, depth - 1);
}

static KEEP void answer(struct state *state)
{
	state->left--;
	visit_node(state);
	if (draw(state) % 3 == 0)
		split_node(state, (int)(draw(state) % 12));
	scan_page(state);
}

static KEEP void *serve(void *argument)
{
	struct state *state = argument;

	state->left--;
	while (state->left > 0)
		answer(state);
	return NULL;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) / 2 : 1000;
	long threads = argc > 2 ? atol(argv[2]) : 1;
	int has_arguments = argc > 3 && atoi(argv[3]) != 0;
	pthread_t others[64];
	struct state states[64];

	if (threads < 1 || threads > 64) {
		fprintf(stderr, "1 to 64 threads\n");
		return 2;
	}
	for (long i = 0; i < threads; i++) {
		states[i] = (struct state){.random = 42 + (uint64_t)i, .left = calls / threads};
		states[i].has_arguments = has_arguments;
		if (i > 0 && pthread_create(&others[i], NULL, serve, &states[i]) != 0) {
			fprintf(stderr, "no thread %ld\n", i);
			return 1;
		}
	}
	serve(&states[0]);
	for (long i = 1; i < threads; i++)
		pthread_join(others[i], NULL);
	return 0;
}
