// Objects are made in a buffer by placement new and destroyed there.
// command: errors
// record: --data
// expect: nothing
#include <new>
#include <string>
#include <vector>
#include "../hide.h"

int main()
{
    alignas(std::string) unsigned char local[3 * sizeof(std::string)];
    void *heap = HIDE(operator new(3 * sizeof(std::vector<int>)));
    for (int i = 0; i < 3; i++) {
        auto *text = HIDE(new (local + i * sizeof(std::string)) std::string(30 * i, 'x'));
        auto *numbers = HIDE(new (static_cast<std::vector<int> *>(heap) + i) std::vector<int>(i, 1));
        numbers->push_back(text->size());
        text->~basic_string();
        numbers->~vector();
    }
    operator delete(heap);
    return 0;
}
