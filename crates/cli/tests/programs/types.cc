// Calls with values of types that debugging information tells.
#include <string>

enum Color { RED, GREEN = 5, BLUE = -1 };
enum class Small : unsigned char { A, B };
struct Pair { int a, b; };
struct Large { long a, b, c; };
struct Owner {
    long value;
    explicit Owner(long value) : value(value) {}
    Owner(const Owner &other) : value(other.value) {}
    __attribute__((no_instrument_function)) int plus(int n) const { return (int)value + n; }
};
struct Movable {
    int value;
    explicit Movable(int value) : value(value) {}
    Movable(const Movable &) = default;
};
typedef const char *Name;
typedef int (Owner::*Method)(int) const;

extern "C" {
int many(int a, short b, unsigned char c, bool d, long e, unsigned f, int g, signed char h) { return a + b + c + d + e + f + g + h; }
double floats(float a, double b, double c, double d, double e, double f, double g, double h, double i) { return a + b + c + d + e + f + g + h + i; }
long double wide(int a, long double b, double c, long double d, const char *e) { return a + b + c + d + *e; }
Color next(Color color, Small small) { return color == RED && small == Small::B ? GREEN : BLUE; }
Name text(Name name, char c) { return c == 'x' ? nullptr : name; }
bool is_even(unsigned long n) { return n % 2 == 0; }
short narrow(short n) { return n - 1; }
void nothing(void) {}
int by_value(int before, Pair pair, int behind) { return before + pair.a + pair.b + behind; }
Large large(int a) { return {a, a + 1, a + 2}; }
int in_memory(Large large, int a) { return (int)large.c + a; }
long by_reference(Owner owner, int a) { return owner.value + a; }
int size(const std::string &text, int a) { return (int)text.size() + a; }
Owner made(long value) { return Owner(value); }
Movable moved(Movable movable, int value) { return Movable(value + movable.value); }
std::string joined(std::string text, int a) { return text + std::to_string(a); }
int through(int before, Method method, int behind) { return before + behind + 0 * (method == nullptr); }
int call(int (*function)(int), int a) { return function(a); }
int twice(int a) { return a * 2; }
float half(float a) { return a / 2; }
}

int main() {
    many(-1, -2, 200, true, -5, 6, 7, -8);
    floats(1.5f, 2, 3, 4, 5, 6, 7, 8, 9.5);
    wide(1, 2.5L, 3.5, 4.5L, "e");
    next(RED, Small::B);
    next(BLUE, Small::A);
    text("name", 'y');
    text("name", 'x');
    is_even(4);
    narrow(-7);
    nothing();
    by_value(1, Pair{2, 3}, 4);
    large(7);
    in_memory(Large{1, 2, 3}, 4);
    by_reference(Owner(5), 6);
    size("text", 1);
    made(12);
    moved(Movable(1), 13);
    joined("one", 2);
    through(1, &Owner::plus, 1);
    call(twice, 21);
    half(3);
    return 0;
}
