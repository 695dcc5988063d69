// A fake: GPUs that compute nothing, for an unmodified llama.cpp to pipeline over on a machine without any.
//
// A ggml backend of several asynchronous devices FAKE0, FAKE1, ..., each with a queue and a thread, events, and
// copies to the others, as a GPU has them. A graph is a sleep; every tensor stays zero. What each device did
// when is logged by itself, so that tests know the truth from elsewhere than the recording.
//
//   GGML_BACKEND_PATH    this library; llama.cpp loads it
//   FAKE_GPU_NODE_US     of each device, the microseconds that a node of a graph takes: as many as devices
//   FAKE_GPU_TOKEN_NS    of each device, the nanoseconds that a node takes more for each token
//   FAKE_GPU_LOG         a file: a line "DEVICE compute|copy BEGIN_NS END_NS" for each (CLOCK_MONOTONIC)
//   FAKE_GPU_SYNCHRONOUS the devices say that they have no events, if set

#include "ggml-backend-impl.h"

#include <sys/prctl.h>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void sleep_until(int64_t end_ns) {
    const timespec end = {static_cast<time_t>(end_ns / 1000000000), static_cast<long>(end_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
    }
}

std::vector<double> numbers(const char * variable) {
    std::vector<double> found;
    std::istringstream text(getenv(variable) ? getenv(variable) : "");
    for (std::string number; std::getline(text, number, ',');) {
        found.push_back(atof(number.c_str()));
    }
    return found;
}

void log_line(const std::string & device, const char * what, int64_t begin_ns, int64_t end_ns) {
    static FILE * file = getenv("FAKE_GPU_LOG") ? fopen(getenv("FAKE_GPU_LOG"), "a") : nullptr;
    if (file) {
        fprintf(file, "%s %s %lld %lld\n", device.c_str(), what, static_cast<long long>(begin_ns),
                static_cast<long long>(end_ns));
        fflush(file);
    }
}

using Done = std::shared_future<void>;

// Does one thing after the other on a thread of its own.
class Queue {
  public:
    void put(std::function<void()> work) {
        const std::lock_guard<std::mutex> hold(lock_);
        if (!started_) {
            started_ = true;
            std::thread(&Queue::run, this).detach();
        }
        waiting_.push_back(std::move(work));
        more_.notify_one();
    }

    // Done when all is done that was put before.
    Done mark() {
        auto reached = std::make_shared<std::promise<void>>();
        put([reached] { reached->set_value(); });
        return reached->get_future().share();
    }

  private:
    void run() {
        prctl(PR_SET_TIMERSLACK, 1UL);
        for (;;) {
            std::unique_lock<std::mutex> hold(lock_);
            more_.wait(hold, [this] { return !waiting_.empty(); });
            const std::function<void()> work = std::move(waiting_.front());
            waiting_.pop_front();
            hold.unlock();
            work();
        }
    }

    std::mutex lock_;
    std::condition_variable more_;
    std::deque<std::function<void()>> waiting_;
    bool started_ = false;
};

struct Device {
    std::string name;
    double node_us, token_ns;
    Queue queue;
    ggml_backend_device as_ggml;
    ggml_backend_buffer_type buffers;
};

struct Event {
    Done done;
};

Device & of(ggml_backend_dev_t device) { return *static_cast<Device *>(device->context); }
Device & of(ggml_backend_t backend) { return of(backend->device); }
char * at(const ggml_tensor * tensor, size_t offset) { return static_cast<char *>(tensor->data) + offset; }

