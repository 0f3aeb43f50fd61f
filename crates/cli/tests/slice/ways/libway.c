/* Loaded at run time; calls back into the program. */
int apply(int (*function)(int), int n)
{
    return function(n) + 1;
}
