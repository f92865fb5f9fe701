/* The library that `programs loads` opens. */
__attribute__((noinline)) static int inside(int n)
{
	return n * 2;
}

int plugin(int n)
{
	return inside(n) + 1;
}
