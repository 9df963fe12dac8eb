// The C++ library at work: streams, strings, regular expressions, threads, futures, shared pointers, locales.
// build: -pthread
// lackey: no
// expect: counter size=4 loads=1 modifies=400
// stdout: 3 words, longest elephant
// stdout: 1.5e+03 ff 0042
// stdout: future 5050, shared 1, counter 400
#include <atomic>
#include <future>
#include <iomanip>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#include "access.h"

int counter;

int main()
{
    std::string text = "the elephant sat", longest;
    std::regex word("[a-z]+");
    int words = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i, ++words)
        if (i->str().size() > longest.size())
            longest = i->str();
    std::cout << words << " words, longest " << longest << "\n";
    std::ostringstream stream;
    stream << std::setprecision(3) << 1500.0 << " " << std::hex << 255 << " " << std::setw(4) << std::setfill('0') << std::dec << 42;
    std::cout << stream.str() << std::endl;
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::unordered_map<int, std::string> shared_map;
    for (int n = 0; n < 4; n++)
        threads.emplace_back([&, n] {
            for (int i = 0; i < 100; i++) {
                std::lock_guard<std::mutex> lock(mutex);
                shared_map[i % 10 * n] += 'x';
                MODIFY("incl", counter);
            }
        });
    for (auto &thread : threads)
        thread.join();
    auto sum = std::async(std::launch::async, [] {
        std::vector<int> numbers(100);
        std::iota(numbers.begin(), numbers.end(), 1);
        return std::accumulate(numbers.begin(), numbers.end(), 0);
    });
    auto pointer = std::make_shared<int>(7);
    {
        auto copy = pointer;
    }
    std::cout << "future " << sum.get() << ", shared " << pointer.use_count() << ", counter " << LOAD(counter) << std::endl;
    return 0;
}