ggml_guid_t guid() {
    static ggml_guid ours = {0xfa, 0x6e, 0x67, 0x70, 0x75, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    return &ours;
}

bool is_ours(ggml_backend_t backend) { return ggml_guid_matches(backend->guid, guid()); }

// Memory: the host's, which says that it is not.

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_i table = {};
    table.free_buffer = [](ggml_backend_buffer_t buffer) { free(buffer->context); };
    table.get_base = [](ggml_backend_buffer_t buffer) { return buffer->context; };
    table.memset_tensor = [](ggml_backend_buffer_t, ggml_tensor * tensor, uint8_t value, size_t offset, size_t bytes) {
        memset(at(tensor, offset), value, bytes);
    };
    table.set_tensor = [](ggml_backend_buffer_t, ggml_tensor * tensor, const void * data, size_t offset, size_t bytes) {
        memcpy(at(tensor, offset), data, bytes);
    };
    table.get_tensor = [](ggml_backend_buffer_t, const ggml_tensor * tensor, void * data, size_t offset, size_t bytes) {
        memcpy(data, at(tensor, offset), bytes);
    };
    table.cpy_tensor = [](ggml_backend_buffer_t, const ggml_tensor *, ggml_tensor *) { return false; };
    table.clear = [](ggml_backend_buffer_t buffer, uint8_t value) { memset(buffer->context, value, buffer->size); };
    const size_t whole = (size + 511) / 256 * 256;
    void * memory = aligned_alloc(256, whole);
    memset(memory, 0, whole);
    return ggml_backend_buffer_init(type, table, memory, size);
}

// A backend: what a device is asked to do, in order.

void set_async(ggml_backend_t backend, ggml_tensor * tensor, const void * data, size_t offset, size_t bytes) {
    auto kept = std::make_shared<std::string>(static_cast<const char *>(data), bytes);
    char * target = at(tensor, offset);
    of(backend).queue.put([kept, target] { memcpy(target, kept->data(), kept->size()); });
}

void get_async(ggml_backend_t backend, const ggml_tensor * tensor, void * data, size_t offset, size_t bytes) {
    const char * from = at(tensor, offset);
    of(backend).queue.put([from, data, bytes] { memcpy(data, from, bytes); });
}

bool copy_async(ggml_backend_t from, ggml_backend_t to, const ggml_tensor * source, ggml_tensor * target) {
    if (!is_ours(from) || !is_ours(to)) {
        return false;
    }
    Device * sender = &of(from);
    auto copied = std::make_shared<std::promise<void>>();
    const Done done = copied->get_future().share();
    const char * begin = at(source, 0);
    char * end = at(target, 0);
    const size_t bytes = ggml_nbytes(source);
    sender->queue.put([sender, copied, begin, end, bytes] {
        const int64_t begin_ns = now_ns();
        memcpy(end, begin, bytes);
        log_line(sender->name, "copy", begin_ns, now_ns());
        copied->set_value();
    });
    of(to).queue.put([done] { done.wait(); });
    return true;
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph * graph) {
    Device * device = &of(backend);
    const double nodes = ggml_graph_n_nodes(graph);
    const double tokens = static_cast<double>(ggml_graph_node(graph, 0)->ne[1]);
    const int64_t ns = static_cast<int64_t>(nodes * (1000 * device->node_us + device->token_ns * tokens));
    device->queue.put([device, ns] {
        const int64_t begin_ns = now_ns();
        sleep_until(begin_ns + ns);
        log_line(device->name, "compute", begin_ns, now_ns());
    });
    return GGML_STATUS_SUCCESS;
}

void record(ggml_backend_t backend, ggml_backend_event_t event) {
    static_cast<Event *>(event->context)->done = of(backend).queue.mark();
}

void wait(ggml_backend_t backend, ggml_backend_event_t event) {
    const Done done = static_cast<Event *>(event->context)->done;
    if (done.valid()) {
        of(backend).queue.put([done] { done.wait(); });
    }
}

