// Objects with several bases, some of them virtual, deleted through each of them.
// command: errors
// record: --data
// expect: nothing
#include <memory>
#include <string>
#include <vector>
#include "../hide.h"

struct named {
    std::string name = "a name that is long enough for the heap";
    virtual ~named() = default;
};
struct left : virtual named {
    long a = 1;
};
struct right : virtual named {
    long b = 2;
};
struct both : left, right {
    std::vector<int> numbers = std::vector<int>(20, 1);
};

int main()
{
    delete HIDE(static_cast<named *>(new both()));
    delete HIDE(static_cast<left *>(new both()));
    delete HIDE(static_cast<right *>(new both()));
    std::vector<std::unique_ptr<right>> all;
    for (int i = 0; i < 9; i++)
        all.push_back(std::make_unique<both>());
    return HIDE(dynamic_cast<left *>(all[3].get())->a) == 77;
}
