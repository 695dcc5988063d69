#define _GNU_SOURCE
#include "ggml/facts.h"
#include "ggml/devices.h"
#include "ggml/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options of the command line, by their names in both kinds of program, and the variables that stand for
 * them. */
struct option {
    const char *fact, *names[4], *variable;
    bool has_value;
};
static const struct option options[] = {
    {"ngl", {"-ngl", "--gpu-layers", "--n-gpu-layers"}, "LLAMA_ARG_N_GPU_LAYERS", true},
    {"sm", {"-sm", "--split-mode"}, "LLAMA_ARG_SPLIT_MODE", true},
    {"ts", {"-ts", "--tensor-split"}, "LLAMA_ARG_TENSOR_SPLIT", true},
    {"dev", {"-dev", "--device"}, "LLAMA_ARG_DEVICE", true},
    {"ub", {"-ub", "--ubatch-size"}, "LLAMA_ARG_UBATCH", true},
    {"b", {"-b", "--batch-size"}, "LLAMA_ARG_BATCH", true},
    {"ot", {"-ot", "--override-tensor"}, "LLAMA_ARG_OVERRIDE_TENSOR", true},
    {"nkvo", {"-nkvo", "--no-kv-offload"}, "LLAMA_ARG_NO_KV_OFFLOAD", false},
    {"cmoe", {"-cmoe", "--cpu-moe"}, "LLAMA_ARG_CPU_MOE", false},
    {"ncmoe", {"-ncmoe", "--n-cpu-moe"}, "LLAMA_ARG_N_CPU_MOE", true},
    {"fa", {"-fa", "--flash-attn"}, "LLAMA_ARG_FLASH_ATTN", true},
    {"np", {"-np", "--parallel"}, "LLAMA_ARG_N_PARALLEL", true},
    {"mg", {"-mg", "--main-gpu"}, "LLAMA_ARG_MAIN_GPU", true},
    {"rpc", {"--rpc", "-rpc"}, "LLAMA_ARG_RPC", true},
    {"LLAMA_GRAPH_REUSE_DISABLE", {NULL}, "LLAMA_GRAPH_REUSE_DISABLE", true},
};
enum { OPTIONS = sizeof options / sizeof *options, LONGEST_COMMAND = 32768 };

/* Their values as text; "" where one is not given. */
static struct {
    char command[LONGEST_COMMAND];
    const char *values[OPTIONS];
} flags;

static bool is_named(const struct option *option, const char *word) {
    for (int i = 0; i < 4 && option->names[i] != NULL; i++)
        if (strcmp(option->names[i], word) == 0)
            return true;
    return false;
}

void read_flags(void) {
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, flags.command, LONGEST_COMMAND - 1) : 0;
    if (file >= 0)
        close(file);
    for (int i = 0; i < OPTIONS; i++) {
        const char *value = getenv(options[i].variable);
        flags.values[i] = value != NULL ? value : "";
    }
    for (const char *word = flags.command; word < flags.command + length; word += strlen(word) + 1)
        for (int i = 0; i < OPTIONS; i++)
            if (is_named(&options[i], word)) {
                const char *next = word + strlen(word) + 1;
                /* llama-bench gives a value to all, others to some only. */
                flags.values[i] = options[i].has_value || strcmp(next, "0") == 0 ? next : "1";
            }
}

static const char *flag(const char *fact) {
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].fact, fact) == 0)
            return flags.values[i];
    return "";
}

/* A variable may say no in several ways. */
static bool is_on(const char *fact) {
    const char *value = flag(fact);
    return *value != 0 && strcmp(value, "0") != 0 && strcmp(value, "false") != 0 && strcmp(value, "off") != 0;
}

static void tell_flags(void) {
    struct json object = json_begin('{');
    for (int i = 0; i < OPTIONS; i++) {
        if (!is_on(options[i].fact) && (!options[i].has_value || *flags.values[i] == 0))
            continue;
        json_add_key(&object, options[i].fact);
        if (options[i].has_value)
            json_add_text(&object, flags.values[i]);
        else
            json_add_true(&object);
    }
    spool_fact("llama_flags", json_end(&object));
}

static void tell_number(const char *name, int64_t number) {
    struct json json = json_begin(0);
    json_add_number(&json, number);
    spool_fact(name, json_end(&json));
}

static void tell_text(const char *name, const char *text) {
    struct json json = json_begin(0);
    json_add_text(&json, text);
    spool_fact(name, json_end(&json));
}

static void tell_version(void) {
    char text[64];
    if (ggml_api()->llama_build_number != NULL)
        snprintf(text, sizeof text, "b%d", ggml_api()->llama_build_number());
    else
        snprintf(text, sizeof text, "ggml %s",
                 ggml_api()->ggml_version != NULL ? ggml_api()->ggml_version() : "of an unknown version");
    tell_text("engine", "llama.cpp");
    tell_text("engine_version", text);
}