ggml_backend_t make_backend(ggml_backend_dev_t device, const char *) {
    auto * backend = new ggml_backend{};
    backend->guid = guid();
    backend->device = device;
    backend->iface.get_name = [](ggml_backend_t own) { return of(own).name.c_str(); };
    backend->iface.free = [](ggml_backend_t own) {
        of(own).queue.mark().wait();
        delete own;
    };
    backend->iface.set_tensor_async = set_async;
    backend->iface.get_tensor_async = get_async;
    backend->iface.cpy_tensor_async = copy_async;
    backend->iface.synchronize = [](ggml_backend_t own) { of(own).queue.mark().wait(); };
    backend->iface.graph_compute = compute;
    backend->iface.event_record = record;
    backend->iface.event_wait = wait;
    return backend;
}

// A device: what it can do. All of a size, so that layers are spread evenly unless one says otherwise.

void memory(ggml_backend_dev_t, size_t * free_bytes, size_t * total_bytes) {
    *free_bytes = *total_bytes = size_t{8} << 30;
}

void properties(ggml_backend_dev_t device, ggml_backend_dev_props * found) {
    *found = {};
    found->name = of(device).name.c_str();
    found->description = "Fake GPU";
    found->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    memory(device, &found->memory_free, &found->memory_total);
    found->caps.async = found->caps.events = getenv("FAKE_GPU_SYNCHRONOUS") == nullptr;
}

void describe(ggml_backend_device & device) {
    device.iface.get_name = [](ggml_backend_dev_t own) { return of(own).name.c_str(); };
    device.iface.get_description = [](ggml_backend_dev_t) { return "Fake GPU"; };
    device.iface.get_memory = memory;
    device.iface.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
    device.iface.get_props = properties;
    device.iface.init_backend = make_backend;
    device.iface.get_buffer_type = [](ggml_backend_dev_t own) { return &of(own).buffers; };
    device.iface.supports_op = [](ggml_backend_dev_t, const ggml_tensor *) { return true; };
    device.iface.supports_buft = [](ggml_backend_dev_t own, ggml_backend_buffer_type_t type) {
        return type->device == own;
    };
    device.iface.event_new = [](ggml_backend_dev_t own) { return new ggml_backend_event{own, new Event}; };
    device.iface.event_free = [](ggml_backend_dev_t, ggml_backend_event_t event) {
        delete static_cast<Event *>(event->context);
        delete event;
    };
    device.iface.event_synchronize = [](ggml_backend_dev_t, ggml_backend_event_t event) {
        const Done done = static_cast<Event *>(event->context)->done;
        if (done.valid()) {
            done.wait();
        }
    };
}

// The registry: all devices, made once and never taken down, as their threads go on until the process ends.

std::vector<Device *> & devices() {
    static std::vector<Device *> all;
    return all;
}

ggml_backend_reg registry = {
    GGML_BACKEND_API_VERSION,
    {
        [](ggml_backend_reg_t) { return "FAKE"; },
        [](ggml_backend_reg_t) { return devices().size(); },
        [](ggml_backend_reg_t, size_t index) -> ggml_backend_dev_t { return &devices()[index]->as_ggml; },
        [](ggml_backend_reg_t, const char *) -> void * { return nullptr; },
    },
    nullptr,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
    const std::vector<double> node_us = numbers("FAKE_GPU_NODE_US"), token_ns = numbers("FAKE_GPU_TOKEN_NS");
    while (devices().size() < node_us.size()) {
        const size_t number = devices().size();
        auto * device = new Device{};
        device->name = "FAKE" + std::to_string(number);
        device->node_us = node_us[number];
        device->token_ns = number < token_ns.size() ? token_ns[number] : 0;
        device->as_ggml.reg = &registry;
        device->as_ggml.context = device;
        describe(device->as_ggml);
        device->buffers.device = &device->as_ggml;
        device->buffers.context = device;
        device->buffers.iface.get_name = [](ggml_backend_buffer_type_t type) { return of(type->device).name.c_str(); };
        device->buffers.iface.alloc_buffer = allocate;
        device->buffers.iface.get_alignment = [](ggml_backend_buffer_type_t) { return size_t{128}; };
        devices().push_back(device);
    }
    return &registry;
}
