// Calls with values of all kinds; texts come from the program, so that they are the same wherever it lies.
#include <cstring>
#include <string>

volatile long sink;
static char long_text[300];

// Calls take longer than a step of any clock, so that none is too short for `-t 1ns`.
static inline __attribute__((always_inline, no_instrument_function)) void last() {
    for (volatile int i = 0; i < 100; i++) {}
}

extern "C" {
int ten(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j) {
    last();
    return a - b + c - d + e - f + g - h + i - j;
}
double floats(float a, double b, double c, double d, double e, double f, double g, double h, double i, double j) {
    last();
    return a * b + c + d + e + f + g + h + i + j;
}
float half(float a) {
    last();
    return a / 2;
}
long double wide(long double a) {
    last();
    return a * 2;
}
const char *text(const char *s, char c) {
    last();
    return reinterpret_cast<unsigned long>(s) > 4096 ? s + 1 : nullptr;
}
void *address(void *p) {
    last();
    return p;
}
short narrow(short a, unsigned char b) {
    last();
    return a - b;
}
int mixed(int a, double x, const char *s, double y, long z) {
    last();
    return a + (int)x + (int)strlen(s) + (int)y + (int)z;
}
int length(const std::string &s) {
    last();
    return (int)s.size();
}
int again(int n) {
    last();
    return n == 0 ? 0 : 1 + again(n - 1);
}
}
struct Thing {
    int get(int a) {
        last();
        return a + 1;
    }
};

int main() {
    memset(long_text, 'x', 299);
    sink = ten(1, -2, 3, 4, 5, 6, 7, 8, -9, 10);
    sink = (long)floats(1.5f, 2.25, 3, 4, 5, 6, 7, 8.5, 9.5, 10.5);
    sink = (long)half(3.0f);
    sink = (long)wide(1.25L);
    for (const char *s : {"hello", "", static_cast<const char *>(nullptr), reinterpret_cast<const char *>(16)}) text(s, 'c');
    for (int n = 94; n < 103; n++) text(long_text + 299 - n, 'd');
    address(reinterpret_cast<void *>(0x1234));
    narrow(-3, 200);
    mixed(1, 2.5, "abc", 3.5, 1L << 40);
    length("short");
    length("");
    length(std::string(150, 'y'));
    Thing thing;
    sink = thing.get(41);
    sink = again(3);
    return 0;
}
