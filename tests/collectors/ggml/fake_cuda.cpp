// A fake of CUDA's driver, libcuda.so.1, for the fake GPUs when they are called CUDA: its events are theirs, and
// happened when somebody first asked after that. There is one context, and its streams are always idle.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <future>

namespace {

// Begins as the events of the fake GPUs do.
struct Event {
    std::shared_future<void> done;
    int64_t happened_ns = 0;
};

int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int context;
enum { SUCCESS, NOT_READY = 600 };

}  // namespace

extern "C" {

int cuCtxGetCurrent(void ** current) {
    *current = &context;
    return SUCCESS;
}

int cuCtxGetDevice(int * device) {
    *device = 0;
    return SUCCESS;
}

int cuDeviceGetUuid(unsigned char uuid[16], int) {
    for (int i = 0; i < 16; i++)
        uuid[i] = static_cast<unsigned char>(i);
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void * pushed) { return pushed == &context ? SUCCESS : 1; }
int cuCtxPopCurrent_v2(void **) { return SUCCESS; }
int cuStreamCreate(void ** stream, unsigned) {
    *stream = &context;
    return SUCCESS;
}

int cuEventCreate(void ** event, unsigned) {
    *event = new Event;
    return SUCCESS;
}

int cuEventRecord(void * recorded, void *) {
    auto * event = static_cast<Event *>(recorded);
    std::promise<void> promise;
    promise.set_value();
    event->done = promise.get_future().share();
    return SUCCESS;
}

int cuEventQuery(void * asked) {
    auto * event = static_cast<Event *>(asked);
    if (event->done.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
        return NOT_READY;
    event->happened_ns = now_ns();
    return SUCCESS;
}

int cuEventElapsedTime(float * milliseconds, void * begin, void * end) {
    const int64_t ns = static_cast<Event *>(end)->happened_ns - static_cast<Event *>(begin)->happened_ns;
    *milliseconds = static_cast<float>(ns) / 1e6f;
    return SUCCESS;
}

}
