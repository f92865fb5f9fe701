/* Arguments and results of all kinds, longjmp, alloca: what it prints must not depend on being traced. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct pair { long a, b; };
struct mixed { double a; long b; };
struct large { long a[9]; };

int ten(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) { return a - b + c - d + e - f + g - h + i - j; }
double floats(float a, double b, float c, double d, double e, double f, double g, double h, double i) { return a + b * c - d / e + f - g * h + i; }
long double wide(long double a, long double b) { return a * b + 1; }
struct pair pairs(struct pair p) { struct pair q = { p.b, p.a }; return q; }
struct mixed mixes(struct mixed m) { struct mixed n = { m.b / 2.0, (long)m.a }; return n; }
struct large larges(struct large l) { l.a[8] += l.a[0]; return l; }
int sum(int n, ...) {
    va_list list;
    double s = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++) s += va_arg(list, double);
    va_end(list);
    return (int)s;
}
int stack(int n) {
    char *p = alloca(n);
    memset(p, n, n);
    return n > 1 ? p[n - 1] + stack(n / 2) : p[0];
}
static jmp_buf buffer;
void inner(int n) { if (n == 0) longjmp(buffer, 7); inner(n - 1); }
int outer(int n) { int v = setjmp(buffer); if (v == 0) inner(n); return v; }
int tail(int n) { return n == 0 ? 5 : tail(n - 1); }

int main(void) {
    struct pair p = { 1, 2 };
    struct mixed m = { 9.5, 3 };
    struct large l = { { 1, 2, 3, 4, 5, 6, 7, 8, 9 } };
    printf("%d\n", ten(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    printf("%.6f\n", floats(1, 2, 3, 4, 5, 6, 7, 8, 9));
    printf("%.6Lf\n", wide(1.5L, 2.25L));
    p = pairs(p);
    m = mixes(m);
    l = larges(l);
    printf("%ld %ld %.3f %ld %ld\n", p.a, p.b, m.a, m.b, l.a[8]);
    printf("%d %d %d\n", sum(3, 1.5, 2.5, 3.5), stack(100), tail(10));
    int jumps = 0;
    for (int i = 0; i < 100; i++) jumps += outer(i % 5);
    printf("%d\n", jumps);
    return 3;
}
