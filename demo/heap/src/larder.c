// The larder of the bakery: allocations that LTTng-UST's wrapper of the C library records. Some are deliberately never freed.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile sink;

__attribute__((noinline)) static char *note(int number) {
    char *text = malloc(32 + number % 5);
    memset(text, 'n', 32);
    return text;
}

__attribute__((noinline)) static void forget_label(int number) {
    sink = malloc(48);
    *(volatile char *)sink = (char)number;
}

__attribute__((noinline)) static void stack_crates(void) {
    size_t size = 64;
    char *crates = malloc(size);
    for (int round = 0; round < 6; round++) {
        size *= 2;
        crates = realloc(crates, size);
        crates[size - 1] = 1;
        usleep(40000);
    }
    free(crates);
}

static void *shelf(void *argument) {
    int number = (int)(intptr_t)argument;
    for (int round = 0; round < 20; round++) {
        char *text = note(round);
        sink = text;
        if (round % 7 == number) forget_label(round);
        usleep(25000);
        free(text);
    }
    return NULL;
}

int main(void) {
    pthread_t shelves[2];
    for (intptr_t number = 0; number < 2; number++) pthread_create(&shelves[number], NULL, shelf, (void *)number);
    stack_crates();
    int *table = calloc(25, 8);
    sink = table;
    void *aligned = memalign(64, 200), *other = NULL;
    if (posix_memalign(&other, 128, 300) != 0) return 1;
    void *none = NULL;
    if (posix_memalign(&none, 3, 300) == 0) return 1;
    sink = malloc(SIZE_MAX / 4);
    free(aligned);
    free(NULL);
    sink = realloc(other, 0);
    for (int number = 0; number < 2; number++) pthread_join(shelves[number], NULL);
    return 0;
}
