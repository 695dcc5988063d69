// A stand-in for a program of llama.cpp that ggml is linked into: ggml is the real one, over the fake GPUs, and
// computes what names its tensors as llama.cpp does, without a model's weights.
//   inside_program MODEL UBATCH...
// A ubatch is told by the positions of its tokens: "0+256" are those from 0 to 255, and several sequences are
// separated by commas. "shift" computes something on a device that is no ubatch, as shifting the KV cache does.
// The fake GPUs are in the file GGML_BACKEND_PATH, and what computes on the CPU is libggml-cpu.so in the folder
// GGML_BACKEND_DIR. Eight layers are on three devices, the logits on the last, the embeddings on the CPU.

#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

static const int WIDTH = 64, VOCABULARY = 256, LAYERS = 8;

// What a program is known by as one of llama.cpp's.
extern "C" __attribute__((used)) int llama_decode() { return 0; }

static ggml_backend_reg_t cpu(const std::string & folder) {
    void * library = dlopen((folder + "/libggml-cpu.so").c_str(), RTLD_NOW);
    return reinterpret_cast<ggml_backend_reg_t (*)()>(dlsym(library, "ggml_backend_cpu_reg"))();
}

static ggml_context * context_of(size_t tensors) {
    return ggml_init({tensors * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true});
}

// Weights on a device, or on the CPU.
static ggml_tensor * weights(ggml_backend_t backend, int rows) {
    ggml_tensor * made = ggml_new_tensor_2d(context_of(1), GGML_TYPE_F32, WIDTH, rows);
    auto * type = ggml_backend_dev_buffer_type(ggml_backend_get_device(backend));
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, ggml_nbytes(made));
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(buffer, 0);
    ggml_backend_tensor_alloc(buffer, made, ggml_backend_buffer_get_base(buffer));
    return made;
}

static ggml_tensor * input(ggml_context * context, const char * name, int count) {
    ggml_tensor * made = ggml_new_tensor_1d(context, GGML_TYPE_I32, count);
    ggml_set_input(made);
    return ggml_set_name(made, name);
}

struct Model {
    ggml_tensor *embeddings, *layers[LAYERS], *output;
    ggml_backend_sched_t scheduler;
};

static std::vector<int32_t> positions_of(const std::string & text) {
    std::vector<int32_t> found;
    std::istringstream sequences(text);
    for (std::string sequence; std::getline(sequences, sequence, ',');) {
        const int first = atoi(sequence.c_str()), count = atoi(sequence.c_str() + sequence.find('+'));
        for (int i = 0; i < count; i++)
            found.push_back(first + i);
    }
    return found;
}

static void decode(const Model & model, const std::vector<int32_t> & where) {
    const int count = static_cast<int>(where.size());
    ggml_context * context = context_of(64);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_tensor * tokens = input(context, "inp_tokens", count);
    ggml_tensor * positions = input(context, "inp_pos", count);
    ggml_tensor * rows = ggml_get_rows(context, model.embeddings, tokens);
    ggml_set_name(rows, "inp_embd");
    for (int layer = 0; layer < LAYERS; layer++) {
        rows = ggml_mul_mat(context, model.layers[layer], rows);
        rows = ggml_reshape_3d(context, rows, WIDTH, 1, count);
        rows = ggml_rope(context, rows, positions, WIDTH, 0);
        rows = ggml_reshape_2d(context, rows, WIDTH, count);
        rows = ggml_scale(context, rows, 0.5f);
        ggml_set_name(rows, ("l_out-" + std::to_string(layer)).c_str());
    }
    ggml_tensor * logits = ggml_mul_mat(context, model.output, rows);
    ggml_set_name(logits, "result_output");
    ggml_build_forward_expand(graph, logits);
    ggml_backend_sched_reset(model.scheduler);
    ggml_backend_sched_alloc_graph(model.scheduler, graph);
    ggml_backend_tensor_set(tokens, std::vector<int32_t>(count, 1).data(), 0, ggml_nbytes(tokens));
    ggml_backend_tensor_set(positions, where.data(), 0, ggml_nbytes(positions));
    ggml_backend_sched_graph_compute_async(model.scheduler, graph);
}

static void shift(const Model & model) {
    ggml_context * context = context_of(64);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_scale_inplace(context, model.layers[0], 0.5f));
    ggml_backend_sched_reset(model.scheduler);
    ggml_backend_sched_alloc_graph(model.scheduler, graph);
    ggml_backend_sched_graph_compute_async(model.scheduler, graph);
}

// As llama.cpp decides it.
static bool can_pipeline(const std::vector<ggml_backend_dev_t> & devices) {
    bool can = true;
    for (size_t i = 0; i + 1 < devices.size(); i++) {
        ggml_backend_dev_props properties;
        ggml_backend_dev_get_props(devices[i], &properties);
        can = can && properties.caps.async && properties.caps.events;
    }
    return can;
}

int main(int words, char ** arguments) {
    if (words < 2)
        return 2;
    ggml_backend_register(cpu(getenv("GGML_BACKEND_DIR")));
    ggml_backend_load(getenv("GGML_BACKEND_PATH"));
    std::vector<ggml_backend_dev_t> devices;
    for (const char * name : {"FAKE0", "FAKE1", "FAKE2", "CPU"})
        devices.push_back(ggml_backend_dev_by_name(name));
    FILE * file = fopen(arguments[1], "rb");
    if (file == nullptr)
        return 1;
    fclose(file);
    std::vector<ggml_backend_t> backends;
    for (ggml_backend_dev_t device : devices)
        backends.push_back(ggml_backend_dev_init(device, nullptr));
    Model model;
    model.embeddings = weights(backends[3], VOCABULARY);
    for (int layer = 0; layer < LAYERS; layer++)
        model.layers[layer] = weights(backends[layer / 3], WIDTH);
    model.output = weights(backends[2], VOCABULARY);
    model.scheduler = ggml_backend_sched_new(backends.data(), nullptr, 4, 256, can_pipeline(devices), false);
    for (int word = 2; word < words; word++) {
        if (std::string(arguments[word]) == "shift")
            shift(model);
        else
            decode(model, positions_of(arguments[word]));
    }
    ggml_backend_sched_synchronize(model.scheduler);
    for (ggml_backend_t backend : backends)
        ggml_backend_free(backend);
    usleep(100000);  // as a program takes to free its model; what the devices did last is known by then
    puts("0");
    return 0;
}
