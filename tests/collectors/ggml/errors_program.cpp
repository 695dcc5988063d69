// Loads a model as programs of llama.cpp do, with a log function of its own; with a second word it aborts.
#include "llama.h"

#include <cstdio>

static void print(ggml_log_level level, const char *text, void *) {
    if (level >= GGML_LOG_LEVEL_WARN)
        std::fputs(text, stderr);
}

int main(int count, char **words) {
    llama_log_set(print, nullptr);
    if (count > 2)
        GGML_ASSERT(count == 17);
    return llama_model_load_from_file(words[1], llama_model_default_params()) == nullptr ? 3 : 0;
}
