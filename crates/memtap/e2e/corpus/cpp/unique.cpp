// Unique pointers to objects and arrays, in a vector that grows.
// command: errors
// record: --data
// expect: nothing
#include <memory>
#include <vector>
#include "../hide.h"

struct shape {
    virtual ~shape() = default;
    virtual double area() const = 0;
};

struct square : shape {
    double side;
    explicit square(double side) : side(side) {}
    double area() const override { return side * side; }
};

struct polygon : shape {
    std::unique_ptr<double[]> points;
    int count;
    explicit polygon(int count) : points(new double[count]()), count(count) {}
    double area() const override { return points[count - 1]; }
};

int main()
{
    std::vector<std::unique_ptr<shape>> shapes;
    for (int i = 1; i < 30; i++) {
        shapes.push_back(std::make_unique<square>(i));
        shapes.push_back(std::make_unique<polygon>(i));
    }
    double all = 0;
    for (const auto &shape : shapes)
        all += shape->area();
    return HIDE(static_cast<int>(all)) == 77;
}
