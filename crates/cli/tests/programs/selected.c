/* Calls that options select: some long, some short, recursion, functions that begin and end a pause. */
#include <time.h>

static volatile int work;

/* Long calls sleep: however quick the machine is, they are not shorter. */
void spin(int n) {
    const struct timespec time = {0, n};
    work += n;
    if (n >= 1000000) nanosleep(&time, NULL);
}
void leaf(void) { work++; }
void deep(int n) {
    leaf();
    if (n > 0) deep(n - 1);
    leaf();
}
void both(int n) {
    spin(n);
    leaf();
}
void busy(int n) {
    both(n);
    deep(3);
    both(n / 2);
}
void on(void) { leaf(); }
void off(void) { leaf(); }
void all(int n) {
    busy(n);
    off();
    both(1);
    on();
    spin(n);
    leaf();
}
int main(void) {
    all(10);
    busy(20000000);
    on();
    all(100);
    deep(2);
    return 0;
}
