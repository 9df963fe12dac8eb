// A list, a deque and a queue of priorities.
// command: errors
// record: --data
// expect: nothing
#include <deque>
#include <list>
#include <queue>
#include <string>
#include "../hide.h"

int main()
{
    std::list<std::string> list;
    std::deque<long> deque;
    std::priority_queue<int> queue;
    for (int i = 0; i < 300; i++) {
        list.push_front(std::string(i % 30, 'x'));
        deque.push_back(i);
        deque.push_front(-i);
        queue.push(i * 17 % 91);
    }
    list.sort();
    list.unique();
    while (deque.size() > 3)
        deque.pop_front();
    while (queue.size() > 3)
        queue.pop();
    return HIDE(list.size() + deque.size() + queue.size()) == 777;
}
