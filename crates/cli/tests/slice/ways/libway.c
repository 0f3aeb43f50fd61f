/* Loaded when the program runs already; calls it back. */
int apply(int (*function)(int), int n)
{
    return function(n) + 1;
}
