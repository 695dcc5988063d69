/* The functions of ggml and llama.cpp that are called to look at what is there. None is changed. */
#ifndef BUBBLESCOPE_GGML_API_H
#define BUBBLESCOPE_GGML_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects of ggml, looked at only by its own functions and where a comment says so. */
typedef void *ggml_object;

struct ggml_api {
    const char *(*ggml_get_name)(ggml_object tensor);
    void *(*ggml_get_data)(ggml_object tensor);
    size_t (*ggml_nbytes)(ggml_object tensor);
    int64_t (*ggml_nelements)(ggml_object tensor);
    int64_t (*ggml_nrows)(ggml_object tensor);
    const char *(*ggml_version)(void);
    int (*ggml_graph_n_nodes)(ggml_object graph);
    ggml_object (*ggml_graph_node)(ggml_object graph, int number);
    ggml_object (*ggml_graph_get_tensor)(ggml_object graph, const char *name);
    const char *(*ggml_backend_dev_name)(ggml_object device);
    const char *(*ggml_backend_dev_description)(ggml_object device);
    void (*ggml_backend_dev_memory)(ggml_object device, size_t *free, size_t *total);
    void (*ggml_backend_dev_get_props)(ggml_object device, void *properties);
    int (*ggml_backend_dev_type)(ggml_object device);
    ggml_object (*ggml_backend_dev_backend_reg)(ggml_object device);
    const char *(*ggml_backend_reg_name)(ggml_object registry);
    ggml_object (*ggml_backend_get_device)(ggml_object backend);
    ggml_object (*ggml_backend_dev_buffer_type)(ggml_object device);
    ggml_object (*ggml_backend_dev_host_buffer_type)(ggml_object device);
    ggml_object (*ggml_backend_buft_get_device)(ggml_object buffer_type);
    bool (*ggml_backend_buffer_is_host)(ggml_object buffer);
    ggml_object (*ggml_backend_sched_get_tensor_backend)(ggml_object scheduler, ggml_object tensor);
    int (*ggml_backend_sched_get_n_splits)(ggml_object scheduler);
    int (*ggml_backend_sched_get_n_copies)(ggml_object scheduler);
    ggml_object (*llama_get_model)(ggml_object context);
    uint32_t (*llama_n_ubatch)(ggml_object context);
    uint32_t (*llama_n_batch)(ggml_object context);
    int32_t (*llama_model_n_layer)(ggml_object model);
    int32_t (*llama_model_n_embd)(ggml_object model);
    int32_t (*llama_model_n_head)(ggml_object model);
    int32_t (*llama_model_n_head_kv)(ggml_object model);
    ggml_object (*llama_model_get_vocab)(ggml_object model);
    int32_t (*llama_vocab_n_tokens)(ggml_object vocab);
    int32_t (*llama_model_meta_val_str)(ggml_object model, const char *key, char *into, size_t size);
    int (*llama_build_number)(void);
};

/* The functions, found when it is first called; what this version does not have is NULL. */
const struct ggml_api *ggml_api(void);

/* Whether there is all that a scheduler's graph is looked at with, and that its parts are. */
bool api_sees_graphs(void);
bool api_sees_splits(void);

/* The layer that a tensor belongs to by its name, "ffn_out-12"; -1 if it tells none. */
int layer_of(ggml_object tensor);

#endif
