// What recordings of arguments and return values of C++ run.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP __attribute__((noinline))

static volatile long sink;

enum class Shade : unsigned char { dark = 1, light = 200 };
enum Flags { NONE = 0, READ = 1, WRITE = 2, EXEC = 4, NEGATIVE = -5 };

struct Small {
	int a, b;
};

struct Large {
	double all[5];
};

KEEP int by_value(Small small, Large large)
{
	return small.a + static_cast<int>(large.all[0]);
}

KEEP Large make_large(int a)
{
	return { { static_cast<double>(a) } };
}

KEEP std::string text(const std::string &a, std::string b)
{
	return a + b;
}

KEEP const char *letters(const char *a)
{
	return a;
}

KEEP Shade shade(Shade s)
{
	return s;
}

KEEP Flags flags(Flags f)
{
	return f;
}

KEEP long double wide(long double a, float b, double c)
{
	return a + b + c;
}

KEEP bool truth(bool b, char c, signed char d, unsigned char e, wchar_t w, char16_t u)
{
	return b && c && d && e && w && u;
}

KEEP unsigned long long large(unsigned long long a, long long b, unsigned u, short s)
{
	return a + static_cast<unsigned long long>(b) + u + static_cast<unsigned long long>(s);
}

KEEP void target(int n)
{
	sink += n;
}

KEEP void *function(void (*f)(int), const void *data)
{
	sink += data != nullptr;
	return reinterpret_cast<void *>(f);
}

KEEP std::unique_ptr<int> owner(std::unique_ptr<int> p)
{
	return p;
}

struct Guard {
	KEEP ~Guard() { target(1); }
};

KEEP int thrower(int n)
{
	if (n == 0)
		throw std::runtime_error("out");
	return thrower(n - 1) + 1;
}

KEEP int guarded(int n)
{
	Guard guard;
	return thrower(n);
}

KEEP void catches()
{
	for (int i = 0; i < 3; i++) {
		try {
			guarded(i);
		} catch (const std::exception &) {
			target(i);
		}
	}
	try {
		try {
			guarded(2);
		} catch (...) {
			target(9);
			throw;
		}
	} catch (const std::runtime_error &) {
		target(10);
	}
}

struct Shape {
	virtual ~Shape() { target(2); }
	virtual int work(int n) = 0;
};

struct Left : virtual Shape {
	KEEP int work(int n) override { return n; }
};

struct Right : virtual Shape {
	KEEP int work(int n) override { return n + 1; }
};

struct Both : Left, Right {
	KEEP int work(int n) override { return Left::work(n) + Right::work(n); }
};

int main()
{
	const char *texts[] = { "plain", "", "NULL", nullptr, "\xe4\xf6", "a\xe4", "tab\there\nline\rcr\x7f", "caf\xc3\xa9\n\"q\" \\",
				"\x01\x02\b%s %n" };

	by_value({ 1, 2 }, { { 1, 2, 3 } });
	make_large(2);
	for (const char *a : texts) {
		letters(a);
		if (a != nullptr)
			text(a, std::string(a) + "\xff");
	}
	text(std::string("a\0b", 3), std::string(300, 'y'));
	for (int length : { 97, 98, 99, 500 })
		letters(std::string(static_cast<size_t>(length), length == 97 ? '\n' : 'k').c_str());
	for (int s : { 1, 200, 7 })
		shade(static_cast<Shade>(s));
	for (int f : { 0, 1, 3, 7, 9, -5, -1, 1000000 })
		flags(static_cast<Flags>(f));
	wide(1.5L, -2.5f, 1e300);
	wide(123456789.123456789L, 1e-30f, -0.0);
	truth(true, 'a', -3, 250, L'w', u'\u00e4');
	truth(true, '\'', '\n', '\\', L'\'', u'\uffff');
	truth(true, static_cast<char>(0xe4), '\b', 1, 1, 1);
	truth(false, 0, 0, 0, 0, 0);
	large(~0ULL, -1, ~0u, -1);
	large(100001, -100001, 100000, -32768);
	function(target, texts);
	function(nullptr, reinterpret_cast<void *>(main));
	owner(std::make_unique<int>(3));
	catches();
	Both both;
	both.work(3);
	return 0;
}
