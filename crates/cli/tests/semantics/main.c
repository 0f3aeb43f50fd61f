int run(int count, char **arguments);
int main(int count, char **arguments) { return run(count, arguments); }
