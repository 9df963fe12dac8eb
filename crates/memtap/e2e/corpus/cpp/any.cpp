// Values of any type, and shared pointers with deleters and aliases.
// command: errors
// record: --data
// expect: nothing
#include <any>
#include <memory>
#include <string>
#include <vector>
#include "../hide.h"

struct part {
    long number = 3;
    std::string name = std::string(50, 'x');
};

int main()
{
    std::vector<std::any> all;
    all.emplace_back(std::string(60, 'x'));
    all.emplace_back(std::vector<int>(30, 1));
    all.emplace_back(3l);
    auto copy = all;
    all[0] = 1.5;
    auto whole = std::make_shared<part>();
    std::shared_ptr<std::string> name(whole, &whole->name);
    whole.reset();
    std::shared_ptr<void> erased(new part(), [](part *one) { delete one; });
    std::shared_ptr<long> array(new long[20](), std::default_delete<long[]>());
    return HIDE(name->size() + copy.size()) == 77;
}
