// Tasks by std::async and std::packaged_task.
// command: errors
// expect: nothing
#include <future>
#include <string>
#include <thread>
#include "../hide.h"

int main()
{
    auto text = std::async(std::launch::async, [] { return std::string(HIDE(50), 'x'); });
    std::packaged_task<size_t(std::string)> task([](std::string text) { return text.size(); });
    auto size = task.get_future();
    std::thread thread(std::move(task), text.get());
    thread.join();
    return size.get() == 77;
}
