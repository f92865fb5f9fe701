// A library that `throws.cc` loads: it calls other libraries, and what the program gives it.
#include <cstdlib>
#include <cstring>
#include <string>

static int helper(int n) {
    char bytes[32];
    std::memset(bytes, n, sizeof bytes);
    return std::atoi("3") + bytes[0];
}

extern "C" int plug_run(int n, int (*callback)(int)) {
    std::string text(n, 'x');
    return helper(n) + callback(n) + static_cast<int>(text.size());
}
