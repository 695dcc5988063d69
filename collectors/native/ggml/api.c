#include "ggml/api.h"
#include "ggml/symbols.h"
#include "ggml/symtab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct ggml_api api;

/* What is linked into the program goes before a library that some other one needs. */
static void *find(const char *name) {
    void *inside = symtab_find(name);
    return inside != NULL ? inside : symbol_find(name);
}

static void find_all(void) {
/* The address of data and of a function are the same thing where dlsym exists. */
#define FIND(name) (*(void **)(void *)&api.name = find(#name))
    FIND(ggml_get_name);
    FIND(ggml_get_data);
    FIND(ggml_nbytes);
    FIND(ggml_nelements);
    FIND(ggml_nrows);
    FIND(ggml_version);
    FIND(ggml_graph_n_nodes);
    FIND(ggml_graph_node);
    FIND(ggml_graph_get_tensor);
    FIND(ggml_backend_dev_name);
    FIND(ggml_backend_dev_description);
    FIND(ggml_backend_dev_memory);
    FIND(ggml_backend_dev_get_props);
    FIND(ggml_backend_dev_type);
    FIND(ggml_backend_dev_backend_reg);
    FIND(ggml_backend_reg_name);
    FIND(ggml_backend_get_device);
    FIND(ggml_backend_dev_buffer_type);
    FIND(ggml_backend_dev_host_buffer_type);
    FIND(ggml_backend_buft_get_device);
    FIND(ggml_backend_buffer_is_host);
    FIND(ggml_backend_sched_get_tensor_backend);
    FIND(ggml_backend_sched_get_n_splits);
    FIND(ggml_backend_sched_get_n_copies);
    FIND(llama_get_model);
    FIND(llama_n_ubatch);
    FIND(llama_n_batch);
    FIND(llama_model_n_layer);
    FIND(llama_model_n_embd);
    FIND(llama_model_n_head);
    FIND(llama_model_n_head_kv);
    FIND(llama_model_get_vocab);
    FIND(llama_vocab_n_tokens);
    FIND(llama_model_meta_val_str);
    FIND(llama_build_number);
#undef FIND
}

const struct ggml_api *ggml_api(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
    return &api;
}

bool api_sees_splits(void) {
    const struct ggml_api *a = ggml_api();
    return a->ggml_get_name && a->ggml_get_data && a->ggml_nbytes && a->ggml_nelements &&
           a->ggml_graph_n_nodes && a->ggml_graph_node && a->ggml_graph_get_tensor &&
           a->ggml_backend_dev_name && a->ggml_backend_dev_type && a->ggml_backend_get_device &&
           a->ggml_backend_buft_get_device && a->ggml_backend_buffer_is_host;
}

bool api_sees_graphs(void) {
    const struct ggml_api *a = ggml_api();
    return api_sees_splits() && a->ggml_backend_sched_get_tensor_backend &&
           a->ggml_backend_sched_get_n_splits && a->ggml_backend_sched_get_n_copies;
}

int layer_of(ggml_object tensor) {
    const char *name = ggml_api()->ggml_get_name(tensor);
    const char *dash = name != NULL ? strrchr(name, '-') : NULL;
    if (dash == NULL || dash[1] < '0' || dash[1] > '9')
        return -1;
    char *end;
    long layer = strtol(dash + 1, &end, 10);
    return (*end == 0 || *end == ' ') && layer < INT16_MAX ? (int)layer : -1;
}
