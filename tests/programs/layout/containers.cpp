// Containers of the standard library and a class hierarchy: what their blocks are.
// Nodes of a map, of an unordered map, elements of a vector, characters of strings, shapes by their base class.
// stdout: 24500 300 6 250 45
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

struct Account {
    long balance;
    int visits;
    int flags;
};

struct Point {
    double x, y, weight;
};

class Shape {
public:
    explicit Shape(int id) : id(id) {}
    virtual ~Shape() = default;
    virtual double area() const = 0;
    int id;
};

class Circle : public Shape {
public:
    Circle(int id, double radius) : Shape(id), radius(radius) {}
    double area() const override { return radius; }
    double radius;
};

class Square : public Shape {
public:
    Square(int id, double side) : Shape(id), side(side), unused(0) {}
    double area() const override { return side; }
    double side;
    long unused;
};

__attribute__((noipa)) double areas(const std::vector<std::unique_ptr<Shape>>& all) {
    double sum = 0;
    for (int turn = 0; turn < 10; turn++)
        for (const auto& one : all)
            sum += one->area();
    return sum;
}

__attribute__((noipa)) int ids(const std::vector<std::unique_ptr<Shape>>& all) {
    int sum = 0;
    for (const auto& one : all)
        sum += one->id;
    return sum;
}

__attribute__((noipa)) long balances(const std::map<int, Account>& accounts) {
    long sum = 0;
    for (const auto& one : accounts)
        sum += one.second.balance;
    return sum;
}

__attribute__((noipa)) void visit(std::unordered_map<long, Account>& accounts, long key) {
    accounts.find(key)->second.visits++;
}

__attribute__((noipa)) double weigh(const std::vector<Point>& points) {
    double sum = 0;
    for (const auto& point : points)
        sum += point.weight;
    return sum;
}

__attribute__((noipa)) long spaces(const std::string& text) {
    long sum = 0;
    for (char c : text)
        sum += c == ' ';
    return sum;
}

int main() {
    std::map<int, Account> by_number;
    for (int i = 0; i < 50; i++)
        by_number[i] = Account{i, 0, 0};
    long total = 0;
    for (int i = 0; i < 20; i++)
        total += balances(by_number);
    std::unordered_map<long, Account> by_key;
    for (long i = 0; i < 40; i++)
        by_key.emplace(i * 7, Account{i, 0, 0});
    for (int turn = 0; turn < 5; turn++)
        for (long i = 0; i < 40; i++)
            visit(by_key, i * 7);
    std::vector<Point> points;
    points.reserve(60);
    for (int i = 0; i < 60; i++)
        points.push_back(Point{1, 2, 0.5});
    double weight = 0;
    for (int i = 0; i < 10; i++)
        weight += weigh(points);
    std::string text(1000, 'x');
    text += " and some more words of it";
    long found = spaces(text);
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 10; i++) {
        if (i % 2)
            shapes.push_back(std::make_unique<Circle>(i, 2));
        else
            shapes.push_back(std::make_unique<Square>(i, 3));
    }
    std::printf("%ld %g %ld %g %d\n", total, weight, found, areas(shapes), ids(shapes));
}
