/* Functions that begin in many ways, and count their own calls; the numbers are printed. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X) X(leaf) X(choose) X(early) X(product) X(order) X(last) X(first) X(search) X(copied) X(far) X(back)
enum {
#define X(name) COUNT_##name,
    FUNCTIONS(X)
#undef X
        COUNTS
};
static unsigned long counts[COUNTS];
#define COUNT(name) counts[COUNT_##name]++
#define SEPARATE __attribute__((noinline))

static int numbers[64];
static volatile int sink;
static jmp_buf place;

SEPARATE int leaf(int x) { return COUNT(leaf), x * 3 + 1; }
/* By a table of distances or addresses. */
SEPARATE int choose(int x) {
    COUNT(choose);
    switch (x) {
    case 0: return 5;
    case 1: return leaf(x);
    case 2: sink++; return 7;
    case 3: return 9 + leaf(2);
    case 4: return 11;
    case 5: sink += 3; return 2;
    case 6: return 44;
    case 7: return 100;
    default: return x;
    }
}
/* A branch is among the first instructions. */
SEPARATE int early(int x) {
    if (x <= 0) return COUNT(early), 0;
    COUNT(early);
    return choose(x & 7) + leaf(x);
}
SEPARATE double product(double a, double b) { return COUNT(product), a * b + sink; }
/* Values stay in registers from one call to the next: the compiler knows which ones `product` needs. */
static SEPARATE double sum(double a) {
    double all = 0, more = a + 1;
    for (int i = 0; i < 10; i++) all += product(a, i) * more;
    return all;
}
SEPARATE int order(const void *a, const void *b) { return COUNT(order), *(const int *)a - *(const int *)b; }
/* A call becomes a jump. */
SEPARATE int last(int x) { return COUNT(last), early(x + 1); }
/* A call is among the first instructions. */
SEPARATE int first(void) {
    int result = leaf(1);
    return COUNT(first), result + 1;
}
SEPARATE int search(int *at, int n) {
    COUNT(search);
    while (n--)
        if (*at++ == 77) return n;
    return -1;
}
struct large { char bytes[300]; };
SEPARATE struct large copied(struct large it) { return COUNT(copied), it.bytes[0]++, it; }
SEPARATE void back(int x) {
    COUNT(back);
    if (x > 3) longjmp(place, x);
    back(x + 1);
}
SEPARATE int far(int x) {
    COUNT(far);
    int way = setjmp(place);
    if (way == 0) back(x);
    return way + x;
}

int main(void) {
    long all = 0;
    double more = 0;
    struct large it = {{1}};
    for (int i = 0; i < 100; i++) {
        all += early(i - 50) + last(i) + first() + search(numbers, 64) + far(i & 3);
        more += sum(i);
        numbers[i % 64] = all & 1023;
        it = copied(it);
    }
    qsort(numbers, 64, sizeof *numbers, order);
    for (int i = 0; i < 64; i++) printf("%d ", numbers[i]);
    printf("\n%ld %.17g %d\n", all, more, it.bytes[0]);
#define X(name) fprintf(stderr, "%s %lu\n", #name, counts[COUNT_##name]);
    FUNCTIONS(X)
#undef X
    return (int)((unsigned long)all % 61) + 1;
}
