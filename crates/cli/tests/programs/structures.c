// Structures by value, in registers and on the stack. What each call was given, and gave, is written as `function place bytes`.
#include <stdio.h>

struct small { char a; };
struct point { int x, y; };
struct pair { long a, b; };
struct floats { float x, y; };
struct doubles { double x, y; };
struct mixed { long a; double b; };
struct turned { double a; long b; };
struct three { int a, b, c; };
struct large { long a, b, c; };
struct text { char c[13]; };
struct wide { long double x; };
struct __attribute__((packed)) packed { char a; long b; };
struct __attribute__((packed, aligned(16))) fixed { char a; long b; char c[7]; };
struct __attribute__((packed)) tight { long double x; };
typedef struct large __attribute__((aligned(16))) moved;
struct empty {};
struct inner { struct point p[2]; };
struct bits { int a : 3, b : 29; };
union either { long a; double b; };
union single { float a; double b; };
struct longest { char c[1020]; };
struct longer { char c[1024]; };
typedef struct { short a[3]; } unnamed;
typedef float vector __attribute__((vector_size(16)));

__attribute__((no_instrument_function)) static void put(const char *function, const char *place, const void *value, unsigned long len) {
    printf("%s %s ", function, place);
    for (unsigned long i = 0; i < len; i++) printf("%02x", ((const unsigned char *)value)[i]);
    puts("");
}

#define SAME(type, name) \
    type same_##name(type value) { put("same_" #name, "0", &value, sizeof value); return value; }
#define CALL(type, name, ...) \
    do { \
        type value = same_##name((type)__VA_ARGS__); \
        put("same_" #name, "r", &value, sizeof value); \
    } while (0)

SAME(struct small, small)
SAME(struct point, point)
SAME(struct pair, pair)
SAME(struct floats, floats)
SAME(struct doubles, doubles)
SAME(struct mixed, mixed)
SAME(struct turned, turned)
SAME(struct three, three)
SAME(struct large, large)
SAME(struct text, text)
SAME(struct packed, packed)
SAME(struct inner, inner)
SAME(struct bits, bits)
SAME(union either, either)
SAME(union single, single)
SAME(unnamed, unnamed)
SAME(vector, vector)
SAME(__int128, number)

struct wide same_wide(struct wide value) {
    put("same_wide", "0", &value, 10);
    return value;
}

struct empty nothing(struct empty value) { return value; }

int many(int a, struct point b, struct pair c, double d, struct mixed e, struct large f, struct doubles g, int h, struct pair i, struct point j) {
    put("many", "1", &b, sizeof b);
    put("many", "2", &c, sizeof c);
    put("many", "4", &e, sizeof e);
    put("many", "5", &f, sizeof f);
    put("many", "6", &g, sizeof g);
    put("many", "8", &i, sizeof i);
    put("many", "9", &j, sizeof j);
    return a + h + (int)d;
}

// One register is left, which is for the next.
int spilled(long a, long b, long c, long d, long e, struct pair f, long g, struct wide h, struct small i) {
    put("spilled", "5", &f, sizeof f);
    put("spilled", "7", &h, 10);
    put("spilled", "8", &i, sizeof i);
    return (int)(a + b + c + d + e + g);
}

int spilled_floats(double a, double b, double c, double d, double e, double f, double g, struct doubles h, double i) {
    put("spilled_floats", "7", &h, sizeof h);
    return (int)(a + b + c + d + e + f + g + i);
}

// After one word: where it is aligned, though it is packed, and where it is not, by another name of its type.
int odd(long a, long b, long c, long d, long e, long f, long g, struct fixed h, long i, moved j) {
    put("odd", "7", &h, sizeof h);
    put("odd", "9", &j, sizeof j);
    return (int)(a + b + c + d + e + f + g + i);
}

// Nothing says that it is packed, and so where it is.
int unknown(long a, long b, long c, long d, long e, long f, long g, struct tight h, long i) {
    fflush(stdout);
    return (int)(a + b + c + d + e + f + g + h.x + i);
}

int most(struct longest value) {
    put("most", "0", &value, sizeof value);
    return value.c[0];
}

int more(struct longer value) {
    fflush(stdout);
    return value.c[0];
}

int main(void) {
    CALL(struct small, small, {'a'});
    CALL(struct point, point, {1, -2});
    CALL(struct pair, pair, {3, -4});
    CALL(struct floats, floats, {1.5f, 2.5f});
    CALL(struct doubles, doubles, {1.25, 2.25});
    CALL(struct mixed, mixed, {5, 6.5});
    CALL(struct turned, turned, {7.5, 8});
    CALL(struct three, three, {9, 10, 11});
    CALL(struct large, large, {12, 13, 14});
    CALL(struct text, text, {"hello, world"});
    CALL(struct packed, packed, {'p', 77});
    CALL(struct inner, inner, {{{1, 2}, {3, 4}}});
    CALL(struct bits, bits, {-1, 1000});
    CALL(union either, either, {.b = 0.5});
    CALL(union single, single, {.b = 0.25});
    CALL(unnamed, unnamed, {{1, 2, 3}});
    CALL(vector, vector, {1, 2, 3, 4});
    CALL(__int128, number, 15);
    struct wide wide = same_wide((struct wide){1.5L});
    put("same_wide", "r", &wide, 10);
    nothing((struct empty){});
    many(1, (struct point){2, 3}, (struct pair){4, 5}, 6.5, (struct mixed){7, 8.5}, (struct large){9, 10, 11}, (struct doubles){12.5, 13.5}, 14, (struct pair){15, 16}, (struct point){17, 18});
    spilled(1, 2, 3, 4, 5, (struct pair){6, 7}, 8, (struct wide){9.5L}, (struct small){'s'});
    spilled_floats(1, 2, 3, 4, 5, 6, 7, (struct doubles){8.5, 9.5}, 10);
    odd(1, 2, 3, 4, 5, 6, 7, (struct fixed){'f', 8, "packed"}, 9, (moved){10, 11, 12});
    unknown(1, 2, 3, 4, 5, 6, 7, (struct tight){8.5L}, 9);
    struct longest longest;
    for (int i = 0; i < 1020; i++) longest.c[i] = i * 7;
    most(longest);
    more((struct longer){{1}});
    return 0;
}