static void add_number(struct json *json, const char *key, int32_t (*ask)(ggml_object), ggml_object of) {
    if (ask == NULL || of == NULL)
        return;
    json_add_key(json, key);
    json_add_number(json, ask(of));
}

static void tell_model(ggml_object model) {
    const struct ggml_api *api = ggml_api();
    struct json object = json_begin('{');
    char name[256];
    add_number(&object, "layers", api->llama_model_n_layer, model);
    add_number(&object, "hidden_size", api->llama_model_n_embd, model);
    add_number(&object, "heads", api->llama_model_n_head, model);
    add_number(&object, "kv_heads", api->llama_model_n_head_kv, model);
    if (api->llama_model_get_vocab != NULL)
        add_number(&object, "vocabulary", api->llama_vocab_n_tokens, api->llama_model_get_vocab(model));
    if (api->llama_model_meta_val_str != NULL &&
        api->llama_model_meta_val_str(model, "general.name", name, sizeof name) > 0) {
        json_add_key(&object, "name");
        json_add_text(&object, name);
    }
    spool_fact("model", json_end(&object));
}

void tell_context(ggml_object context) {
    static bool told;
    const struct ggml_api *api = ggml_api();
    if (__atomic_exchange_n(&told, true, __ATOMIC_ACQ_REL))
        return;
    if (api->llama_n_ubatch != NULL)
        tell_number("chunk_tokens", api->llama_n_ubatch(context));
    if (api->llama_n_batch != NULL)
        tell_number("batch_tokens", api->llama_n_batch(context));
    if (api->llama_get_model != NULL)
        tell_model(api->llama_get_model(context));
}

/* Whether a device can compute asynchronously, by what it says of itself: after its name, description,
 * free and total memory, type and id. Older ones have no id, and tell by their functions alone. */
static bool has_events(const struct device *device) {
    enum { ASYNC = 48, EVENTS = 51, FIRST_WITH_ID = 2 };
    unsigned char said[256] = {0};
    const struct ggml_api *api = ggml_api();
    if (device->real.record == NULL)
        return false;
    if (api->ggml_backend_dev_backend_reg == NULL || api->ggml_backend_dev_get_props == NULL)
        return true;
    const int *version = api->ggml_backend_dev_backend_reg(device->handle); /* its first field */
    if (*version < FIRST_WITH_ID)
        return true;
    api->ggml_backend_dev_get_props(device->handle, said);
    return said[ASYNC] != 0 && said[EVENTS] != 0;
}

/* The conditions of a pipeline that do not hold, as far as it shows. */
static void tell_lacks(void) {
    struct json list = json_begin('[');
    const struct device *output = output_device();
    bool all_have_events = true;
    for (int i = 0; device_at(i) != NULL; i++)
        all_have_events = all_have_events && has_events(device_at(i));
    if (device_at(1) == NULL)
        json_add_text(&list, "devices");
    if (output != NULL && output->is_host)
        json_add_text(&list, "ngl");
    if (*flag("sm") != 0 && strcmp(flag("sm"), "layer") != 0)
        json_add_text(&list, "sm");
    if (is_on("nkvo"))
        json_add_text(&list, "nkvo");
    if (*flag("ot") != 0 || is_on("cmoe") || is_on("ncmoe"))
        json_add_text(&list, "ot");
    if (!all_have_events)
        json_add_text(&list, "events");
    spool_fact("llama_pipelining_lacks", json_end(&list));
}

void tell_run(const char *seen_by) {
    tell_version();
    tell_flags();
    tell_text("llama_seen_by", seen_by);
}

static void tell_size(const char *fact, const char *option) {
    char *end;
    long size = strtol(flag(option), &end, 10);
    if (size > 0 && *end == 0)
        tell_number(fact, size);
}

void tell_sizes(void) {
    tell_size("chunk_tokens", "ub");
    tell_size("batch_tokens", "b");
}

void tell_splits(int splits) {
    tell_number("llama_splits", splits);
}

void tell_copies(int copies) {
    tell_number("llama_copies", copies);
}

void tell_pipelining(bool pipelines) {
    spool_fact("llama_pipelining", pipelines ? "true" : "false");
    if (pipelines)
        spool_fact("llama_pipelining_lacks", "[]");
    else
        tell_lacks();
}

void tell_scheduler(ggml_object scheduler) {
    static bool told;
    if (device_at(0) == NULL || __atomic_exchange_n(&told, true, __ATOMIC_ACQ_REL))
        return;
    int copies = ggml_api()->ggml_backend_sched_get_n_copies(scheduler);
    tell_run("symbols and tables");
    tell_splits(ggml_api()->ggml_backend_sched_get_n_splits(scheduler));
    tell_copies(copies);
    tell_pipelining(copies > 1);
}
