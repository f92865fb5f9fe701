// A tasting at the roastery: two tasters with a thread each score samples, and one spits a sample out.
//
// Recorded with uftrace: templates, classes, threads, an exception and a jump that leaves calls without their end.

#include <csetjmp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tasting {

struct Sample {
    std::string origin;
    std::vector<int> notes;
};

template <typename T> int sum(const std::vector<T> &values)
{
    return std::accumulate(values.begin(), values.end(), 0);
}

class Taster {
public:
    explicit Taster(unsigned pause_us) : pause_us(pause_us) {}

    int score(const Sample &sample)
    {
        sip();
        if (sample.notes.empty())
            throw std::runtime_error("no notes");
        return sum(sample.notes) / static_cast<int>(sample.notes.size());
    }

private:
    void sip() { usleep(pause_us); }

    unsigned pause_us;
};

void taste(unsigned pause_us, const std::vector<Sample> &samples, int *total)
{
    Taster taster(pause_us);
    for (const Sample &sample : samples) {
        try {
            *total += taster.score(sample);
        } catch (const std::runtime_error &) {
            *total -= 1;
        }
    }
}

static std::jmp_buf door;

void spit(int depth)
{
    if (depth == 0)
        std::longjmp(door, 1);
    spit(depth - 1);
}

void rinse() { usleep(50); }

void leave()
{
    if (setjmp(door) == 0)
        spit(2);
    rinse();
}

} // namespace tasting

int main()
{
    std::vector<tasting::Sample> samples = {
        {"Sidamo", {7, 8, 9}}, {"Huila", {6, 7}}, {"dust", {}}, {"Antigua", {8, 8, 7, 9}}};
    int first = 0, second = 0;
    std::thread one(tasting::taste, 300, std::cref(samples), &first);
    std::thread two(tasting::taste, 500, std::cref(samples), &second);
    one.join();
    two.join();
    tasting::leave();
    return first == second ? 0 : 1;
}
