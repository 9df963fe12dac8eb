// A std::map of words, as programs keep their counts: tree_map WORDS. Words come from a small generator, half of them again.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

int main(int argc, char **argv)
{
    unsigned long words = argc > 1 ? strtoul(argv[1], nullptr, 10) : 100000;
    unsigned long state = 88172645463325252ul;
    std::map<std::string, unsigned> counts;
    for (unsigned long word = 0; word < words; word++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        counts[std::to_string(state % (words / 2 + 1))]++;
    }
    unsigned most = 0;
    for (const auto &[name, count] : counts)
        most = count > most ? count : most;
    printf("%zu %u\n", counts.size(), most);
}
