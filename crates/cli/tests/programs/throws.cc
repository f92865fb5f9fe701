// Exceptions that pass through functions of the program, of libraries and of a library that is loaded while it runs.
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
    std::string name;
    explicit Guard(const char *name) : name(name) {}
    ~Guard() { std::puts(name.c_str()); }
};

static void deep(int n) {
    Guard guard("guard");
    if (n == 0) throw std::runtime_error("deep");
    deep(n - 1);
}

static void middle(int n) {
    try {
        deep(n);
    } catch (...) {
        Guard guard("again");
        throw;
    }
}

extern "C" int callback(int n) {
    if (n > 2) throw n;
    return n * 2;
}

int main() {
    std::map<std::string, int> words;
    std::istringstream text("a b a c b a");
    for (std::string word; text >> word;) words[word]++;
    for (auto &word : words) std::printf("%s %d\n", word.first.c_str(), word.second);
    for (int n = 0; n < 12; n++) {
        try {
            n % 2 ? middle(n % 4) : deep(n % 4);
        } catch (const std::exception &error) {
            std::puts(error.what());
        }
    }
    std::vector<int> list{3, 1, 2};
    try {
        std::sort(list.begin(), list.end(), [](int a, int b) { return a + b == 3 ? throw 3 : a < b; });
    } catch (int sum) {
        std::printf("sum %d\n", sum);
    }
    void *library = dlopen("./plug.so", RTLD_NOW);
    if (!library) return std::puts(dlerror()), 1;
    auto run = reinterpret_cast<int (*)(int, int (*)(int))>(dlsym(library, "plug_run"));
    for (int n = 0; n < 5; n++) {
        try {
            std::printf("%d\n", run(n, callback));
        } catch (int thrown) {
            std::printf("caught %d\n", thrown);
        }
    }
    dlclose(library);
    try {
        std::string("abc").at(5);
    } catch (const std::out_of_range &) {
        std::puts("range");
    }
    return 0;
}
