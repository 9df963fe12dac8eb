// One error a run, as errors/cases.c.
// build: -w -O1
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define CASE(name) static __attribute__((noinline, noclone)) void name(bool wrong)

static volatile long seen;

struct Pair {
    long first = 1, second = 2;
};
struct Shape {
    virtual ~Shape() {}
    virtual long area() const { return side; }
    long side = 3;
};
struct Square : Shape {
    long area() const override { return side * side; }
    long more = 1;
};
struct Ring {
    std::shared_ptr<Ring> next;
    long value = 4;
};

/* The compiler leaves away what it can see the whole life of. */
template <typename T> static T *made(T *block)
{
    static T *volatile kept;
    kept = block;
    return kept;
}

template <typename T> static T load(const T *from) { return *const_cast<const volatile T *>(from); }

CASE(new_and_free) { Pair *one = made(new Pair); seen = one->second; wrong ? std::free(one) : delete one; }
CASE(malloc_and_delete) { Pair *one = made(static_cast<Pair *>(std::malloc(sizeof(Pair)))); *(volatile long *)&one->first = 5; if (wrong) delete one; else std::free(one); }
CASE(new_array_and_delete) { long *all = made(new long[5]); *(volatile long *)&all[2] = 1; if (wrong) delete all; else delete[] all; }
CASE(new_and_delete_array) { long *one = made(new long(4)); seen = *one; if (wrong) delete[] one; else delete one; }
CASE(new_array_and_free) { char *all = made(new char[30]); *(volatile char *)&all[3] = 1; if (wrong) std::free(all); else delete[] all; }
CASE(deleted_twice) { Pair *one = made(new Pair); seen = one->first; delete one; if (wrong) delete one; }
CASE(load_after_delete) { Pair *one = made(new Pair[3]); if (wrong) delete[] one; seen = load(&one[2].second); if (!wrong) delete[] one; }
CASE(virtual_call_after_delete) { Shape *one = made(new Square); Pair *other = made(new Pair); if (wrong) { delete one; seen = load(&static_cast<Square *>(one)->more); } else { seen = one->area(); delete one; } delete other; }
CASE(iterator_of_a_vector_that_grew) { std::vector<long> all(5, 1); const long *third = &all[2]; if (wrong) all.resize(100); seen = load(third); }
CASE(characters_of_a_string_that_is_gone) { const char *text; std::string kept(50, 'y'); { std::string lost(50, 'x'); text = wrong ? lost.data() : kept.data(); } seen = load(text + 20); }
CASE(value_of_an_erased_key) { std::map<long, Pair> all; all[1]; all[2]; const Pair *one = &all[1]; if (wrong) all.erase(1); seen = load(&one->second); }
CASE(value_of_an_erased_hash) { std::unordered_map<long, Pair> all; all[1]; all[2]; const Pair *one = &all[1]; if (wrong) all.erase(1); seen = load(&one->second); }
CASE(what_unique_ptr_had) { auto one = std::make_unique<Pair>(); const Pair *raw = one.get(); if (wrong) one.reset(); seen = load(&raw->second); }
CASE(what_shared_ptr_had) { auto one = std::make_shared<Pair>(); const Pair *raw = one.get(); auto two = one; one.reset(); if (wrong) two.reset(); seen = load(&raw->second); }
CASE(past_a_vector) { std::vector<long> all(5, 1); seen = load(all.data() + 4 + wrong); }
CASE(past_an_array) { long *all = made(new long[5]()); seen = load(all + 4 + wrong); delete[] all; }
CASE(before_an_array) { long *all = made(new long[5]()); seen = load(all - wrong); delete[] all; }
CASE(past_an_object) { Square *one = made(new Square); seen = load(reinterpret_cast<long *>(one) + 2 + wrong); delete one; }
CASE(member_that_nobody_wrote) { struct Raw { int id, flags; }; Raw *one = static_cast<Raw *>(::operator new(sizeof(Raw))); one->id = 1; if (!wrong) one->flags = 2; if (load(&one->flags) == 9) seen = 1; ::operator delete(one); }
CASE(elements_that_nobody_wrote) { int *all = made(new int[10]); for (int i = 0; i < 10 - wrong; i++) all[i] = i; for (int i = 0; i < 10; i++) if (load(all + i) == 77) seen = i; delete[] all; }
CASE(never_deleted) { Pair *one = made(new Pair); seen = one->second; if (!wrong) delete one; }
CASE(array_never_deleted) { long *all = made(new long[9]); *(volatile long *)&all[1] = 1; if (!wrong) delete[] all; }
CASE(cycle_of_shared_ptr) { auto one = std::make_shared<Ring>(); one->next = one; if (!wrong) one->next.reset(); }
CASE(released_unique_ptr) { auto one = std::make_unique<Pair>(); seen = one->first; made(one.get()); if (wrong) one.release(); }
CASE(never_used) { std::vector<char> all; if (wrong) all.reserve(1000); else all.assign(1000, 'x'); }

static const struct {
    const char *name, *kind;
    void (*run)(bool);
} cases[] = {
#define OF(name, kind) {#name, kind, name}
    OF(new_and_free, "mismatched_free"), OF(malloc_and_delete, "mismatched_free"),
    OF(new_array_and_delete, "mismatched_free"), OF(new_and_delete_array, "mismatched_free"),
    OF(new_array_and_free, "mismatched_free"), OF(deleted_twice, "invalid_free"),
    OF(load_after_delete, "use_after_free"), OF(virtual_call_after_delete, "use_after_free"),
    OF(iterator_of_a_vector_that_grew, "use_after_free"), OF(characters_of_a_string_that_is_gone, "use_after_free"),
    OF(value_of_an_erased_key, "use_after_free"), OF(value_of_an_erased_hash, "use_after_free"),
    OF(what_unique_ptr_had, "use_after_free"), OF(what_shared_ptr_had, "use_after_free"),
    OF(past_a_vector, "out_of_bounds"), OF(past_an_array, "out_of_bounds"), OF(before_an_array, "out_of_bounds"),
    OF(past_an_object, "out_of_bounds"), OF(member_that_nobody_wrote, "uninitialised"),
    OF(elements_that_nobody_wrote, "uninitialised"), OF(never_deleted, "leak"), OF(array_never_deleted, "leak"),
    OF(cycle_of_shared_ptr, "leak"), OF(released_unique_ptr, "leak"), OF(never_used, "unused"),
};

int main(int argc, char **argv)
{
    for (const auto &one : cases)
        if (argc < 2)
            std::printf("%s %s\n", one.name, one.kind);
        else if (!std::strcmp(argv[1], one.name))
            one.run(argc == 2);
}
