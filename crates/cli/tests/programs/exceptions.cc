// Exceptions through destructors, caught, thrown again, and within each other.
#include <cstdio>
#include <stdexcept>

static long destroyed;
struct Guard {
    int n;
    explicit Guard(int n) : n(n) {}
    ~Guard() { destroyed += n; }
};
int thrower(int n) {
    Guard guard(n);
    if (n == 0) throw std::runtime_error("deep");
    return thrower(n - 1) + 1;
}
int again(int n) {
    try {
        return thrower(n);
    } catch (const std::exception &) {
        Guard guard(1);
        throw;
    }
}
int nested(int n) {
    try {
        again(n);
    } catch (const std::exception &first) {
        try {
            again(n / 2);
        } catch (const std::exception &second) {
            return first.what()[0] + second.what()[1];
        }
    }
    return 0;
}
int main() {
    long sum = 0;
    for (int i = 0; i < 1000; i++) sum += nested(i % 7);
    std::printf("%ld %ld\n", sum, destroyed);
    return 0;
}
