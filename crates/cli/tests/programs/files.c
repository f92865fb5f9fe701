/* Functions of two files that call each other. */
static volatile int work;
/* Calls take longer than a step of any clock, so that none is too short for `-t 1ns`. */
static inline __attribute__((always_inline, no_instrument_function)) void last(void) {
    for (volatile int i = 0; i < 100; i++) {}
}
void aleaf(int n) {
    last();
    work += n;
}
#include "files.h"
void amid(int n) {
    aleaf(n);
    bmid(n);
    bleaf(n);
}
int main(void) {
    for (int i = 0; i < 2; i++) amid(i);
    bmid(3);
    return 0;
}
