// Exceptions through frames with destructors, caught in another function, rethrown, and thrown in a callback.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

static int undone;
struct Undo {
    ~Undo() { undone++; }
};

[[gnu::noinline]] static int deeper(int depth)
{
    Undo undo;
    if (depth == 0)
        throw std::runtime_error("bottom");
    return deeper(depth - 1) + 1;
}

static int again(int depth)
{
    try {
        return deeper(depth);
    } catch (const std::exception &) {
        throw;
    }
}

int main()
{
    int caught = 0;
    for (int depth = 0; depth < 6; depth++)
        try {
            again(depth);
        } catch (const std::runtime_error &error) {
            caught += error.what() == std::string("bottom");
        }
    std::vector<int> numbers{3, 1, 2};
    try {
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) -> bool {
            if (a == 2 || b == 2)
                throw 2;
            return a < b;
        });
    } catch (int two) {
        caught += two == 2;
    }
    return caught == 7 && undone == 21 ? 3 : 4;
}
