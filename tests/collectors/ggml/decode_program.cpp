// Decodes tokens with libllama, as a program of one's own does: decode_program MODEL DEVICES TOKENS UBATCH [SPLIT]
// The backends are those in the folder GGML_BACKEND_DIR and the file GGML_BACKEND_PATH, and
// with RPC_SERVERS those at these addresses. DEVICES and SPLIT are separated by commas. With STATE_COPIES the
// sequence is then saved and restored.

#include "ggml-backend.h"
#include "llama.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

static std::vector<std::string> words(const char * text) {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, ',');)
        found.push_back(word);
    return found;
}

// Makes room for the state of the sequence, which takes at least 20 ms, saves and restores it.
static bool save_and_restore(llama_context * context, bool as_once) {
    const size_t size = as_once ? llama_state_seq_get_size(context, 0) : llama_state_seq_get_size_ext(context, 0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<uint8_t> state(size);
    errno = 77;
    const size_t saved = as_once ? llama_state_seq_get_data(context, state.data(), size, 0)
                                 : llama_state_seq_get_data_ext(context, state.data(), size, 0, 0);
    const size_t restored = as_once ? llama_state_seq_set_data(context, state.data(), size, 0)
                                    : llama_state_seq_set_data_ext(context, state.data(), size, 0, 0);
    return saved == size && restored == size && errno == 77;
}

static bool copy_states(llama_context * context, llama_token next) {
    bool good = save_and_restore(context, true);
    std::thread([&] { good = save_and_restore(context, false) && good; }).join();
    // Asked for, and not used before the next token.
    std::vector<uint8_t> state(llama_state_seq_get_size_ext(context, 0, 0) + (1 << 20));
    llama_decode(context, llama_batch_get_one(&next, 1));
    llama_synchronize(context);
    good = llama_state_seq_get_data_ext(context, state.data(), state.size(), 0, 0) > 0 && good;
    return llama_state_seq_set_data_ext(context, state.data(), 4, 0, 0) == 0 && good; // cut short: an error
}

int main(int count, char ** arguments) {
    if (count < 5)
        return 2;
    ggml_backend_load_all_from_path(getenv("GGML_BACKEND_DIR"));
    ggml_backend_load(getenv("GGML_BACKEND_PATH"));
    if (getenv("RPC_SERVERS")) {
        ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
        auto add = reinterpret_cast<ggml_backend_reg_t (*)(const char *)>(
            ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server"));
        for (const std::string & address : words(getenv("RPC_SERVERS")))
            ggml_backend_register(add(address.c_str()));
    }
    std::vector<ggml_backend_dev_t> devices;
    for (const std::string & name : words(arguments[2]))
        devices.push_back(ggml_backend_dev_by_name(name.c_str()));
    devices.push_back(nullptr);
    std::vector<float> split(128, 1.0f);
    if (count > 5) {
        size_t device = 0;
        for (const std::string & share : words(arguments[5]))
            split[device++] = std::stof(share);
    }
    llama_model_params of_model = llama_model_default_params();
    of_model.n_gpu_layers = 99;
    of_model.devices = devices.data();
    of_model.tensor_split = split.data();
    llama_model * model = llama_model_load_from_file(arguments[1], of_model);
    if (model == nullptr)
        return 1;
    const int tokens = atoi(arguments[3]);
    llama_context_params of_context = llama_context_default_params();
    of_context.n_ctx = tokens + 64;
    of_context.n_batch = tokens;
    of_context.n_ubatch = atoi(arguments[4]);
    of_context.n_threads = of_context.n_threads_batch = 1;
    llama_context * context = llama_init_from_model(model, of_context);
    if (context == nullptr)
        return 1;
    std::vector<llama_token> prompt;
    for (int i = 0; i < tokens; i++)
        prompt.push_back(1 + i % 200);
    const int status = llama_decode(context, llama_batch_get_one(prompt.data(), tokens));
    llama_synchronize(context);
    llama_sampler * sampler = llama_sampler_init_greedy();
    llama_token next = llama_sampler_sample(sampler, context, -1);
    if (status == 0)
        llama_decode(context, llama_batch_get_one(&next, 1));
    llama_synchronize(context);
    if (getenv("STATE_COPIES") && !copy_states(context, next))
        return 3;
    llama_sampler_free(sampler);
    llama_free(context);
    llama_model_free(model);
    printf("%d\n", status);
    return status;
}
