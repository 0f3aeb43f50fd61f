// The object behind a pointer is exchanged just before its virtual function is called.
#include "noise.h"
#include <cstdlib>
#include <thread>
struct Shape {
    virtual int corners() const = 0;
};
struct Square : Shape {
    int corners() const override { return 4; }
};
struct Triangle : Shape {
    int corners() const override { return 3; } // CAUSE
};
static Square square;
static Triangle triangle;
static Shape *volatile shape = &square;
static int corners;
static void exchange()
{
    shape = &triangle; // ROOT
}
static void count()
{
    Shape *found = shape; // ROOT
    corners = found->corners(); // ROOT
}
int main()
{
    pthread_t other;
    pthread_create(&other, nullptr, noise, nullptr);
    std::thread a(exchange);
    std::thread b(count);
    a.join();
    b.join();
    pthread_join(other, nullptr); // UNRELATED
    if (corners != 4)
        abort(); // CAUSE
}
